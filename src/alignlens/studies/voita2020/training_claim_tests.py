"""The tests of the claims about amounts of text, about training, and about relevance itself: V18 to V28."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled
from alignlens.metrics.sampled_ranks import correlation
from alignlens.studies.claims import Finding, counted_cases
from alignlens.studies.tally import Place
from alignlens.studies.voita2020.claim_tests import single_model_tests
from alignlens.studies.voita2020.evidence import SOURCE, SOURCE_ENTROPY, TARGET_ENTROPY, resampled
from alignlens.studies.voita2020.statistics import third

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from alignlens.studies.tally import Comparison, Tally
    from alignlens.studies.voita2020.evidence import Curves, Evidence, Snapshot

    Numbers = NDArray[np.float64]

_FEWEST_AMOUNTS, _FEWEST_SNAPSHOTS = 3, 4
_SETTLED = 0.21  # of training: 12,000 of 57,000 updates
_NO_AMOUNTS = "fewer than three amounts of training text"
_TOO_SHORT = "sentences are too short for this part of them"
_NO_TIMELINE = "fewer than four snapshots of a training"


def by_amount(quantity: str, part: str, more: bool) -> Callable[[Evidence], Finding]:
    """Returns the test that a number grows (or falls) with the amount of training text (V18 to V21)."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            amounts = evidence.amounts(dataset, evidence.alphas[0])
            if len(amounts) < _FEWEST_AMOUNTS:
                continue
            if not all(range(curves.positions)[_part(curves, part)] for curves in amounts.values()):
                tally.missing += 1
                continue
            sampled = [curves.sampled(quantity, evidence.draws, _part(curves, part)) for curves in amounts.values()]
            values = np.array([each.value for each in sampled])
            samples = np.stack([_samples(each, evidence) for each in sampled], axis=1)
            rho = correlation(np.log(list(amounts)), values, samples)
            tally.add(Place(dataset), (tally.above if more else tally.below)(rho, 0.0))
            listed = ", ".join(f"{pairs:,}: {value:.3f}" for pairs, value in zip(amounts, values, strict=True))
            details.append(f"{dataset} rho {rho.value:.2f} ({listed})")
        return _finding(tally, details, _TOO_SHORT if tally.missing else _NO_AMOUNTS)

    return test


def _part(curves: Curves, part: str) -> slice:
    last = round(0.8 * curves.positions)
    return {"all": slice(1, None), "first": slice(1, last), "last": slice(last, curves.positions - 2)}[part]


def _samples(number: Sampled, evidence: Evidence) -> Numbers:
    return np.full(evidence.draws.samples, number.value) if number.samples is None else number.samples


