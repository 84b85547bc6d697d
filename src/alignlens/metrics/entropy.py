"""How spread out attribution scores are: the entropy of the rows of score matrices, in nats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_LARGEST_DEFECT = 1e-3


@dataclass(frozen=True)
class Entropy:
    """Two means over a corpus, ``nan`` where it has no rows."""

    sentence_mean: float
    """Mean over the rows of a sentence, then over sentences (what Ding et al. computed)."""
    row_mean: float
    """Mean over all rows of the corpus."""
    rows: int


def row_entropies(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    """Returns the entropy of each row of a matrix, END and all; a row must sum to 1 and is made to exactly.

    Raises ``ValueError`` for a row that is no distribution.
    """
    rows = matrix.astype(np.float64)
    sums = rows.sum(axis=1)
    wrong = ~(np.abs(sums - 1) <= _LARGEST_DEFECT) | (rows < 0).any(axis=1)
    if wrong.any():
        worst = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"row {worst} is no distribution: sum {sums[worst]:.6g}, smallest {rows[worst].min():.6g}")
    shares = rows / sums[:, None]
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    # Not the negative of the sum, which would be -0.0 for a one-hot row.
    entropies: NDArray[np.float64] = np.abs((shares * logs).sum(axis=1))
    return entropies


def corpus_entropy(matrices: Iterable[NDArray[np.floating]]) -> Entropy:
    """Returns the entropy of a corpus, one matrix per sentence, looked at one at a time."""
    means: list[float] = []
    total, count = 0.0, 0
    for number, matrix in enumerate(matrices):
        try:
            entropies = row_entropies(matrix)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from None
        if entropies.size:
            means.append(float(entropies.mean()))
            total += float(entropies.sum())
            count += entropies.size
    if not count:
        return Entropy(math.nan, math.nan, 0)
    return Entropy(math.fsum(means) / len(means), total / count, count)
