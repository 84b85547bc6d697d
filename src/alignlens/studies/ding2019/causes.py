"""Links against the true causes of target words, which are known where the text was generated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from alignlens.results.paths import FORCED
from alignlens.studies.ding2019.layout import METHODS
from alignlens.studies.ding2019.tables import row_groups, scores_of
from alignlens.studies.tables import Estimate, estimate_of, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results, ScoredDataset

COLUMNS = (
    "dataset", "direction", "architecture", "model", "method", "hits", "low", "high", "seeds", "spread", "chance",
)  # fmt: skip


@dataclass(frozen=True)
class CauseLine:
    """One model and method: percentage of linked target words that point at a cause, and what chance would give."""

    architecture: str
    model: str
    method: str
    group: str
    label: str
    hits: Estimate
    chance: float


@dataclass(frozen=True)
class CauseTable:
    """The direction of a dataset whose target words have known causes, in forced decoding."""

    dataset: ScoredDataset
    direction: str
    lines: tuple[CauseLine, ...]


def cause_table(results: Results, dataset: ScoredDataset) -> CauseTable | None:
    """Returns the methods of Table 1 against the true causes, or None where no causes are known."""
    for direction in dataset.directions:
        candidates = (
            _line(results, dataset, direction, architecture, model, group, name)
            for architecture, model, group in row_groups(results, dataset)
            for name in METHODS
        )
        lines = tuple(line for line in candidates if line is not None)
        if lines:
            return CauseTable(dataset, direction, lines)
    return None


def _line(
    results: Results, dataset: ScoredDataset, direction: str, architecture: str, model: str, group: str, name: str
) -> CauseLine | None:
    method = results.protocol.method(name)
    scores = scores_of(results, dataset, model, FORCED, method, direction)
    causes = [score.causes for score in scores if score.causes is not None]
    if not causes:
        return None
    hits = estimate_of(
        [score.hits for score in causes], [score.low for score in causes], [score.high for score in causes]
    )
    known = [score.chance for score in causes if not math.isnan(score.chance)]
    chance = fmean(known) if known else math.nan
    return CauseLine(architecture, model, method, group, METHODS[name], hits, chance)


def records(tables: Sequence[CauseTable]) -> list[dict[str, Any]]:
    """Returns one record per line, keys in the order of COLUMNS; None where there is no number."""
    return [
        dict(
            zip(
                COLUMNS,
                (
                    table.dataset.name,
                    table.direction,
                    line.architecture,
                    line.model,
                    line.method,
                    *(rounded(value) for value in (line.hits.mean, line.hits.low, line.hits.high)),
                    line.hits.seeds,
                    *(rounded(value) for value in (line.hits.spread, line.chance)),
                ),
                strict=True,
            )
        )
        for table in tables
        for line in table.lines
    ]
