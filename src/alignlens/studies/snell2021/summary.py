"""What the main report and the tracker show of the study."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from alignlens.studies.snell2021.layout import (
    ACCURACY,
    AGREEMENT,
    ATTENTION_PROBE,
    ATTENTION_UNIFORM,
    KENDALL,
    MEASURED,
    PROXY_RELEASED,
    RANDOM,
    SALIENCY_UNIFORM,
    Column,
)
from alignlens.studies.snell2021.network_claim_tests import SCENARIO_NAMES
from alignlens.studies.tables import rounded

if TYPE_CHECKING:
    from alignlens.studies.snell2021.agreements import Agreement
    from alignlens.studies.snell2021.evidence import Evidence

_SHOWN = (ATTENTION_UNIFORM, PROXY_RELEASED, SALIENCY_UNIFORM, ATTENTION_PROBE, RANDOM)


def short_agreements(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns the agreements on dev texts, a row per task, in the form that the report reads."""
    rows = [
        {
            "architecture": each.task,
            "method": "classification" if each.classified else "translation",
            "cells": [_cell(each, quantity) for quantity in _SHOWN],
        }
        for each in evidence.dev()
    ]
    if not rows:
        return []
    return [
        {
            "dataset": "agreement",
            "pair": [],
            "sentences": sum(each.items for each in evidence.dev()),
            "caption": "agreement (%) on dev texts; A(β_uf,β_px) in the released order",
            "labels": ["task", "kind"],
            "columns": [Column(MEASURED, quantity).heading() for quantity in _SHOWN],
            "rows": rows,
        }
    ]


def _cell(agreement: Agreement, quantity: str) -> dict[str, Any]:
    row = agreement.row(quantity)
    if row is None or math.isnan(row.value):
        return {"mean": None, "low": None, "high": None, "reason": "not run"}
    return {**{name: rounded(getattr(row, field)) for name, field in _FIELDS.items()}, "reason": ""}


_FIELDS = {"mean": "value", "low": "low", "high": "high"}


def metrics(evidence: Evidence) -> dict[str, float]:
    """Returns numbers under names for the tracker: what a task, a text and a quantity are called is the same always."""
    numbers: dict[str, float] = {}
    for each in evidence.agreements:
        place, measure = f"{each.task}/{each.split}", each.measures[ACCURACY]
        numbers[f"{place}/xi_star"] = measure.star
        for kind in (AGREEMENT, KENDALL):
            for quantity, row in measure.rows[kind].items():
                numbers[f"{place}/{kind}/{_plain(quantity)}"] = row.value
                if kind == AGREEMENT and quantity != RANDOM:
                    numbers[f"{place}/xi/{_plain(quantity)}"] = row.xi
    for copy in evidence.toys.copies:
        numbers[f"toys/{copy.name}/converged"] = copy.converged() / copy.seeds
    for heads in evidence.toys.heads:
        numbers[f"toys/{heads.name}/single"] = heads.successes / heads.trials
        for scenario in SCENARIO_NAMES:
            learned, runs = heads.learned(scenario)
            numbers[f"toys/{heads.name}/{scenario}"] = learned / runs if runs else math.nan
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _plain(quantity: str) -> str:
    """Returns a name that the tracker takes."""
    return quantity.replace(",", "_")
