"""Many explanations of the same rows compared with each other, a few items at a time, whatever there is of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.metrics.agreement import Rows, agreement, generator_of
from alignlens.metrics.kendall import Order, tau_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from alignlens.io.trajectories import Trajectory

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.float64]

_PAIRS_AT_ONCE = 1 << 21  # pairs of positions of the rows that are in memory, for every explanation a bit each


class Series(NamedTuple):
    """What one run says of all items at one checkpoint."""

    run: str
    weights: str
    quantity: str


class Pair(NamedTuple):
    """A(u, v) and tau(u, v); with ``shuffled``, the values of every row of v are put into random order first."""

    u: Series
    v: Series
    shuffled: bool = False


@dataclass(frozen=True, eq=False)
class ItemSums:
    """A number of rows, added up by item, and how many rows counted."""

    sums: Numbers
    counts: Numbers

    @classmethod
    def zeros(cls, items: int) -> ItemSums:
        """Returns sums of nothing."""
        return cls(np.zeros(items), np.zeros(items))

    @classmethod
    def pooled(cls, several: Sequence[ItemSums]) -> ItemSums:
        """Returns the mean of several by item, so that its ratio is that of all their rows together."""
        sums = np.mean([each.sums for each in several], axis=0)
        return cls(sums, np.mean([each.counts for each in several], axis=0))

    def mean(self) -> float:
        """Returns the mean over rows; nan if none counted."""
        rows = float(self.counts.sum())
        return float(self.sums.sum()) / rows if rows else float("nan")

    def put(self, items: Integers, owners: Integers, values: Numbers) -> None:
        """Adds the values of rows; ``owners`` says which of these items a row is of. Nan does not count."""
        known = ~np.isnan(values)
        self.sums[items] = np.bincount(owners, np.where(known, values, 0), minlength=len(items))
        self.counts[items] = np.bincount(owners, known, minlength=len(items))


@dataclass(frozen=True, eq=False)
class Compared:
    """What two explanations have in common: A, tau-b, and how many distinct values v has."""

    agreement: ItemSums
    kendall: ItemSums
    distinct: ItemSums


def compare(
    runs: Mapping[str, Trajectory],
    pairs: Collection[Pair],
    seed: int,
    advance: Callable[[int], None] | None = None,
) -> dict[Pair, Compared]:
    """Returns what all pairs have in common; the shapes of all runs must be the same.

    ``seed`` is that of shuffled values. ``advance`` hears how many items were done.
    """
    shapes = next(iter(runs.values())).shapes
    compared = {pair: Compared(*(ItemSums.zeros(len(shapes)) for _ in range(3))) for pair in pairs}
    # Of the two orders that a comparison needs both ways, that of the one with more comparisons.
    uses = Counter(series for pair in pairs if not pair.shuffled for series in pair[:2])
    uses.update(pair.u for pair in pairs if pair.shuffled)
    for place, items in enumerate(_portions(shapes)):
        owners = np.repeat(np.arange(len(items)), shapes[items, 0])
        portion = _Portion(runs, items, seed, place)
        for pair, results in compared.items():
            u, v = portion.rows(pair.u), portion.rows(pair.v, pair.shuffled)
            first, second = (pair.u, pair.v) if pair.shuffled or uses[pair.u] >= uses[pair.v] else (pair.v, pair.u)
            tau = portion.tau(first, second, pair.shuffled)
            results.agreement.put(items, owners, agreement(u, v).astype(np.float64))
            results.kendall.put(items, owners, tau)
            results.distinct.put(items, owners, v.distinct.astype(np.float64))
        if advance is not None:
            advance(len(items))
    return compared


class _Portion:
    """The rows of some items, each series read and ordered once."""

    def __init__(self, runs: Mapping[str, Trajectory], items: Integers, seed: int, place: int) -> None:
        self._runs, self._items, self._seed, self._place = runs, items.tolist(), seed, str(place)
        self._rows: dict[tuple[Series, bool], Rows] = {}
        self._orders: dict[tuple[Series, bool], Order] = {}
        self._taus: dict[tuple[Series, Series], Numbers] = {}

    def rows(self, series: Series, shuffled: bool = False) -> Rows:
        key = series, shuffled
        if key not in self._rows:
            if shuffled:
                generator = generator_of(self._seed, *series, self._place)
                self._rows[key] = self.rows(series).shuffled(generator)
            else:
                run = self._runs[series.run]
                self._rows[key] = Rows.of(run.matrices(series.weights, series.quantity, self._items))
        return self._rows[key]

    def tau(self, first: Series, second: Series, shuffled: bool) -> Numbers:
        """Returns tau-b of every row; it has no direction, so that both orders of a pair are one."""
        if shuffled:
            return tau_of(self._order(first), self._order(first, below=True), Order.of(self.rows(second, True)))
        if (first, second) not in self._taus:
            orders = self._order(first), self._order(first, below=True), self._order(second)
            self._taus[first, second] = tau_of(*orders)
        return self._taus[first, second]

    def _order(self, series: Series, below: bool = False) -> Order:
        key = series, below
        if key not in self._orders:
            self._orders[key] = Order.of(self.rows(series), below)
        return self._orders[key]


def _portions(shapes: Integers) -> Iterator[Integers]:
    """Yields items of like length whose rows are in memory together; the longest first, so that the end comes fast."""
    order = np.lexsort((shapes[:, 0], shapes[:, 1]))[::-1]
    start = 0
    while start < len(order):
        rows, columns = shapes[order[start:]].T
        pairs = np.cumsum(rows) * int(columns[0]) ** 2
        stop = start + max(1, int(np.count_nonzero(pairs <= _PAIRS_AT_ONCE)))
        yield order[start:stop]
        start = stop
