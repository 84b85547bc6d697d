"""Words with shares instead of links: several scores of one direction together, and two directions multiplied.

A matrix of shares has a row per word that is explained and a column per word that was read; a row sums to one, or has
nothing but zeros. *product*: a share of the forward direction times that of the same two words in the reverse
direction. It is large only where both say so, and a threshold makes links of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.extraction import by_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.alignment.extraction import Owners, Scores

    Integers = NDArray[np.int64]
    Shares = NDArray[np.float64]
    Found = tuple[Integers, Integers, Shares]


def word_shares(matrix: Scores, source_words: Owners, target_words: Owners, *, begin: bool = False) -> Shares:
    """Returns (..., target words, source words): what source words have of each target word, rows summing to one.

    ``matrix`` is (..., target pieces and END, [BEGIN and] source pieces and END), none of it negative. Scores are
    summed over the pieces of a source word and averaged over those of a target word, as in ``kobayashi``; END and
    BEGIN are left out. ``source_words`` and ``target_words`` say which word each piece belongs to.
    """
    columns, rows = np.asarray(source_words, np.int64), np.asarray(target_words, np.int64)
    expected = (rows.size + 1, columns.size + 1 + begin)
    if matrix.shape[-2:] != expected:
        raise ValueError(f"scores of shape {matrix.shape}, expected {expected}")
    if not word_count(columns) or not word_count(rows):
        return np.zeros((*matrix.shape[:-2], word_count(rows), word_count(columns)))
    return normalised(by_words(matrix, columns, rows, begin)[..., int(begin) : -1])


def word_count(words: Owners) -> int:
    """Returns how many words pieces spell, given the word of each; pieces that spell none belong to word -1."""
    return int(words[-1]) + 1 if len(words) else 0


def normalised(scores: Shares) -> Shares:
    """Returns scores with every row divided by its sum; a row of zeros stays one."""
    sums = scores.sum(axis=-1, keepdims=True)
    shares: Shares = np.divide(scores, sums, out=np.zeros_like(scores), where=sums > 0)
    return shares


def combined(components: Sequence[Shares], weights: Sequence[float]) -> Shares:
    """Returns the weighted sum of several shares of one direction, rows summing to one again."""
    total = sum((weight * shares for shares, weight in zip(components, weights, strict=True)), np.zeros(()))
    return normalised(np.asarray(total))


def product(forward: Shares, reverse: Shares) -> Shares:
    """Returns (target words, source words): shares of (target, source) times those of (source, target)."""
    return forward * reverse.T


def links_above(scores: Shares, threshold: float) -> Found:
    """Returns source word, target word and score of everything in (target words, source words) above a threshold."""
    target, source = np.nonzero(scores > threshold)
    return source, target, scores[target, source]


def best_links(shares: Shares) -> Found:
    """Returns source word, target word and share of the best source word of every target word that has any.

    Of equal shares the first counts.
    """
    target = np.flatnonzero(shares.any(axis=1))
    source = shares[target].argmax(axis=1) if target.size else target
    return source, target, shares[target, source]
