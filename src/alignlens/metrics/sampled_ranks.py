"""Rank correlations of curves, with their uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


def spearman_of_rows(x: Sequence[float] | Numbers, rows: Numbers) -> Numbers:
    """Returns the rank correlation of ``x`` with every row; nan where a row is constant."""
    first, second = _ranks(np.asarray(x, np.float64)[None]), _ranks(np.atleast_2d(rows))
    first, second = (each - each.mean(axis=1, keepdims=True) for each in (first, second))
    below = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    correlations: Numbers = np.divide(
        (first * second).sum(axis=1), below, out=np.full(len(second), np.nan), where=below > 0
    )
    return correlations


def _ranks(rows: Numbers) -> Numbers:
    """Returns the ranks in every row, equal values the mean of theirs."""
    smaller = (rows[:, :, None] > rows[:, None, :]).sum(axis=2)
    equal = (rows[:, :, None] == rows[:, None, :]).sum(axis=2)
    ranks: Numbers = smaller + (equal + 1) / 2
    return ranks


def correlation(x: Sequence[float] | Numbers, value: Numbers, samples: Numbers | None) -> Sampled:
    """Returns the rank correlation of ``x`` and a curve, with those of its samples (sample, place)."""
    correlation = float(spearman_of_rows(x, value)[0])
    return Sampled(correlation, None if samples is None else spearman_of_rows(x, samples))
