"""What other pages show of the study: its numbers in short, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.results.paths import FORCED
from alignlens.studies.ding2019.tables import error_table
from alignlens.studies.tables import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.ding2019.causes import CauseTable
    from alignlens.studies.tables import Estimate


def short_error_rates(results: Results) -> list[dict[str, Any]]:
    """Returns Table 1 of every dataset with attributed models: models and methods only, without print."""
    records = []
    for dataset in results.datasets:
        table = error_table(results, dataset, FORCED)
        rows = [
            {
                "architecture": line.group,
                "method": line.label,
                "cells": [_numbers(cell.ours) | {"reason": cell.ours.reason} for cell in line.cells],
            }
            for line in table.lines
            if line.architecture != "aligner" and any(cell.ours.known for cell in line.cells)
        ]
        if rows:
            records.append(
                {
                    "dataset": dataset.name,
                    "pair": list(dataset.pair),
                    "sentences": dataset.sentences,
                    "columns": list(table.columns),
                    "rows": rows,
                }
            )
    return records


def short_causes(tables: Sequence[CauseTable]) -> list[dict[str, Any]]:
    """Returns the hits among true causes of every dataset that has them."""
    return [
        {
            "dataset": table.dataset.name,
            "direction": table.direction,
            "rows": [
                {
                    "architecture": line.group,
                    "method": line.label,
                    "hits": _numbers(line.hits),
                    "chance": rounded(line.chance),
                }
                for line in table.lines
            ],
        }
        for table in tables
    ]


def _numbers(estimate: Estimate) -> dict[str, float | int | None]:
    numbers = {name: rounded(getattr(estimate, name)) for name in ("mean", "low", "high", "spread")}
    return {**numbers, "seeds": estimate.seeds}
