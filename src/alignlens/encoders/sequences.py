"""Token sequences for encoders: their ids, segments and kinds of tokens, in padded batches of similar length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TokenSequence:
    """One sequence without padding; ``categories`` are places in a list of names."""

    ids: npt.NDArray[np.int32]  # (position)
    segments: npt.NDArray[np.int8]  # (position): 0 for the first text, 1 for the second
    categories: npt.NDArray[np.int8]  # (position)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PaddedBatch:
    """Sequences padded on the right; ``numbers`` says which."""

    numbers: list[int]
    ids: Integers  # (batch, position)
    segments: Integers  # (batch, position)
    mask: npt.NDArray[np.bool_]  # (batch, position), True at real positions


def padded_batches(sequences: Sequence[TokenSequence], tokens: int, padding: int) -> Iterator[PaddedBatch]:
    """Yields all sequences, short ones first, with at most ``tokens`` padded tokens in a batch of several."""
    waiting: list[int] = []
    for number in sorted(range(len(sequences)), key=lambda number: len(sequences[number])):
        if waiting and (len(waiting) + 1) * len(sequences[number]) > tokens:
            yield padded(sequences, waiting, padding)
            waiting = []
        waiting.append(number)
    if waiting:
        yield padded(sequences, waiting, padding)


def padded(sequences: Sequence[TokenSequence], numbers: list[int], padding: int) -> PaddedBatch:
    """Returns the sequences with these numbers as one batch."""
    shape = len(numbers), max(len(sequences[number]) for number in numbers)
    ids, segments = np.full(shape, padding, np.int64), np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.bool_)
    for row, number in enumerate(numbers):
        length = len(sequences[number])
        ids[row, :length] = sequences[number].ids
        segments[row, :length] = sequences[number].segments
        mask[row, :length] = True
    return PaddedBatch(list(numbers), ids, segments, mask)
