"""Rank correlation of attention weights and norms over pairs of query and key, of whole sequences up to a budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignlens.metrics.rank_correlation import spearman_of_blocks

Integers = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Choice:
    """Which sequences count for a category: all that have it, or some at equal distances."""

    triples: int
    """(query, key, head) triples of all sequences, heads of all layers counted."""
    used: int
    numbers: Integers
    """The sequences that are used."""
    sequences: int
    """How many sequences have the category."""

    @property
    def exact(self) -> bool:
        """Whether nothing is left out."""
        return self.used == self.triples


def choose(lengths: Integers, keys: Integers, heads: int, budget: int) -> Choice:
    """Returns the sequences to use, so that their triples fit ``budget``, but always one at least.

    ``lengths`` are the positions of every sequence, ``keys`` those of them that belong to the category.
    """
    filled = np.flatnonzero(keys)
    triples = (lengths * keys * heads)[filled]
    total = int(triples.sum())
    kept = len(filled) if total <= budget else max(1, len(filled) * budget // total)
    while True:
        places = np.arange(kept) * len(filled) // max(kept, 1)
        used = int(triples[places].sum())
        if used <= budget or kept <= 1:
            return Choice(total, used, filled[places], len(filled))
        kept -= 1


@dataclass(frozen=True)
class TripleSample:
    """Some triples of a category, drawn from those that were used."""

    layer: Integers
    head: Integers
    weight: Singles
    norm: Singles


class WeightNormPairs:
    """The triples of one category: weights block by block, a block being all queries of a key and head.

    A norm belongs to a block, not to a query, and is kept once.
    """

    def __init__(self, choice: Choice, layers: int, heads: int, lengths: Integers, keys: Integers) -> None:
        self.choice = choice
        self._wanted = frozenset(choice.numbers.tolist())
        blocks = int(keys[choice.numbers].sum()) * heads
        self._weights = np.empty((layers, int((lengths * keys)[choice.numbers].sum()) * heads), np.float32)
        self._norms = np.empty((layers, blocks), np.float32)
        self._lengths, self._heads = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
        self._filled = self._blocks = 0

    def add(self, number: int, weights: Singles, norms: Singles, keys: Integers) -> None:
        """Adds a sequence if it is wanted: weights (layer, head, query, key), norms (layer, head, key)."""
        if number not in self._wanted:
            return
        layers, heads, queries, _ = weights.shape
        wanted_weights = weights[:, :, :, keys].transpose(0, 1, 3, 2).reshape(layers, -1)
        blocks = heads * len(keys)
        self._weights[:, self._filled : self._filled + wanted_weights.shape[1]] = wanted_weights
        here = slice(self._blocks, self._blocks + blocks)
        self._norms[:, here] = norms[:, :, keys].reshape(layers, blocks)
        self._lengths[here], self._heads[here] = queries, np.repeat(np.arange(heads), len(keys))
        self._filled += wanted_weights.shape[1]
        self._blocks += blocks

    def correlation(self) -> float:
        """Returns the rank correlation over all layers and heads; nan where there is none."""
        return spearman_of_blocks(self._weights.ravel(), self._norms.ravel(), np.tile(self._lengths, len(self._norms)))

    def correlations_by_layer(self) -> list[float]:
        """Returns the rank correlation within every layer."""
        rows = zip(self._weights, self._norms, strict=True)
        return [spearman_of_blocks(weights, norms, self._lengths) for weights, norms in rows]

    def sample(self, most: int, seed: int) -> TripleSample:
        """Returns at most ``most`` of the triples, drawn without replacement and in their order."""
        # Drawn, not at equal distances: lengths are often equal, and a step could meet the same query every time.
        generator = np.random.default_rng(seed)
        count = self._weights.size
        chosen = np.sort(generator.choice(count, min(most, count), replace=False, shuffle=False))
        layer, place = np.divmod(chosen, max(self._weights.shape[1], 1))
        block = np.searchsorted(np.cumsum(self._lengths), place, side="right")
        return TripleSample(layer, self._heads[block], self._weights[layer, place], self._norms[layer, block])
