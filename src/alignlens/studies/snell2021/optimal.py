"""Appendix A.1: the attention that would be best, beside the probe, in the variant whose output is linear."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.display.render import Cell, Table
from alignlens.io.trajectories import Trajectory
from alignlens.metrics.agreement import Rows, agreement
from alignlens.metrics.sampled import Sampled
from alignlens.results.paths import TRAJECTORY
from alignlens.studies.shown import NONE, difference, interval, measured
from alignlens.studies.snell2021.layout import BLEU, DEV, printed_task
from alignlens.studies.snell2021.published import stated
from alignlens.studies.snell2021.runs import LINEAR, PROBE
from alignlens.studies.tables import Estimate, rounded

if TYPE_CHECKING:
    from alignlens.results.manifest import Manifest
    from alignlens.studies.snell2021.evidence import Evidence

COLUMNS = ("dataset", "name", "published", "ours", "low", "high", "difference")
_BEST = "optimal_attention"
#: What the table has, by the name of the printed number.
NAMES = {
    "multi30k_agreement_optimal_attention_probe": "A(α_opt,β)",
    "multi30k_bleu_linear_additive_variant": "BLEU, linear output",
    "multi30k_bleu_main_model": "BLEU, usual output",
}


@dataclass(frozen=True)
class Optimal:
    """What is known of a dataset, by the name of the printed number; the agreement is a fraction, as in print."""

    dataset: str
    numbers: dict[str, Estimate]

    def printed(self, name: str) -> float:
        """Returns the number in print, which is of one dataset; nan for others."""
        return stated()[name] if printed_task(self.dataset) == "Multi30k" else math.nan


def read_optimal(manifest: Manifest, evidence: Evidence) -> list[Optimal]:
    """Returns the agreement of best attention and probe in linear models, at the weights that training kept."""
    results = []
    for folder, names in manifest.find(TRAJECTORY):
        if (names["model"], names["split"]) != (LINEAR, DEV):
            continue
        run = Trajectory.open(folder)
        if {_BEST, PROBE} <= set(run.quantities):
            bleu = [numbers[BLEU] for numbers in run.performance.values() if BLEU in numbers]
            estimates = (_agreement(run, evidence), _known(bleu), _usual(evidence, names["dataset"]))
            results.append(Optimal(names["dataset"], dict(zip(NAMES, estimates, strict=True))))
    return results


def _agreement(run: Trajectory, evidence: Evidence) -> Estimate:
    sums, counts = np.zeros(len(run)), np.zeros(len(run))
    for item in range(len(run)):
        best, probe = (Rows.of(run.matrices(run.weights[-1], name, [item])) for name in (_BEST, PROBE))
        agreed = agreement(best, probe)
        sums[item], counts[item] = agreed.sum(), len(agreed)
    value = Sampled(float(sums.sum() / counts.sum()), evidence.draws.ratio(sums, counts))
    low, high = value.interval(evidence.draws.level) or (math.nan, math.nan)
    return Estimate(value.value, low, high, seeds=1) if math.isfinite(low) else Estimate(value.value, seeds=1)


def _usual(evidence: Evidence, dataset: str) -> Estimate:
    """Returns the best BLEU of the model with the usual output."""
    best = [each.measures[BLEU].star for each in evidence.dev() if each.task == dataset and BLEU in each.measures]
    return _known(best)


def _known(numbers: list[float]) -> Estimate:
    return Estimate(max(numbers), seeds=1) if numbers else Estimate(reason="not run")


def optimal_records(results: list[Optimal]) -> list[dict[str, Any]]:
    """Returns one record per number, keys in the order of COLUMNS."""
    records = []
    for each in results:
        for name, ours in each.numbers.items():
            printed = each.printed(name)
            numbers = map(rounded, (printed, ours.mean, ours.low, ours.high, ours.mean - printed))
            records.append(dict(zip(COLUMNS, (each.dataset, name, *numbers), strict=True)))
    return records


def optimal_table(results: list[Optimal]) -> Table:
    """Returns the table for people."""
    rows = []
    for each in results:
        for name, label in NAMES.items():
            ours, printed, digits = each.numbers[name], each.printed(name), 1 if "BLEU" in label else 2
            shown = NONE if math.isnan(printed) else Cell(f"{printed:.{digits}f}", printed)
            agrees = ours.low <= printed <= ours.high
            apart = difference(ours.mean - printed, digits, strong=agrees)
            rows.append([Cell(each.dataset), Cell(label), shown, measured(ours, digits), interval(ours, digits), apart])
    header = ("task", "number", "print", "ours", "interval", "ours − print")
    notes = [
        "The best attention of a target piece is the one with the smallest loss, with everything else unchanged. It is "
        "exact where the output is linear in the context. The agreement is a fraction; BLEU is that of the dev text.",
    ]
    caption = "Appendix A.1: agreement of the best attention with the probe"
    return Table("snell2021-optimal", caption, header, rows, notes, labels=2)
