"""Tables of a study: printed and measured numbers cell by cell, without any form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import ScoredDataset

LONG_COLUMNS = (
    "table", "dataset", "architecture", "method", "column", "published", "ours", "low", "high", "difference", "seeds",
    "spread", "starred", "model", "provenance", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A measured number: mean over model and noise seeds, mean bounds of its interval; or why there is none."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seeds: int = 0
    spread: float = math.nan
    reason: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return not math.isnan(self.mean)


@dataclass(frozen=True)
class Printed:
    """A number in print; ``tuned``: the noise was chosen on sentences of this very cell."""

    value: float
    tuned: bool
    provenance: str


@dataclass(frozen=True)
class StudyCell:
    """One cell; ``difference`` is ours minus the reference: the printed number, or the row that a variant varies."""

    column: str
    ours: Estimate
    printed: Printed | None = None
    reference: float = math.nan

    @property
    def difference(self) -> float:
        """Ours minus the reference; nan where one of them is missing."""
        return self.ours.mean - self.reference

    @property
    def agrees(self) -> bool:
        """Whether the reference lies within our interval."""
        return self.ours.low <= self.reference <= self.ours.high


@dataclass(frozen=True)
class StudyLine:
    """One row: which architecture (or ``aligner``), which model, which method, and how people call them."""

    architecture: str
    model: str
    method: str
    group: str
    label: str
    cells: tuple[StudyCell, ...]


@dataclass(frozen=True)
class StudyTable:
    """A table of one dataset."""

    table: str
    dataset: ScoredDataset
    columns: tuple[str, ...]
    lines: tuple[StudyLine, ...]


def estimate_of(
    values: Sequence[float], lows: Sequence[float] = (), highs: Sequence[float] = (), reason: str = ""
) -> Estimate:
    """Returns the mean over seeds of numbers and bounds that are there; without any number, ``reason``."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Estimate(reason=reason)
    bounds = [[bound for bound in limits if not math.isnan(bound)] for limits in (lows, highs)]
    low, high = (fmean(limits) if limits else math.nan for limits in bounds)
    return Estimate(fmean(known), low, high, len(known), stdev(known) if len(known) > 1 else math.nan)


def long_form(tables: Sequence[StudyTable]) -> list[dict[str, Any]]:
    """Returns one record per cell, keys in the order of LONG_COLUMNS; None where there is no number."""
    records = []
    for table in tables:
        for line in table.lines:
            for cell in line.cells:
                values = (
                    table.table,
                    table.dataset.name,
                    line.architecture,
                    line.method,
                    cell.column,
                    cell.printed.value if cell.printed else None,
                    *(rounded(value) for value in (cell.ours.mean, cell.ours.low, cell.ours.high, cell.difference)),
                    cell.ours.seeds,
                    rounded(cell.ours.spread),
                    "yes" if cell.printed and cell.printed.tuned else "no",
                    line.model,
                    cell.printed.provenance if cell.printed else "",
                    cell.ours.reason,
                )
                records.append(dict(zip(LONG_COLUMNS, values, strict=True)))
    return records


def rounded(value: float) -> float | None:
    """Returns a number for files; None where there is none."""
    return None if math.isnan(value) else round(value, 4)
