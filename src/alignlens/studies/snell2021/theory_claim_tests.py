"""The tests of what can be worked out: S18, how the proxy begins to learn, and S21, the counter-example."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled
from alignlens.studies.claims import Finding, counted_cases
from alignlens.studies.snell2021.published import counter_example
from alignlens.studies.tally import Comparison, Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from alignlens.studies.snell2021.counts import Growth
    from alignlens.studies.snell2021.evidence import Evidence
    from alignlens.studies.snell2021.published import CounterExample

_ENOUGH = 0.95
_EXACT = 1e-3
_STEPS = 5_000


def learns_the_counts(evidence: Evidence) -> Finding:
    """S18: the first gradient of the proxy correlates with centred counts, the more the wider it is."""
    tally, details = evidence.tally(), []
    for text in evidence.counts:
        grown = text.growth
        if len(grown) < 2:
            continue
        rising = [_rises(before, after) for before, after in pairwise(grown)]
        last = grown[-1]
        high = Comparison(
            last.pearson - _ENOUGH, last.least - _ENOUGH, last.greatest - _ENOUGH, claimed=f"above {_ENOUGH}"
        )
        tally.add(Place(text.dataset, text.direction), *rising, high)
        numbers = ", ".join(f"{each.pearson:.3f} (d = {each.d})" for each in grown)
        details.append(f"{text.dataset} {text.direction}: {numbers}")
    if not tally.total:
        return Finding(remark="no text whose words were counted, at two widths at least")
    remark = "intervals: least and greatest over seeds of the proxy"
    return counted_cases(tally, numbers="; ".join(details), remark=remark)


def _rises(before: Growth, after: Growth) -> Comparison:
    return Comparison(
        after.pearson - before.pearson,
        after.least - before.greatest,
        after.greatest - before.least,
        claimed=f"d = {after.d} above d = {before.d}",
    )


def largest_probe_left_out(_: Evidence) -> Finding:
    """S21: the printed example."""
    return counter_example_holds(counter_example())


def counter_example_holds(example: CounterExample) -> Finding:
    """Tests whether the best attention of an example leaves out its largest probe."""
    logits = np.array(example.logits)
    beta = np.array([probability(logits, alone) for alone in np.eye(len(logits))])
    alpha = best_attention(logits)
    tally, place = Tally(), Place("example")
    tally.add(
        place,
        tally.at_most(Sampled(abs(float(beta[0]) - 1 / 3)), _EXACT, "first probe 1/3"),
        tally.above(Sampled(float(beta[0])), float(beta[1:].max()), "first probe largest"),
        tally.at_most(Sampled(float(np.abs(alpha - example.optimum).max())), _EXACT, "optimum as printed"),
    )
    shown = [" ".join(f"{value + 0.0:.3f}" for value in numbers) for numbers in (beta, alpha)]
    numbers = f"β = ({shown[0]}), best α = ({shown[1]}) with p = {probability(logits, alpha):.3f}"
    return counted_cases(tally, numbers=numbers)


def probability(logits: NDArray[np.float64], attention: NDArray[np.float64]) -> float:
    """Returns the probability of the first word under attention to positions x words of logits."""
    mixed = attention @ logits
    return float(1 / np.exp(mixed - mixed[0]).sum())


def best_attention(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the attention with the least loss; it is convex, and exponentiated gradient stays in the simplex."""
    scores = np.zeros(len(logits))
    attention = np.full(len(logits), 1 / len(logits))
    rate = 1 / max(float(np.abs(logits).max()) ** 2, 1.0)  # larger steps overshoot
    for _ in range(_STEPS):
        mixed = attention @ logits
        words = np.exp(mixed - mixed.max())
        words /= words.sum()
        # Of -log p: what the words get, less the first word.
        scores -= rate * (logits @ words - logits[:, 0])
        attention = np.exp(scores - scores.max())
        attention /= attention.sum()
    return attention


TESTS: dict[str, Callable[[Evidence], Finding]] = {"S18": learns_the_counts, "S21": largest_probe_left_out}
