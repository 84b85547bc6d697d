"""The tests of the claims about BLEU: L02 to L05."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.metrics.sampled import greatest_of, mean_of
from alignlens.studies.claims import Finding, counted_cases, more_than
from alignlens.studies.lu2021.runs import ANNEAL, FIXED, GATE, calibrated
from alignlens.studies.tally import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.lu2021.evidence import Evidence

_NO_PAIR = "no baseline and model with a gate have translated the same text"


def gate_gains(evidence: Evidence) -> Finding:
    """L02: BLEU with the gate is above that of the baseline on every test set."""
    tally, details = evidence.tally(), []
    for test_set in evidence.test_sets:
        gain = evidence.gain(test_set, calibrated(GATE))
        if gain is not None:
            tally.add(test_set.place(), tally.above(gain, 0.0))
            details.append(f"{test_set} {gain.value:+.2f}")
    return (
        counted_cases(tally, unit="test sets", details="; ".join(details)) if tally.cases else Finding(remark=_NO_PAIR)
    )


def fixed_gains_little(evidence: Evidence) -> Finding:
    """L03: over all test sets that have both, the mean gain of the fixed sum is below that of the gate."""
    pairs = [
        (fixed, gate)
        for test_set in evidence.test_sets
        if (fixed := evidence.gain(test_set, calibrated(FIXED))) is not None
        and (gate := evidence.gain(test_set, calibrated(GATE))) is not None
    ]
    if not pairs:
        return Finding(remark="no baseline, fixed sum and gate have translated the same text")
    fixed, gate = (mean_of([pair[side] for pair in pairs]) for side in (0, 1))
    tally = evidence.tally()
    tally.add(Place(f"mean of {len(pairs)}"), tally.below(fixed, gate))
    details = f"mean gains over {len(pairs)} test sets: fixed {fixed.value:+.2f}, gate {gate.value:+.2f}"
    return counted_cases(tally, unit="means", details=details)


def gate_is_best(evidence: Evidence) -> Finding:
    """L04: of the three fusions the gate has the highest BLEU on more than half of the test sets."""
    tally, details = evidence.tally(), []
    for test_set in evidence.test_sets:
        scores = {name: evidence.bleu(test_set.run(calibrated(name))) for name in (FIXED, ANNEAL, GATE)}
        known = {name: each for name, each in scores.items() if each is not None}
        if len(known) < len(scores):
            continue
        best_other = greatest_of([known[FIXED], known[ANNEAL]])
        tally.add(test_set.place(), tally.at_least(known[GATE], best_other))
        details.append(f"{test_set} " + ", ".join(f"{name} {each.value:.2f}" for name, each in known.items()))
    if not tally.cases:
        return Finding(remark="no test set was translated with all three fusions")
    return counted_cases(tally, more_than(0.5), unit="test sets", details="; ".join(details))


def less_text_gains_more(evidence: Evidence) -> Finding:
    """L05: the gain on the smallest amount is above the mean gain on larger ones, of one dataset or of several."""
    datasets = list(dict.fromkeys(test_set.dataset for test_set in evidence.test_sets))
    amounts = {name: gains for name in datasets if (gains := evidence.gains_by_amount(name))}
    groups = {name: gains for name, gains in amounts.items() if len(gains) > 1}
    if not groups:
        whole = {pairs: gain for gains in amounts.values() for pairs, gain in gains.items()}
        groups = {"all datasets": dict(sorted(whole.items()))} if len(whole) > 1 else {}
    tally, details = evidence.tally(), []
    for name, gains in groups.items():
        smallest, *larger = gains.values()
        tally.add(Place(name), tally.above(smallest, mean_of(larger)))
        details.append(f"{name} " + ", ".join(_gained(pairs, gain) for pairs, gain in gains.items()))
    if not tally.cases:
        return Finding(remark="one amount of text alone; see the settings pairs and datasets")
    return counted_cases(tally, unit="datasets", details="; ".join(details))


def _gained(pairs: int, gain: Sampled) -> str:
    return f"{pairs:,} pairs {gain.value:+.2f}"


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "L02": gate_gains,
    "L03": fixed_gains_little,
    "L04": gate_is_best,
    "L05": less_text_gains_more,
}
