"""Agreement and Kendall's tau row by row, and random rows to compare with."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

Matrix = NDArray[np.float32]


def slow_agreement(u: Matrix, v: Matrix) -> bool:
    """Equation 10, word by word."""
    place = next(k for k in range(len(u)) if u[k] == max(u))
    return sum(v[j] > v[place] for j in range(len(v))) < 0.05 * len(v)


def slow_tau(u: Matrix, v: Matrix) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(kendalltau(u, v).statistic)


def ragged(generator: np.random.Generator, items: int, longest: int, values: int) -> list[Matrix]:
    shapes = zip(generator.integers(1, 4, items), generator.integers(1, longest + 1, items), strict=True)
    return [generator.integers(0, values, shape).astype(np.float32) for shape in shapes]


def like(generator: np.random.Generator, matrices: list[Matrix], values: int) -> list[Matrix]:
    return [generator.integers(0, values, matrix.shape).astype(np.float32) for matrix in matrices]
