"""Numbers with their uncertainty: each with its values on resampled text and for resampled seeds.

All numbers about the same text share the resampled sentences, and all numbers of the same model the resampled seeds:
the samples of a difference are differences of samples, which makes every comparison a paired one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.metrics.bootstrap import resamples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Samples = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sampled:
    """A number and its samples; without any it is exact, since nothing could be resampled."""

    value: float
    samples: Samples | None = None

    def __add__(self, other: Sampled | float) -> Sampled:
        return _combined(np.add, self, other)

    def __sub__(self, other: Sampled | float) -> Sampled:
        return _combined(np.subtract, self, other)

    def __neg__(self) -> Sampled:
        return _combined(np.negative, self)

    def __abs__(self) -> Sampled:
        return _combined(np.abs, self)

    def interval(self, level: float) -> tuple[float, float] | None:
        """Returns limits that hold ``level`` percent of the samples; None if exact.

        Undefined samples do not count. If all are undefined nothing is known, and the limits are infinite.
        """
        if self.samples is None:
            return None
        known = self.samples[~np.isnan(self.samples)]
        if not known.size:
            return -np.inf, np.inf
        low, high = np.percentile(known, [(100 - level) / 2, (100 + level) / 2]).tolist()
        return low, high


def mean_of(values: Sequence[Sampled]) -> Sampled:
    """Returns the mean of several numbers."""
    return Sampled(fmean(each.value for each in values), _over(np.mean, values))


def least_of(values: Sequence[Sampled]) -> Sampled:
    """Returns the least of several numbers; which one that is may differ from sample to sample."""
    return Sampled(min(each.value for each in values), _over(np.min, values))


def greatest_of(values: Sequence[Sampled]) -> Sampled:
    """Returns the greatest of several numbers."""
    return Sampled(max(each.value for each in values), _over(np.max, values))


def _combined(function: Callable[..., Any], *values: Sampled | float) -> Sampled:
    sampled = [each if isinstance(each, Sampled) else Sampled(each) for each in values]
    value = float(function(*(each.value for each in sampled)))
    if all(each.samples is None for each in sampled):
        return Sampled(value)
    return Sampled(value, function(*(each.value if each.samples is None else each.samples for each in sampled)))


def _over(function: Callable[..., Any], values: Sequence[Sampled]) -> Samples | None:
    rows = _stacked(values)
    return None if rows is None else function(rows, axis=0)


def _stacked(values: Sequence[Sampled]) -> Samples | None:
    """Returns values x samples, exact numbers repeated; None if all are exact."""
    sizes = [each.samples.size for each in values if each.samples is not None]
    if not sizes:
        return None
    return np.stack([np.full(sizes[0], each.value) if each.samples is None else each.samples for each in values])


@dataclass(frozen=True)
class Draws:
    """How text and seeds are drawn again; the text in the way of the intervals of single error rates."""

    level: float = 95
    samples: int = 1000
    seed: int = 1
    _weights: dict[int, Samples] = field(default_factory=dict, repr=False, compare=False)

    def ratio(self, above: NDArray[Any], below: NDArray[Any]) -> Samples:
        """Returns the sum of ``above`` over that of ``below``, one number per sentence, for all resampled texts.

        A text of one sentence cannot be resampled, so the limits are unknown.
        """
        if len(above) < 2:
            return np.full(self.samples, np.nan)
        totals = self.totals(np.stack([above, below], axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(totals[:, 1] == 0, np.nan, totals[:, 0] / totals[:, 1])

    def totals(self, numbers: NDArray[Any]) -> Samples:
        """Returns the sums of (sentence, column) over all resampled texts: (sample, column)."""
        sentences = len(numbers)
        if sentences not in self._weights:
            drawn = np.concatenate(list(resamples(sentences, self.samples, self.seed)))
            self._weights[sentences] = drawn.astype(np.float64)
        return self._weights[sentences] @ numbers.astype(np.float64)

    def over_seeds(self, model: str, values: Sequence[Sampled]) -> Sampled:
        """Returns the mean over the seeds of a model, which are drawn again as well where there are several."""
        if len(values) == 1:
            return values[0]
        rows = _stacked(values)
        if rows is None:
            rows = np.repeat([[each.value] for each in values], self.samples, axis=1)
        generator = np.random.default_rng([self.seed, zlib.crc32(model.encode())])
        chosen = generator.integers(0, len(values), size=(len(values), self.samples))
        return Sampled(fmean(each.value for each in values), np.take_along_axis(rows, chosen, axis=0).mean(axis=0))
