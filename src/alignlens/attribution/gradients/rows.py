"""Which rows of a batch, and which of their target positions, are computed together."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from alignlens.attribution.room import room


def rectangles(wanted: Tensor, pairs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields rows with similar numbers of wanted positions, and these, (row, slot), the last one first.

    Every wanted position of ``wanted`` (row, target) comes once. A rectangle has at least a row, and on a processor at
    most so many ``pairs`` of a row and a slot. Slots that a row does not need are -1.
    """
    counts = wanted.sum(1)
    order = torch.argsort(counts, descending=True, stable=True)[: int((counts > 0).sum())]
    start = 0
    while start < len(order):
        slots = int(counts[order[start]])
        rows = order[start : start + max(1, room(pairs, wanted) // slots)]
        start += len(rows)
        places = torch.arange(wanted.shape[1], device=wanted.device).where(wanted[rows], -1)
        yield rows, places.sort(1, descending=True).values[:, :slots]


def in_place(rows: Tensor) -> Tensor | slice:
    """Returns rows that follow each other as a slice. A GPU has to be waited for to know: do it once."""
    first = int(rows[0])
    follow = torch.equal(rows, torch.arange(first, first + len(rows), device=rows.device))
    return slice(first, first + len(rows)) if follow else rows


def take(tensor: Tensor, rows: Tensor | slice, axis: int = 0) -> Tensor:
    """Returns the given rows; those of a slice without a copy."""
    if isinstance(rows, slice):
        return tensor.narrow(axis, rows.start, rows.stop - rows.start)
    return tensor.index_select(axis, rows)


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows without those that equal the one before, and for every row the number of the one that is left.

    The copies of a sentence have the same prefix and the same clean vectors: what is made of these is made once.
    """
    new = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    new[1:] = (rows[1:] != rows[:-1]).flatten(1).any(1)
    return rows[new], new.cumsum(0) - 1
