"""Whether one explanation of a row ranks high what another points at (Snell et al. 2021, equation 10).

A(u, v) of a row of L positions is 1 if fewer than 0.05 L entries of v are strictly larger than the one at the first
maximum of u, else 0. It is not symmetric, and ties help: of a constant v it is 1. So the number of distinct values
belongs beside it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Ranks = NDArray[np.signedinteger[Any]]
    Matrix = NDArray[np.float32]

_SHARE = 20  # one in so many entries may be larger: 0.05 L, in whole numbers
_PADDED_TO = 8  # columns; a square of them is then whole words of bits


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of many matrices, each value as its rank among those of its row: equal values share one.

    Ranks count from 0 without gaps. A row ends after ``lengths`` columns; what follows has rank -1.
    """

    ranks: Ranks
    lengths: Integers

    @classmethod
    def of(cls, matrices: Sequence[Matrix]) -> Rows:
        """Returns all rows of matrices, one after the other; values must be finite, and no row may be empty."""
        shapes = np.array([matrix.shape for matrix in matrices], np.int64).reshape(-1, 2)
        lengths = np.repeat(shapes[:, 1], shapes[:, 0])
        if not lengths.all():
            raise ValueError("a row without positions")
        columns = -(-int(lengths.max(initial=1)) // _PADDED_TO) * _PADDED_TO
        values = np.full((len(lengths), columns), -np.inf, np.float32)
        start = 0
        for matrix in matrices:
            values[start : start + len(matrix), : matrix.shape[1]] = matrix
            start += len(matrix)
        return cls(_dense_ranks(values, lengths < columns), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def distinct(self) -> Integers:
        """How many different values every row has; 1 if it is constant, and agrees with everything."""
        greatest_ranks: Integers = self.ranks.max(axis=1).astype(np.int64)
        return greatest_ranks + 1

    def shuffled(self, generator: np.random.Generator) -> Rows:
        """Returns the same rows with the values of each in random order."""
        keys = generator.random(self.ranks.shape, dtype=np.float32)
        keys[np.arange(keys.shape[1]) >= self.lengths[:, None]] = 2  # What is no position stays behind all others.
        drawn: Ranks = np.take_along_axis(self.ranks, np.argsort(keys, axis=1), axis=1)
        return Rows(drawn, self.lengths)


def _dense_ranks(values: Matrix, padded: NDArray[np.bool_]) -> Ranks:
    # Narrow numbers are compared faster.
    kind: type[np.signedinteger[Any]] = np.int16 if values.shape[1] <= np.iinfo(np.int16).max else np.int32
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    steps = np.zeros(values.shape, kind)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    steps[:, 0] = np.where(padded, -1, 0)  # Padding is the least of its row.
    ranks: Ranks = np.empty(values.shape, kind)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1, dtype=kind), axis=1)
    return ranks


def agreement(pointing: Rows, ranking: Rows) -> NDArray[np.bool_]:
    """Returns A(u, v) of every row: u is ``pointing``, v is ``ranking``."""
    check_same(pointing, ranking)
    places = pointing.ranks.argmax(axis=1)  # the first of equals
    there: Ranks = np.take_along_axis(ranking.ranks, places[:, None], axis=1)
    larger: Integers = np.count_nonzero(ranking.ranks > there, axis=1)
    return larger * _SHARE < ranking.lengths


def check_same(left: Rows, right: Rows) -> None:
    """Raises unless rows can be compared."""
    if left.ranks.shape != right.ranks.shape or not np.array_equal(left.lengths, right.lengths):
        raise ValueError("rows of different lengths")


def generator_of(seed: int, *names: str) -> np.random.Generator:
    """Returns the random numbers that belong to names: no other draw changes them."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def greatest(curve: Mapping[str, float]) -> str | None:
    """Returns the first checkpoint with the greatest value; None if no value is known (nan)."""
    known = [name for name, value in curve.items() if not np.isnan(value)]
    return max(known, key=lambda name: curve[name]) if known else None


def first_above(value: float, curve: Mapping[str, float], performance: Mapping[str, float]) -> float | None:
    """Returns the performance at the first checkpoint whose agreement is strictly greater; None if there is none.

    This is xi of a value; ``curve`` is in the order of training.
    """
    return next((performance[name] for name, agreed in curve.items() if agreed > value), None)
