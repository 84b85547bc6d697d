"""Uncertainty of a corpus AER: bootstrap over sentence pairs (Koehn 2004), alone and paired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.metrics.aer import Counts

_SAMPLES_AT_ONCE = 64


@dataclass(frozen=True)
class Interval:
    """Percentile interval of a score of a corpus, in percent."""

    low: float
    high: float
    level: float
    samples: int
    seed: int


@dataclass(frozen=True)
class PairedTest:
    """AER of the first system minus AER of the second, its interval, and the two-sided p-value of no difference."""

    difference: float
    low: float
    high: float
    p_value: float
    level: float
    samples: int
    seed: int


def aer_interval(counts: Counts, level: float = 95, samples: int = 1000, seed: int = 1) -> Interval:
    """Returns the interval that holds the corpus AER in ``level`` percent of resampled corpora."""
    return aer_intervals([counts], level, samples, seed)[0]


def aer_intervals(systems: Sequence[Counts], level: float = 95, samples: int = 1000, seed: int = 1) -> list[Interval]:
    """Returns the interval of each of several systems on the same sentences, all on the same resampled corpora."""
    if not systems:
        return []
    if any(counts.per_sentence.shape != systems[0].per_sentence.shape for counts in systems):
        raise ValueError("intervals of systems on different sentences")
    # Whole numbers below 2 ** 53 are exact as floats, whose product is many times faster than that of integers.
    table = np.concatenate([counts.per_sentence for counts in systems], axis=1).astype(np.float64)
    values = np.concatenate(
        [
            _aer((weights.astype(np.float64) @ table).reshape(-1, 4)).reshape(-1, len(systems))
            for weights in resamples(len(systems[0].per_sentence), samples, seed)
        ]
    )
    low, high = np.nanpercentile(values, [(100 - level) / 2, (100 + level) / 2], axis=0).tolist()
    return [Interval(*limits, level, samples, seed) for limits in zip(low, high, strict=True)]


def paired_test(first: Counts, second: Counts, level: float = 95, samples: int = 1000, seed: int = 1) -> PairedTest:
    """Returns whether two systems differ on the same sentences, resampling both together."""
    if first.per_sentence.shape != second.per_sentence.shape:
        raise ValueError("paired test of systems on different sentences")
    differences = np.concatenate(
        [
            _aer(weights @ first.per_sentence) - _aer(weights @ second.per_sentence)
            for weights in resamples(len(first.per_sentence), samples, seed)
        ]
    )
    low, high = np.nanpercentile(differences, [(100 - level) / 2, (100 + level) / 2]).tolist()
    observed = first.scores().aer - second.scores().aer
    return PairedTest(observed, low, high, two_sided_p(differences), level, samples, seed)


def two_sided_p(differences: NDArray[np.float64]) -> float:
    """Returns the two-sided p-value of a difference, from its values on resampled corpora."""
    smaller_tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    # One more sample on either side, so that the p-value of a finite number of samples is never zero.
    return min(1.0, 2 * (smaller_tail + 1) / (len(differences) + 1))


def resamples(sentences: int, samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yields how often each sentence is drawn in each resampled corpus: at most 64 samples x sentences."""
    generator = np.random.default_rng(seed)
    for done in range(0, samples, _SAMPLES_AT_ONCE):
        rows = min(_SAMPLES_AT_ONCE, samples - done)
        drawn = generator.integers(0, sentences, size=(rows, sentences))
        weights = np.zeros((rows, sentences), dtype=np.int64)
        np.add.at(weights, (np.arange(rows)[:, None], drawn), 1)
        yield weights


def _aer(totals: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the AER of each row of summed counts."""
    sure_hits, possible_hits, links, sure = (totals[:, k].astype(np.float64) for k in range(4))
    with np.errstate(invalid="ignore", divide="ignore"):
        return 100 * (1 - (sure_hits + possible_hits) / (links + sure))
