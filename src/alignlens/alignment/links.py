"""The one type for word alignments: the links of all sentence pairs of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_BITS = 16
_MASK = (1 << _BITS) - 1
LONGEST_SENTENCE = 1 << _BITS


@dataclass(frozen=True, eq=False)
class Alignment:
    """Links (source word, target word), zero-based, of ``sentences`` sentence pairs.

    A link is one integer: sentence << 32 | source << 16 | target. ``keys`` is sorted and has no duplicates,
    so that set operations on whole corpora are single array operations. ``scores`` runs along ``keys``.
    """

    keys: Integers
    sentences: int
    scores: NDArray[np.float64] | None = None

    @classmethod
    def from_arrays(
        cls,
        sentence: Integers,
        source: Integers,
        target: Integers,
        sentences: int,
        scores: NDArray[np.float64] | None = None,
    ) -> Alignment:
        """Returns the alignment of parallel arrays; duplicate links are merged, keeping the first score."""
        for axis in (source, target):
            if axis.size and (int(axis.min()) < 0 or int(axis.max()) >= LONGEST_SENTENCE):
                raise ValueError(f"word index outside 0..{LONGEST_SENTENCE - 1}")
        if sentence.size and (int(sentence.min()) < 0 or int(sentence.max()) >= sentences):
            raise ValueError(f"sentence index outside 0..{sentences - 1}")
        keys, first = np.unique((sentence << 2 * _BITS) | (source << _BITS) | target, return_index=True)
        return cls(keys, sentences, None if scores is None else scores[first])

    @classmethod
    def from_pairs(cls, pairs: Sequence[Iterable[tuple[int, int]]]) -> Alignment:
        """Returns the alignment of one iterable of (source, target) pairs per sentence."""
        rows = [(k, i, j) for k, links in enumerate(pairs) for i, j in links]
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return cls.from_arrays(table[:, 0], table[:, 1], table[:, 2], len(pairs))

    @property
    def sentence(self) -> Integers:
        """The sentence of each link."""
        return self.keys >> 2 * _BITS

    @property
    def source(self) -> Integers:
        """The source word of each link."""
        return (self.keys >> _BITS) & _MASK

    @property
    def target(self) -> Integers:
        """The target word of each link."""
        return self.keys & _MASK

    @property
    def cells(self) -> Integers:
        """Source and target word of each link as one integer (source << 16 | target)."""
        return self.keys & ((1 << 2 * _BITS) - 1)

    def __len__(self) -> int:
        return self.sentences

    def __getitem__(self, index: int) -> list[tuple[int, int]]:
        """Returns the links of one sentence pair, sorted."""
        if not 0 <= index < self.sentences:
            raise IndexError(index)
        low, high = np.searchsorted(self.keys, (index << 2 * _BITS, (index + 1) << 2 * _BITS))
        chosen = self.keys[low:high]
        return list(zip(((chosen >> _BITS) & _MASK).tolist(), (chosen & _MASK).tolist(), strict=True))

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return (self[k] for k in range(self.sentences))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alignment):
            return NotImplemented
        return self.sentences == other.sentences and np.array_equal(self.keys, other.keys)

    __hash__ = None  # type: ignore[assignment]

    def counts(self) -> Integers:
        """Returns the number of links of each sentence pair."""
        return np.bincount(self.sentence, minlength=self.sentences)

    def offsets(self) -> Integers:
        """Returns where each sentence's links begin in ``keys``, and the end: ``sentences + 1`` numbers."""
        return np.concatenate(([0], np.cumsum(self.counts())))

    def transposed(self) -> Alignment:
        """Returns the same links with source and target exchanged."""
        return Alignment.from_arrays(self.sentence, self.target, self.source, self.sentences, self.scores)

    def contains(self, other: Alignment) -> NDArray[np.bool_]:
        """Returns, for every link of ``other``, whether it is a link of this alignment too."""
        if not self.keys.size:
            return np.zeros(other.keys.size, dtype=bool)
        place = np.searchsorted(self.keys, other.keys)
        contained: NDArray[np.bool_] = self.keys[np.minimum(place, self.keys.size - 1)] == other.keys
        return contained

    def __and__(self, other: Alignment) -> Alignment:
        self._check_same_corpus(other)
        return Alignment(self.keys[other.contains(self)], self.sentences)

    def __or__(self, other: Alignment) -> Alignment:
        self._check_same_corpus(other)
        # A stable sort merges the two sorted runs; np.union1d would hash and be several times slower.
        keys = np.sort(np.concatenate((self.keys, other.keys)), kind="stable")
        first = np.concatenate(([True], keys[1:] != keys[:-1])) if keys.size else np.empty(0, dtype=bool)
        return Alignment(keys[first], self.sentences)

    def __sub__(self, other: Alignment) -> Alignment:
        self._check_same_corpus(other)
        return Alignment(self.keys[~other.contains(self)], self.sentences)

    def _check_same_corpus(self, other: Alignment) -> None:
        if self.sentences != other.sentences:
            raise ValueError(f"alignments of {self.sentences} and {other.sentences} sentence pairs")
