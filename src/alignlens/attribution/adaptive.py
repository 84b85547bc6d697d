"""How many noisy copies a target position gets: all, or as many as it takes until its highest score is settled.

After m of n copies, the mean lead of the highest source position over each other one is compared with what the
remaining copies could still undo. If copies are alike, the lead over all n has, given the first m, the mean ``lead``
and a standard error of ``deviation * sqrt((n - m) / (n m))``. A position is settled when every lead exceeds its error
by Student's quantile, with m - 1 degrees of freedom, of the risk that is accepted per comparison. The end symbol takes
no part: links are read without it (``alignment.extraction``, procedure ``ding``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import torch
from torch import Tensor

LOOK = 5  # after every fifth copy


class Sampling:
    """Which sentences get which copies next; ``active`` (sentence, target) says which positions still want some."""

    def __init__(self, labels_mask: Tensor, source_mask: Tensor, copies: int, risk: float | None, rows: int) -> None:
        self.active = labels_mask.clone()
        self._copies, self._risk, self._rows = copies, risk, rows
        lengths = source_mask.sum(1, keepdim=True)
        columns = torch.arange(source_mask.shape[1], device=source_mask.device)
        self._columns = columns < lengths - 1  # (sentence, source), the end symbol left out
        self._seen: list[Tensor] | None = None
        self._done = 0

    def __iter__(self) -> Iterator[tuple[Tensor, range]]:
        """Yields places of sentences and the copies they get, at most ``rows`` pairs of both, but at least one copy."""
        while self._done < self._copies and bool(self.active.any()):
            stop = self._copies
            if self._risk is not None:
                stop = min(stop, self._done + LOOK)
            while self._done < stop:
                chosen = self.active.any(1).nonzero()[:, 0]
                step = max(1, self._rows // len(chosen))
                copies = range(self._done, min(stop, self._done + step))
                yield chosen, copies
                self._done = copies.stop
            if self._risk is not None and self._done < self._copies:
                self._settle()

    def see(self, chosen: Tensor, scores: Sequence[Tensor]) -> None:
        """Takes the rows (sentence, copy, target, source) of the copies just done, one tensor for every method."""
        if self._seen is None:
            count, length = self.active.shape
            shape = (count, self._copies, length, self._columns.shape[1])
            self._seen = [rows.new_zeros(shape) for rows in scores]
        for seen, rows in zip(self._seen, scores, strict=True):
            seen[chosen, self._done : self._done + rows.shape[1]] = rows

    def _settle(self) -> None:
        needed = _student_quantile(1 - (self._risk or 0.0), self._done - 1)
        settled = torch.ones_like(self.active)
        for seen in self._seen or ():
            settled &= _leads(seen[:, : self._done], self._columns[:, None], self._copies) > needed
        self.active &= ~settled


def _leads(rows: Tensor, columns: Tensor, copies: int) -> Tensor:
    """Returns (sentence, target): the smallest lead of the best column, in standard errors of what may still come."""
    done = rows.shape[1]
    mean = rows.mean(1).masked_fill(~columns, float("-inf"))
    best = mean.argmax(-1, keepdim=True)
    ahead = rows.gather(-1, best[:, None].expand(-1, done, -1, -1)) - rows
    error = ahead.std(1) * math.sqrt((copies - done) / (copies * done))
    # Where copies do not differ at all, any lead is settled and a tie is not.
    leads = ahead.mean(1) / error.clamp(min=torch.finfo(error.dtype).tiny)
    others = columns & torch.ones_like(mean, dtype=torch.bool).scatter_(-1, best, False)
    return leads.masked_fill(~others, float("inf")).amin(-1)


def _student_quantile(probability: float, freedom: int) -> float:
    """Returns the quantile of Student's distribution by the expansion around the normal one (Abramowitz 26.7.5)."""
    z: float = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(freedom) ** (power + 1) for power, term in enumerate(terms))
