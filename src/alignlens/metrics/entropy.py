"""How spread out attribution scores are: the entropy of the rows of score matrices, in nats; and how large."""

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
    """Means over a corpus, ``nan`` where it has no rows."""

    sentence_mean: float
    """Mean over the rows of a sentence, then over sentences (what Ding et al. computed)."""
    row_mean: float
    """Mean over all rows of the corpus."""
    rows: int
    score_mean: float
    """Mean over all entries, END included: tells layers apart whose scores do not sum to one."""
    by_sentence: NDArray[np.float64]
    """Mean over the rows of each sentence; ``nan`` for one without rows."""

    def means(self) -> dict[str, float]:
        """Returns all that is about the whole corpus, by name."""
        return {name: getattr(self, name) for name in ("sentence_mean", "row_mean", "rows", "score_mean")}


def row_entropies(matrix: NDArray[np.floating], distribution: bool = True, signed: bool = False) -> NDArray[np.float64]:
    """Returns the entropy of each row of a matrix, END and all; a row must sum to 1 and is made to exactly.

    Without ``distribution`` a row need only have a sum. Raises ``ValueError`` for any other row. A row of ``signed``
    scores may be anything that is finite, and has no entropy (``nan``) where a score is negative or all are zero.
    """
    rows = matrix.astype(np.float64)
    if signed:
        unshared = np.isfinite(rows).all(axis=1) & ((rows < 0).any(axis=1) | ~rows.any(axis=1))
        result = np.full(len(rows), math.nan)
        result[~unshared] = row_entropies(rows[~unshared], distribution)
        return result
    sums = rows.sum(axis=1)
    right = np.abs(sums - 1) <= _LARGEST_DEFECT if distribution else (sums > 0) & np.isfinite(sums)
    wrong = ~right | (rows < 0).any(axis=1)
    if wrong.any():
        worst = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"row {worst} is no distribution: sum {sums[worst]:.6g}, smallest {rows[worst].min():.6g}")
    shares = rows / sums[:, None]
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    # Not the negative of the sum, which would be -0.0 for a one-hot row.
    entropies: NDArray[np.float64] = np.abs((shares * logs).sum(axis=1))
    return entropies


def corpus_entropy(
    matrices: Iterable[NDArray[np.floating]], distribution: bool = True, signed: bool = False
) -> Entropy:
    """Returns the entropy of a corpus, one matrix per sentence, looked at one at a time.

    ``signed`` scores may be negative; where one is, there is no entropy at all: the other rows are no sample.
    """
    means: list[float] = []
    total, count, scores, entries = 0.0, 0, 0.0, 0
    for number, matrix in enumerate(matrices):
        try:
            entropies = row_entropies(matrix, distribution, signed)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from None
        means.append(float(entropies.mean()) if entropies.size else math.nan)
        if entropies.size:
            total += float(entropies.sum())
            count += entropies.size
            scores += float(matrix.sum(dtype=np.float64))
            entries += matrix.size
    if not count:
        return Entropy(math.nan, math.nan, 0, math.nan, np.array(means))
    if math.isnan(total):
        return Entropy(math.nan, math.nan, count, scores / entries, np.full(len(means), math.nan))
    known = [mean for mean in means if not math.isnan(mean)]
    return Entropy(math.fsum(known) / len(known), total / count, count, scores / entries, np.array(means))