def of_training(
    compared: Callable[[Evidence, Tally, Sequence[Snapshot]], tuple[Sequence[Comparison | None], str]],
) -> Callable[[Evidence], Finding]:
    """Returns the test of a claim about the snapshots of the first model."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            snapshots = _along(evidence, dataset)
            if len(snapshots) >= _FEWEST_SNAPSHOTS:
                comparisons, text = compared(evidence, tally, snapshots)
                tally.add(Place(dataset), *comparisons)
                details.append(f"{dataset} {text}")
        return _finding(tally, details, _NO_TIMELINE)

    return test


def _along(evidence: Evidence, dataset: str) -> list[Snapshot]:
    """Returns the snapshots of a training, in its order, without what was never trained."""
    timeline = evidence.timelines.get((dataset, evidence.alphas[0]), [])
    return [each for each in timeline if each.update]


def settles_early(
    evidence: Evidence, tally: Tally, snapshots: Sequence[Snapshot]
) -> tuple[Sequence[Comparison | None], str]:
    """V22: the final model is much nearer to an early snapshot than to the first."""
    last = snapshots[-1].update or 0
    near = min(snapshots, key=lambda each: abs((each.update or 0) - _SETTLED * last))
    first = snapshots[0].divergence
    ratio = Sampled(
        float(near.divergence.sum() / first.sum()) if first.sum() else float("nan"),
        evidence.draws.ratio(near.divergence, first),
    )
    return [tally.at_most(ratio, 0.2)], f"{ratio.value:.2f} at update {near.update:,}"


def falls_and_rises(
    *quantities: str,
) -> Callable[[Evidence, Tally, Sequence[Snapshot]], tuple[Sequence[Comparison | None], str]]:
    """Returns the comparisons that the least mean lies inside training, and in its first half (V23, V24)."""

    def compared(
        evidence: Evidence, tally: Tally, snapshots: Sequence[Snapshot]
    ) -> tuple[Sequence[Comparison | None], str]:
        comparisons: list[Comparison | None] = []
        details = []
        for quantity in quantities:
            means = [each.curves.sampled(quantity, evidence.draws) for each in snapshots]
            least = _least(means)
            half = (snapshots[-1].update or 0) / 2
            comparisons += [
                tally.below(means[least], means[0], f"{quantity} below the first"),
                tally.below(means[least], means[-1], f"{quantity} below the last"),
                tally.at_most(Sampled(float(snapshots[least].update or 0)), half, "in the first half"),
            ]
            details.append(f"{quantity} {means[0].value:.3f}, {means[least].value:.3f}, {means[-1].value:.3f}")
        return comparisons, "; ".join(details)

    return compared


def _least(means: Sequence[Sampled]) -> int:
    """Returns the place of the least of all that are neither first nor last."""
    return min(range(1, len(means) - 1), key=lambda place: means[place].value)


def beginning_moves(
    evidence: Evidence, tally: Tally, snapshots: Sequence[Snapshot]
) -> tuple[Sequence[Comparison | None], str]:
    """V25: over training, the source share changes more in the first third of positions than in the last."""
    positions = snapshots[0].curves.positions
    means = np.stack([each.curves.mean(SOURCE) for each in snapshots])
    samples = np.stack([each.curves.samples(SOURCE, evidence.draws) for each in snapshots])
    ranges, drawn = np.ptp(means, axis=0), np.ptp(samples, axis=0)
    # The first position has no prefix: its share is one at any time.
    parts = [slice(1, third(positions, 0).stop + 1), third(positions, 2)]
    first, last = (Sampled(float(ranges[part].mean()), drawn[:, part].mean(axis=1)) for part in parts)
    return [tally.above(first, last)], f"{first.value:.3f} against {last.value:.3f}"


def beginning_is_right(
    evidence: Evidence, tally: Tally, snapshots: Sequence[Snapshot]
) -> tuple[Sequence[Comparison | None], str]:
    """V26: where the source is used least, accuracy of the first third of positions against that of the last."""
    means = [each.curves.sampled(SOURCE, evidence.draws) for each in snapshots]
    there = snapshots[_least(means)]
    if there.correct is None:
        return [None], "accuracy unknown"
    positions = there.correct.shape[1]
    columns = np.stack([there.correct[:, third(positions, which)].mean(axis=1) for which in (0, 2)], axis=1)
    samples = resampled(columns, evidence.draws)
    first, last = (Sampled(float(columns[:, which].mean()), samples[:, which]) for which in (0, 1))
    numbers = f"{100 * first.value:.0f} % against {100 * last.value:.0f} % at update {there.update:,}"
    return [tally.above(first, last)], numbers


def same_for_both(evidence: Evidence) -> Finding:
    """V27: verdicts on V01 to V11 do not depend on how positive and negative parts are weighed."""
    if len(evidence.alphas) < 2:
        return Finding(remark="relevance was computed with one share of positive parts only")
    one, other = (
        {name: test(evidence).verdict for name, test in single_model_tests(alpha).items()}
        for alpha in evidence.alphas[:2]
    )
    equal = [name for name in one if one[name] == other[name]]
    tally = evidence.tally()
    tally.add(Place("V01 to V11"), tally.at_least(Sampled(len(equal) / len(one)), 0.8))
    different = ", ".join(f"{name} {one[name]} / {other[name]}" for name in one if name not in equal)
    return counted_cases(
        tally, details=f"{len(equal)} of {len(one)} the same" + (f"; {different}" if different else "")
    )


def conserved(evidence: Evidence) -> Finding:
    """V28: shares of everything sum to one at every step."""
    tally, details = evidence.tally(), []
    for dataset in evidence.datasets:
        distances = [curves.worst for key, curves in evidence.curves.items() if key.dataset == dataset]
        distances += [
            snapshot.curves.worst
            for (name, _), snapshots in evidence.timelines.items()
            if name == dataset
            for snapshot in snapshots
        ]
        tally.add(Place(dataset), tally.below(Sampled(max(distances)), 1e-3))
        details.append(f"{dataset} {max(distances):.1e} at most, in {len(distances)} sets of sentences")
    return _finding(tally, details, "nothing was propagated")


def _finding(tally: Tally, details: Sequence[str], missing: str) -> Finding:
    return counted_cases(tally, details="; ".join(details)) if tally.cases else Finding(remark=missing)


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "V18": by_amount(SOURCE, "first", more=True),
    "V19": by_amount(SOURCE, "last", more=False),
    "V20": by_amount(SOURCE_ENTROPY, "all", more=False),
    "V21": by_amount(TARGET_ENTROPY, "all", more=False),
    "V22": of_training(settles_early),
    "V23": of_training(falls_and_rises(SOURCE)),
    "V24": of_training(falls_and_rises(SOURCE_ENTROPY, TARGET_ENTROPY)),
    "V25": of_training(beginning_moves),
    "V26": of_training(beginning_is_right),
    "V27": same_for_both,
    "V28": conserved,
}
