"""Sentences in memory, batched in the same way as those of a token store on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.corpora.tokens import TokenStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Pieces = Sequence[int] | NDArray[np.integer[Any]]


class SentencesInMemory(TokenStore):
    """Lists of ids in memory with the interface of a token store."""

    def __init__(self, sentences: Sequence[Pieces], vocabulary_size: int = 0, name: str = "the text") -> None:
        self.folder = Path(name)
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        self.tokens, self._sentences = int(lengths.sum()), len(sentences)
        self._all = np.concatenate([np.empty(0, np.int64), *sentences]).astype(np.int64)
        self._stops = np.cumsum(lengths)
        self._starts = self._stops - lengths
        self.vocabulary_size = vocabulary_size or int(self._all.max(initial=0)) + 1

    def __getitem__(self, index: int) -> Any:
        """Returns the ids of one sentence."""
        return self._all[self._starts[index] : self._stops[index]]

    def lengths(self, indices: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Returns the number of pieces of each sentence."""
        lengths: NDArray[np.int64] = self._stops[indices] - self._starts[indices]
        return lengths

    def gather(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of the sentences one after the other, and the number of pieces of each."""
        chosen = [self[int(index)] for index in indices]
        return np.concatenate([np.empty(0, np.int64), *chosen]), self.lengths(indices)


def stored(sentences: TokenStore | Sequence[Pieces]) -> TokenStore:
    """Returns lists of ids as a store, and a store unchanged."""
    return sentences if isinstance(sentences, TokenStore) else SentencesInMemory(sentences)
