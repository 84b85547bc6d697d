"""The generated tasks in one table: how many runs learn each, and when."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

from alignlens.display.render import Cell, Table
from alignlens.studies.shown import NONE
from alignlens.studies.snell2021.network_claim_tests import SCENARIO_NAMES, single_success, success
from alignlens.studies.snell2021.toys import LEARNED, SCENARIOS, TITLES, changes
from alignlens.studies.tables import rounded

if TYPE_CHECKING:
    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.snell2021.evidence import Evidence

COLUMNS = ("task", "runs_of", "runs", "learned", "share", "low", "high", "median_step", "steps")


def toy_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns one record per task, and one per way to begin with heads; no median step if half never learn."""
    records = []
    for copy in evidence.toys.copies:
        step = median(copy.first_steps())
        share = evidence.share(copy.name, copy.converged(), copy.seeds)
        counted = (copy.seeds, copy.converged())
        records.append(_record(evidence, copy.name, TITLES[copy.task], counted, share, step, copy.steps[-1]))
    for heads in evidence.toys.heads:
        counted = heads.trials, heads.successes
        single = single_success(evidence, heads)
        records.append(_record(evidence, heads.name, "single heads", counted, single, math.inf, heads.steps[-1]))
        for name in SCENARIOS:
            learned, runs = heads.learned(name)
            share_of_runs = success(evidence, heads, name)
            label = f"{heads.heads} heads, {SCENARIO_NAMES[name]}"
            if share_of_runs is not None:
                records.append(
                    _record(evidence, heads.name, label, (runs, learned), share_of_runs, math.inf, heads.steps[-1])
                )
    return records


def _record(
    evidence: Evidence, name: str, label: str, counted: tuple[int, int], share: Sampled, step: float, steps: int
) -> dict[str, Any]:
    low, high = share.interval(evidence.draws.level) or (math.nan, math.nan)
    numbers = (*map(rounded, (share.value, low, high)), step if math.isfinite(step) else None, steps)
    return dict(zip(COLUMNS, (name, label, *counted, *numbers), strict=True))


def toys_table(evidence: Evidence, records: list[dict[str, Any]]) -> Table:
    """Returns the table for people."""
    rows = [
        [
            Cell(record["task"]),
            Cell(record["runs_of"]),
            Cell(str(record["runs"]), record["runs"]),
            Cell(str(record["learned"]), record["learned"]),
            Cell(f"{record['share']:.2f}", record["share"]),
            Cell(f"{record['low']:.2f}–{record['high']:.2f}", record["high"] - record["low"]),
            NONE if record["median_step"] is None else Cell(f"{record['median_step']:g}", record["median_step"]),
            Cell(f"{record['steps']:,}", record["steps"]),
        ]
        for record in records
    ]
    header = ("task", "runs of", "runs", "learned", "share", "interval", "median step", "steps")
    changed = [f"{toy.name}, {change}." for toy in evidence.toys.all() if (change := changes(toy.task, toy.settings))]
    notes = [
        f"Learned: the last accuracy is above {LEARNED}. Median step, over all seeds: the first one above it.",
        f"Interval: {evidence.draws.level:g} % Jeffreys interval of the share.",
        *changed,
    ]
    return Table("snell2021-toys", "Generated tasks: how many runs learn them", header, rows, notes, labels=2)
