"""Kendall's tau-b of many rows: which of two positions has the larger value, as bits of all pairs of a row.

Two explanations are compared by counting bits that both have. The bits of one serve all its comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.agreement import check_same

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.metrics.agreement import Rows

    Bits = NDArray[np.uint64]
    Counts = NDArray[np.int64]

PAIRS_AT_ONCE = 1 << 19
"""Pairs of positions whose comparisons exist as bytes at the same time; of one row there may be more."""


@dataclass(frozen=True, eq=False)
class Order:
    """For every row: bit (i, j) says that position i is above j (``above``), or below it."""

    bits: Bits
    untied: Counts  # pairs of different values
    padding: Counts  # bits that every explanation of these rows has, since padding is below all positions

    @classmethod
    def of(cls, rows: Rows, below: bool = False) -> Order:
        """Returns the order of rows."""
        columns = rows.ranks.shape[1]
        at_once = max(1, PAIRS_AT_ONCE // columns**2)
        bits = np.empty((len(rows), columns**2 // 64), np.uint64)
        for start in range(0, len(rows), at_once):
            some = rows.ranks[start : start + at_once]
            left, right = some[:, :, None], some[:, None, :]
            compared = left < right if below else left > right
            packed = np.packbits(compared.reshape(len(some), -1), axis=1)
            bits[start : start + at_once] = packed.view(np.uint64)
        padding = rows.lengths * (columns - rows.lengths)
        return cls(bits, _counted(bits) - padding, padding)


def kendall_tau(left: Rows, right: Rows) -> NDArray[np.float64]:
    """Returns tau-b of every row; nan where one of both is constant. In small parts, however many rows there are."""
    check_same(left, right)
    taus = np.full(len(left), np.nan)
    at_once = max(1, PAIRS_AT_ONCE // left.ranks.shape[1] ** 2)
    for start in range(0, len(left), at_once):
        one, other = (
            type(rows)(rows.ranks[start : start + at_once], rows.lengths[start : start + at_once])
            for rows in (left, right)
        )
        taus[start : start + at_once] = tau_of(Order.of(one), Order.of(one, below=True), Order.of(other))
    return taus


def tau_of(above: Order, below: Order, other: Order) -> NDArray[np.float64]:
    """Returns tau-b of every row from the orders of one explanation, both ways, and that of another."""
    # Where both are above padding they agree, which does not count; nothing is below padding.
    concordant = _counted(above.bits & other.bits) - above.padding
    discordant = _counted(below.bits & other.bits)
    scale = np.sqrt(above.untied.astype(np.float64)) * np.sqrt(other.untied.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = np.where(scale > 0, (concordant - discordant) / scale, np.nan)
    return np.clip(tau, -1, 1)  # Roots are rounded.


def _counted(bits: Bits) -> Counts:
    counts: Counts = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts
