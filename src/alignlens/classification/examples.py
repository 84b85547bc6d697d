"""Labelled texts in numbers: word ids one after the other, BEGIN first and END last, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from alignlens.corpora.shuffle import Shuffle
from alignlens.io.arrays import read_arrays, write_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Integers = npt.NDArray[np.int64]

_AGAIN = "Delete its folder and recreate it with: alignlens classify prepare, or run the pipeline again."


@dataclass(frozen=True)
class Examples:
    """The texts of a split."""

    ids: npt.NDArray[np.int32]  # (tokens)
    starts: Integers  # (texts + 1): where each begins, and where the last ends
    labels: npt.NDArray[np.bool_]  # (texts): whether it is positive

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], labels: Sequence[bool]) -> Self:
        """Returns texts given as lists of ids."""
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]).astype(np.int64)
        ids = np.fromiter((number for text in texts for number in text), np.int32, int(starts[-1]))
        return cls(ids, starts, np.array(labels, np.bool_))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns what ``write`` wrote."""
        arrays = read_arrays(path, _AGAIN)
        return cls(arrays["ids"], arrays["starts"], arrays["labels"])

    def write(self, path: Path) -> None:
        """Writes the texts to a file."""
        write_arrays(path, {"ids": self.ids, "starts": self.starts, "labels": self.labels})

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Integers:
        """Tokens of each text, BEGIN and END included."""
        return np.diff(self.starts)

    def first(self, count: int | None) -> Examples:
        """Returns the first texts, all if there are no more."""
        count = len(self) if count is None else min(count, len(self))
        return Examples(self.ids[: self.starts[count]], self.starts[: count + 1], self.labels[:count])

    def batch(self, chosen: npt.NDArray[np.integer[Any]]) -> Batch:
        """Returns some texts, the longest first."""
        lengths = self.lengths[chosen]
        order = np.argsort(-lengths, kind="stable")
        numbers, lengths = np.asarray(chosen, np.int64)[order], lengths[order]
        begins = np.repeat(self.starts[numbers] - (np.cumsum(lengths) - lengths), lengths)
        ids = self.ids[begins + np.arange(len(begins))].astype(np.int64)
        return Batch(numbers, ids, lengths, self.labels[numbers])


@dataclass(frozen=True)
class Batch:
    """Some texts one after the other, without padding, the longest first."""

    numbers: Integers  # (texts): which they are
    ids: Integers  # (tokens)
    lengths: Integers  # (texts)
    labels: npt.NDArray[np.bool_]  # (texts)


def shuffled(examples: Examples, size: int, seed: int, epoch: int, first: int = 0) -> Iterator[Batch]:
    """Yields the batches of an epoch from some number on: texts in random order, as many as there are in the last."""
    order = Shuffle(len(examples), seed, epoch)
    for start in range(first * size, len(examples), size):
        yield examples.batch(order(np.arange(start, min(start + size, len(examples)))))


def batches_of(examples: Examples, size: int) -> int:
    """Returns the number of batches of an epoch."""
    return -(-len(examples) // size)


def in_order(examples: Examples, tokens: int) -> Iterator[Batch]:
    """Yields every text once, those of similar length together, at most ``tokens`` at once unless one has more."""
    order = np.argsort(-examples.lengths, kind="stable")
    sums = np.cumsum(examples.lengths[order])
    start = 0
    while start < len(order):
        done = int(sums[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(sums, done + tokens, side="right")))
        yield examples.batch(order[start:stop])
        start = stop
