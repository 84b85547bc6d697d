"""The tests of the claims about agreement: S01 to S06, S15, S19 and S20."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled
from alignlens.studies.claims import Finding, counted_cases
from alignlens.studies.snell2021.layout import (
    ACCURACY,
    AGREEMENT,
    ATTENTION_PROBE,
    ATTENTION_UNIFORM,
    FROZEN,
    KENDALL,
    LOGISTIC_DEFINED,
    LOGISTIC_RELEASED,
    PROXY_DEFINED,
    PROXY_RELEASED,
    RANDOM,
    SALIENCY_UNIFORM,
    Column,
    symbols,
)
from alignlens.studies.tally import Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.studies.snell2021.agreements import Agreement
    from alignlens.studies.snell2021.evidence import Evidence

AGAIN = "again"
_ENOUGH = {"translation": 0.25, "classification": 0.8}
_NEAR = 8.0
_NO_AGREEMENT = "no agreement was measured on a dev text"


def above_chance(quantity: str, other_order: str = "") -> Callable[[Evidence], Finding]:
    """Returns the test that an agreement is more than twice that with shuffled values (S01 to S04)."""

    def test(evidence: Evidence) -> Finding:
        tally, details, remarks = evidence.tally(), [], _collapsed(evidence, quantity)
        for each in evidence.dev():
            agreement, chance = (evidence.sampled(each, name) for name in (quantity, RANDOM))
            tally.add(_place(each), None if chance is None else tally.above(_less(agreement, chance), chance))
            if agreement is not None and chance is not None:
                details.append(
                    f"{each.task} {agreement.value:.1f} against 2 × {chance.value:.1f}{_other(each, other_order)}"
                )
        return _finding(evidence, tally, details, f"no {symbols(quantity)} among the agreements", remarks)

    return test


def _less(agreement: Sampled | None, chance: Sampled) -> Sampled | None:
    return None if agreement is None else agreement - chance


def _other(agreement: Agreement, quantity: str) -> str:
    row = agreement.row(quantity) if quantity else None
    return "" if row is None else f" ({row.value:.1f} as defined)"


def well_into_training(evidence: Evidence) -> Finding:
    """S05: a second run that agrees as much performs well already."""
    tally, details = evidence.tally(), []
    for each in evidence.dev():
        kind = "classification" if each.classified else "translation"
        ratio = _reached(evidence, each)
        tally.add(_place(each, kind), tally.at_least(ratio, _ENOUGH[kind]))
        if ratio is not None:
            row = each.row(ATTENTION_UNIFORM)
            never = ", never agrees more" if row is not None and math.isnan(row.xi) else ""
            details.append(f"{each.task} {ratio.value:.2f}{never}")
    remark = "agreement is resampled, the curve of the second run is not"
    return _finding(evidence, tally, details, "no attention and uniform probe among the agreements", remark)


def _reached(evidence: Evidence, agreement: Agreement) -> Sampled | None:
    """Returns the performance at which a second run agrees more, over the best; 1 if it never does."""
    row, sampled = agreement.row(ATTENTION_UNIFORM), evidence.sampled(agreement, ATTENTION_UNIFORM)
    star = agreement.measures[ACCURACY].star
    if row is None or sampled is None or not star:
        return None
    value = star if math.isnan(row.xi) else row.xi
    curve = agreement.curves.get(AGAIN)
    if curve is None or sampled.samples is None or ACCURACY not in curve.numbers:
        return Sampled(value / star)
    along = np.array(curve.numbers[AGREEMENT])
    performance = np.array([*curve.numbers[ACCURACY], star])
    more = along[None, :] > sampled.samples[:, None]
    first = np.where(more.any(axis=1), more.argmax(axis=1), len(along))
    samples = np.where(np.isnan(sampled.samples), np.nan, performance[first] / star)
    return Sampled(value / star, samples)


def frozen_is_no_help(evidence: Evidence) -> Finding:
    """S06: attention on top of a frozen probe agrees less with attention than the uniform probe does."""
    tally, details = evidence.tally(), []
    for each in evidence.dev():
        if each.row(FROZEN) is None:
            continue
        frozen, uniform = (evidence.sampled(each, name) for name in (FROZEN, ATTENTION_UNIFORM))
        tally.add(_place(each), tally.below(frozen, uniform))
        if frozen is not None and uniform is not None:
            details.append(f"{each.task} {frozen.value:.1f} against {uniform.value:.1f}")
    return _finding(evidence, tally, details, "no model was trained on top of a frozen probe")


def rises_and_falls(evidence: Evidence) -> Finding:
    """S15: the uniform probe agrees most at a checkpoint that is neither the first nor the last."""
    tally, details, short = evidence.tally(), [], []
    for each in evidence.dev():
        curve, peak = each.curves.get(ATTENTION_UNIFORM), evidence.sampled(each, ATTENTION_UNIFORM)
        if curve is None or peak is None or AGREEMENT not in curve.numbers:
            continue
        along = curve.numbers[AGREEMENT]
        if len(along) < 3 or any(map(math.isnan, along)):
            short.append(each.task)
            continue
        inner = max(range(1, len(along) - 1), key=lambda place: along[place])
        # Sentences are known of the maximum alone: how much it varies stands for the others.
        best = Sampled(along[inner], None if peak.samples is None else peak.samples - peak.value + along[inner])
        ends = {"above the first": along[0], "above the last": along[-1]}
        tally.add(_place(each), *(tally.above(best, end, claimed) for claimed, end in ends.items()))
        details.append(
            f"{each.task} {along[0]:.1f}, {along[inner]:.1f} at {_update(curve.weights[inner])}, {along[-1]:.1f}"
        )
    missing = "no curve of the uniform probe"
    if short:
        missing = f"fewer than three checkpoints: {', '.join(short)}"
    remark = "the ends are fixed; the greatest number between them is assumed to vary as the maximum does"
    return _finding(evidence, tally, details, missing, remark)


def logistic_is_as_good(evidence: Evidence) -> Finding:
    """S19: logistic regression and proxy agree with the uniform probe to within 8 points."""
    tally, details = evidence.tally(), []
    for each in evidence.dev():
        if each.row(LOGISTIC_RELEASED) is None:
            continue
        logistic, proxy = (evidence.sampled(each, name) for name in (LOGISTIC_RELEASED, PROXY_RELEASED))
        apart = None if logistic is None or proxy is None else abs(logistic - proxy)
        tally.add(_place(each), tally.at_most(apart, _NEAR))
        if logistic is not None and proxy is not None:
            details.append(f"{each.task} {logistic.value:.1f} and {proxy.value:.1f}{_as_defined(each)}")
    return _finding(evidence, tally, details, "no logistic regression among the agreements")


def _as_defined(agreement: Agreement) -> str:
    rows = [agreement.row(name) for name in (LOGISTIC_DEFINED, PROXY_DEFINED)]
    numbers = " and ".join(f"{row.value:.1f}" for row in rows if row is not None)
    return f" ({numbers} as defined)" if numbers else ""


def ranks_agree(evidence: Evidence) -> Finding:
    """S20: Kendall's tau of all three pairs is positive."""
    tally, details = evidence.tally(), []
    for each in evidence.dev():
        for quantity in (ATTENTION_UNIFORM, PROXY_RELEASED, SALIENCY_UNIFORM):
            tau = each.sampled(evidence.draws, quantity, KENDALL)
            named = Column("A", quantity).heading(KENDALL)
            tally.add(_place(each, named), tally.above(tau, 0))
            if tau is not None:
                details.append(f"{each.task} {named} {tau.value:.1f}")
    return _finding(evidence, tally, details, "no Kendall's tau among the agreements", unit="numbers")


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "S01": above_chance(ATTENTION_UNIFORM),
    "S02": above_chance(PROXY_RELEASED, PROXY_DEFINED),
    "S03": above_chance(SALIENCY_UNIFORM),
    "S04": above_chance(ATTENTION_PROBE),
    "S05": well_into_training,
    "S06": frozen_is_no_help,
    "S15": rises_and_falls,
    "S19": logistic_is_as_good,
    "S20": ranks_agree,
}


def _place(agreement: Agreement, column: str = "") -> Place:
    return Place(agreement.task, column)


def _update(weights: str) -> str:
    return f"update {int(weights):,}" if weights.isdecimal() else weights


def _collapsed(evidence: Evidence, quantity: str) -> str:
    """Returns which probes say the same of all positions, so that they agree with everything."""
    tasks = [each.task for each in evidence.dev() if (row := each.row(quantity)) is not None and row.collapsed]
    return f"left out because most rows have a single value: {', '.join(tasks)}" if tasks else ""


def _finding(
    evidence: Evidence, tally: Tally, details: list[str], missing: str, remark: str = "", unit: str = "tasks"
) -> Finding:
    if not tally.total:
        reason = "; ".join(part for part in (missing, remark if "left out" in remark else "") if part)
        return Finding(remark=reason if evidence.dev() else _NO_AGREEMENT)
    return counted_cases(tally, unit=unit, details="; ".join(details), remark=remark)
