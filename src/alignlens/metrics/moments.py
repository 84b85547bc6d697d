"""Mean, deviation and limits of numbers that pass by once, for many rows at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Dispersion:
    """How numbers spread, one entry per row; the deviation is that of the population."""

    mean: Numbers
    deviation: Numbers
    cv: Numbers
    max: Numbers
    min: Numbers


class Moments:
    """Collects the dispersion of rows (..., number) in double precision (Chan et al. 1983, equation 2.1)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._count = 0
        self._mean, self._squares = np.zeros(shape), np.zeros(shape)
        self._max, self._min = np.full(shape, -np.inf), np.full(shape, np.inf)

    def add(self, values: npt.NDArray[np.floating]) -> None:
        """Adds equally many numbers to every row; ``values`` has one axis more than the shape."""
        numbers = values.astype(np.float64)
        count = numbers.shape[-1]
        mean = numbers.mean(-1)
        squares = ((numbers - mean[..., None]) ** 2).sum(-1)
        total, apart = self._count + count, mean - self._mean
        self._mean += apart * (count / total)
        self._squares += squares + apart**2 * (self._count * count / total)
        self._count = total
        self._max = np.maximum(self._max, numbers.max(-1))
        self._min = np.minimum(self._min, numbers.min(-1))

    def dispersion(self) -> Dispersion:
        """Returns what the rows are like so far; at least one number must have been added."""
        deviation = np.sqrt(self._squares / self._count)
        with np.errstate(invalid="ignore", divide="ignore"):  # a row of zeros has no coefficient of variation
            cv = deviation / self._mean
        return Dispersion(self._mean.copy(), deviation, cv, self._max.copy(), self._min.copy())
