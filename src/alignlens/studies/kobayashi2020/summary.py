"""What the main report and the tracker show of the study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.results.protocol import KOBAYASHI
from alignlens.studies.kobayashi2020.layers import MEAN, SELECTIONS
from alignlens.studies.kobayashi2020.runs import KINDS, STEPS
from alignlens.studies.tables import Estimate, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.kobayashi2020.layers import Curve


def short_error_rates(results: Results, curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Returns a compact Table 3 of every dataset: one row per scores, step and way to choose a layer."""
    records = []
    for dataset in results.datasets:
        own = {
            (c.setting.model, c.setting.kind, c.setting.step, c.setting.direction): c
            for c in curves
            if (c.setting.dataset, c.setting.extraction) == (dataset.name, KOBAYASHI)
        }
        rows = []
        for model in dict.fromkeys(key[0] for key in own):
            for kind, step, selection in ((k, s, n) for k in KINDS for s in STEPS for n in SELECTIONS if n != MEAN):
                curves_of_row = [own.get((model, kind, step, direction)) for direction in dataset.directions]
                cells = [_numbers(c.estimate(selection) if c else Estimate(reason="no model")) for c in curves_of_row]
                label = f"{KINDS[kind]}, {STEPS[step]}, {SELECTIONS[selection]}"
                rows.append({"architecture": model, "method": label, "cells": cells})
        if rows:
            records.append(
                {
                    "dataset": dataset.name,
                    "pair": list(dataset.pair),
                    "sentences": dataset.sentences,
                    "columns": list(dataset.directions),
                    "rows": rows,
                }
            )
    return records


def _numbers(estimate: Estimate) -> dict[str, Any]:
    numbers = {name: rounded(getattr(estimate, name)) for name in ("mean", "low", "high", "spread")}
    return {**numbers, "seeds": estimate.seeds, "reason": estimate.reason}


def metrics(curves: Sequence[Curve]) -> dict[str, float]:
    """Returns error rates under names for the tracker, by direction, step, scores and way to choose a layer."""
    return {
        f"aer_{c.setting.direction}_{STEPS[c.setting.step]}_{KINDS[c.setting.kind]}_{selection}": estimate.mean
        for c in curves
        if c.setting.extraction == KOBAYASHI
        for selection in SELECTIONS
        if (estimate := c.estimate(selection)).known
    }
