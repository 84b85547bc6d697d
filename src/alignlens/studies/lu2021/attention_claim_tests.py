"""The tests of the claims about attention and masks: L01 and L06 to L12."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled, mean_of
from alignlens.metrics.sampled_ranks import correlation
from alignlens.studies.claims import Finding, counted_cases, every, more_than
from alignlens.studies.lu2021.readings import Run
from alignlens.studies.lu2021.runs import BASELINE, FUSIONS, GATE, calibrated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alignlens.studies.claims import PassRule
    from alignlens.studies.lu2021.evidence import Evidence
    from alignlens.studies.lu2021.readings import Bitext
    from alignlens.studies.tally import Tally

_FEWEST_ALPHAS = 3
_FEWEST_SENTENCES = 10  # whose rows a bin must have: fewer are no sample of it
_STEEP = 1.5
_NO_GATE = "no model with a gate was analysed"


def attention_is_rough(evidence: Evidence) -> Finding:
    """L01: tau of attention and importance is above 0 and below 0.5 in every layer of the baseline."""
    tally, details = evidence.tally(), []
    for run in _runs(evidence, BASELINE):
        taus, others = (evidence.by_layer(run, f"tau_original{suffix}") for suffix in ("", "_without_end"))
        for number, tau in enumerate(taus, 1):
            place = run.test_set.place(f"layer {number}")
            tally.add(place, tally.above(tau, 0.0, "above 0"), tally.below(tau, 0.5, "below 0.5"))
        details.append(f"{run.test_set} {_listed(taus)}, without END {_listed(others)}")
    return _finding(tally, details, "no baseline was analysed", unit="layers")


def penalty_closes_masks(evidence: Evidence) -> Finding:
    """L06: the rank correlation of alpha and the mean mask is above 0.8."""
    tally, details = evidence.tally(), []
    for test_set in evidence.test_sets:
        points = evidence.sweep(test_set)
        if len(points) < _FEWEST_ALPHAS:
            continue
        alphas, masks = [point.alpha for point in points], [point.mask for point in points]
        samples = np.stack([_samples(mask, evidence) for mask in masks], axis=1)
        rho = correlation(alphas, np.array([mask.value for mask in masks]), samples)
        tally.add(test_set.place(), tally.above(rho, 0.8))
        listed = ", ".join(f"{alpha:g}: {mask.value:.3f}" for alpha, mask in zip(alphas, masks, strict=True))
        details.append(f"{test_set} rho {rho.value:.2f} ({listed})")
    return _finding(tally, details, "fewer than three weights of the penalty", unit="sweeps")


def _samples(number: Sampled, evidence: Evidence) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(evidence.draws.samples, number.value) if number.samples is None else number.samples


def masks_agree_more(evidence: Evidence) -> Finding:
    """L07: tau of masks is above that of attention, on average and in more than half of the layers."""
    tally, details = evidence.tally(), []
    for run in _runs(evidence, calibrated(GATE)):
        masks, weights = (evidence.by_layer(run, f"tau_{name}") for name in ("mask", "original"))
        if not masks:
            continue
        better = [mask - weight for mask, weight in zip(masks, weights, strict=True)]
        share = mean_of([_is_positive(each) for each in better])
        # Between half of the layers and one more, so that no share is at the bound.
        bound = (len(better) // 2 + 0.5) / len(better)
        mean = tally.above(mean_of(better), 0.0, "the mean")
        tally.add(run.test_set.place(), mean, tally.above(share, bound, "more than half of the layers"))
        details.append(f"{run.test_set} masks {_listed(masks)}, attention {_listed(weights)}")
    return _finding(tally, details, _NO_GATE, unit="test sets")


def _is_positive(number: Sampled) -> Sampled:
    samples = None if number.samples is None else np.where(np.isnan(number.samples), np.nan, number.samples > 0)
    return Sampled(float(number.value > 0), samples)


def hurts_more(than: str) -> Callable[[Evidence], Finding]:
    """Returns the test that perturbation by masks costs more than something else (L08, L09), for every fusion."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for fusion in FUSIONS:
            for run in _runs(evidence, calibrated(fusion)):
                perturbed, other = (evidence.measured(run, f"loss_{name}") for name in ("perturbed", than))
                if perturbed is None or other is None:
                    continue
                tally.add(run.test_set.place(fusion), tally.above(perturbed, other))
                details.append(f"{run.test_set} {fusion} {perturbed.value:.3f} against {other.value:.3f}")
        return _finding(tally, details, "no model with masks was analysed", unit="models")

    return test


