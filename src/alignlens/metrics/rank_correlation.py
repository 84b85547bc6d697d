"""Spearman's rank correlation with average ranks for ties, also where one number stands for many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating]
Ranks = npt.NDArray[np.float64]

_RANKED_AT_ONCE = 1 << 20


def average_ranks(values: Numbers) -> Ranks:
    """Returns the ranks from 1 of values; equal ones share the mean of theirs.

    Ties are settled piece by piece of the sorted values, so that tens of millions need little more than their order.
    """
    order = np.argsort(values)
    ordered = values[order]
    ranks = np.empty(len(values))
    start = 0
    while start < len(values):
        last = ordered[min(start + _RANKED_AT_ONCE, len(values)) - 1]
        stop = int(np.searchsorted(ordered, last, side="right"))
        part = ordered[start:stop]
        first = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1])))
        sizes = np.diff(first, append=len(part))
        ranks[order[start:stop]] = np.repeat(start + first + (sizes + 1) / 2, sizes)
        start = stop
    return ranks


def repeated_ranks(values: Numbers, counts: npt.NDArray[np.integer[Any]]) -> Ranks:
    """Returns the average rank of every value in a list that has value ``k`` ``counts[k]`` times."""
    _, group = np.unique(values, return_inverse=True)
    sizes = np.bincount(group, weights=counts)
    ranks: Ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    return ranks


def spearman(left: Numbers, right: Numbers) -> float:
    """Returns the rank correlation of two lists of the same length; nan where one of them does not vary."""
    return spearman_of_blocks(left, right, np.ones(len(right), np.int64))


def spearman_of_blocks(values: Numbers, block_values: Numbers, lengths: npt.NDArray[np.integer[Any]]) -> float:
    """Returns the rank correlation of values, given block by block, with a number that each block has once.

    It is that of two lists of the same length, the second with number ``k`` repeated ``lengths[k]`` times. Blocks may
    not be empty.
    """
    count = len(values)
    if count < 2:
        return math.nan
    middle = (count + 1) / 2
    ranks = average_ranks(values)
    ranks -= middle
    block_ranks = repeated_ranks(block_values, lengths) - middle
    sums = np.add.reduceat(ranks, np.cumsum(lengths) - lengths)
    scale = math.sqrt(float(ranks @ ranks) * float(block_ranks**2 @ lengths))
    return float(block_ranks @ sums) / scale if scale else math.nan
