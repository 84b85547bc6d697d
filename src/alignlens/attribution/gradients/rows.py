"""Which rows of a batch, and which of their target positions, are computed together."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def rectangles(wanted: Tensor, pairs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields rows with similar numbers of wanted positions, and these, (row, slot), the last one first.

    Every wanted position of ``wanted`` (row, target) comes once. A rectangle has at most so many ``pairs`` of a row and
    a slot, and at least a row. Slots that a row does not need are -1.
    """
    counts = wanted.sum(1)
    order = torch.argsort(counts, descending=True, stable=True)[: int((counts > 0).sum())]
    start = 0
    while start < len(order):
        slots = int(counts[order[start]])
        rows = order[start : start + max(1, pairs // slots)]
        start += len(rows)
        places = torch.arange(wanted.shape[1], device=wanted.device).where(wanted[rows], -1)
        yield rows, places.sort(1, descending=True).values[:, :slots]


def take(tensor: Tensor, rows: Tensor, axis: int = 0) -> Tensor:
    """Returns the given rows; without a copy where they follow each other."""
    first = int(rows[0])
    if torch.equal(rows, torch.arange(first, first + len(rows), device=rows.device)):
        return tensor.narrow(axis, first, len(rows))
    return tensor.index_select(axis, rows)


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows without those that equal the one before, and for every row the number of the one that is left.

    The copies of a sentence have the same prefix and the same clean vectors: what is made of these is made once.
    """
    new = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    new[1:] = (rows[1:] != rows[:-1]).flatten(1).any(1)
    return rows[new], new.cumsum(0) - 1