def uncertain_is_changed(evidence: Evidence) -> Finding:
    """L10: in more than half of the layers, divergence rises with entropy, and its ends are far apart."""
    tally, details = evidence.tally(), []
    for run in _runs(evidence, calibrated(GATE)):
        ranks = evidence.by_layer(run, "jsd_entropy_rank")
        for layer, rank in enumerate(ranks):
            lowest, highest = ends(evidence, run, layer)
            apart = None if lowest is None or highest is None else _less(highest, lowest, _STEEP)
            place = run.test_set.place(f"layer {layer + 1}")
            tally.add(place, tally.above(rank, 0.0, "rises with entropy"), tally.above(apart, 0.0, "ends"))
        details.append(f"{run.test_set} correlations {_listed(ranks)}")
    return _finding(tally, details, _NO_GATE, more_than(0.5), unit="layers")


def ends(evidence: Evidence, run: Run, layer: int) -> tuple[Sampled | None, Sampled | None]:
    """Returns the divergence in the lowest and in the highest bin of entropy that enough sentences have rows in."""
    counts = sum(sums.counts["jsd_by_entropy"][:, layer] > 0 for sums in evidence.calibrations[run].values())
    filled = np.flatnonzero(np.sum(counts, axis=0) >= _FEWEST_SENTENCES * len(evidence.calibrations[run]))
    if len(filled) < 2:
        return None, None
    lowest, highest = (evidence.measured(run, "jsd_by_entropy", layer, int(filled[at])) for at in (0, -1))
    return lowest, highest


def _less(one: Sampled, other: Sampled, times: float) -> Sampled:
    """Returns one number minus a multiple of another."""
    samples = None if one.samples is None or other.samples is None else one.samples - times * other.samples
    return Sampled(one.value - times * other.value, samples)


def sharper_over_all(evidence: Evidence) -> Finding:
    """L11: the entropy of attention averaged over layers and heads falls; the mean of all rows stands beside it."""
    tally, details = evidence.tally(), []
    for run in _runs(evidence, calibrated(GATE)):
        of_mean, of_rows = (evidence.measured(run, f"entropy_change_of_{name}") for name in ("mean", "rows"))
        if of_mean is not None and of_rows is not None:
            tally.add(run.test_set.place(), tally.below(of_mean, 0.0))
            details.append(f"{run.test_set} {of_mean.value:+.4f}; mean change of all rows {of_rows.value:+.4f}")
    return _finding(tally, details, _NO_GATE, unit="test sets")


def lower_spread_upper_sharpen(evidence: Evidence) -> Finding:
    """L12: entropy changes more upwards in the lower half of the layers; one in the middle is left out."""
    tally, details = evidence.tally(), []
    for run in _runs(evidence, calibrated(GATE)):
        changes = evidence.by_layer(run, "entropy_change")
        half = len(changes) // 2
        if half:
            lower, upper = mean_of(changes[:half]), mean_of(changes[-half:])
            tally.add(run.test_set.place(), tally.above(lower, upper))
            details.append(f"{run.test_set} lower {lower.value:+.4f}, upper {upper.value:+.4f}")
    return _finding(tally, details, f"{_NO_GATE} and two layers", unit="test sets")


def _runs(evidence: Evidence, model: str) -> Iterator[Run]:
    """Yields a model on all test sets on which it was analysed."""
    test_sets: list[Bitext] = evidence.test_sets
    yield from (run for test_set in test_sets if (run := test_set.run(model)) in evidence.calibrations)


def _listed(numbers: Sequence[Sampled]) -> str:
    return "/".join(f"{each.value:.2f}" for each in numbers)


def _finding(
    tally: Tally, details: Sequence[str], missing: str, rule: PassRule = every, unit: str = "cells"
) -> Finding:
    return counted_cases(tally, rule, unit, details="; ".join(details)) if tally.cases else Finding(remark=missing)


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "L01": attention_is_rough,
    "L06": penalty_closes_masks,
    "L07": masks_agree_more,
    "L08": hurts_more("clean"),
    "L09": hurts_more("shuffled"),
    "L10": uncertain_is_changed,
    "L11": sharper_over_all,
    "L12": lower_spread_upper_sharpen,
}
