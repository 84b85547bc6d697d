"""The search for components: the best pair of candidates first, then whatever helps most, as long as anything does.

A judge says what is good. ``Agreement`` needs no gold links: the F1 of the best source words of all target words
by the forward direction, and the best target words of all source words by the reverse one. ``ErrorRate`` compares
the links of a recipe with gold links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from alignlens.metrics.aer import scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.recipes.grid import Grid, Integers, Values

    Table = NDArray[np.float64]

#: How much a component must add to agreement, or take off the AER (as a share), to be chosen.
GAIN = 0.002
#: Candidates of a side that may be added to the first.
POOL = 16
_CELLS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Candidates:
    """The shares of one direction by every candidate, in the cells of its grid; rows sum to one."""

    grid: Grid
    values: NDArray[np.float32]  # (candidate, cell)

    def __len__(self) -> int:
        return len(self.values)


class Judge(Protocol):
    """Judges how good shares of all directions are together: the larger the better."""

    def table(self) -> Table:
        """Returns the score of every candidate, or of every pair of candidates of two directions."""

    def score(self, sums: Sequence[Values]) -> float:
        """Returns the score of summed shares of every direction; rows may have any sum."""


class Step(NamedTuple):
    """A component that was taken in, its best score with one of the other side, and the score with all so far."""

    side: int
    candidate: int
    alone: float
    score: float


def search(sides: Sequence[Candidates], judge: Judge) -> list[Step]:
    """Returns components in the order they were taken in; of equal ones the first candidate of the first side."""
    table = judge.table()
    start = [int(place) for place in np.unravel_index(int(table.argmax()), table.shape)]
    alone = [table.max(axis=tuple(axis for axis in range(table.ndim) if axis != side)) for side in range(table.ndim)]
    pools = [sorted(np.argsort(-scores, kind="stable")[:POOL].tolist()) for scores in alone]
    sums = [side.values[candidate] for side, candidate in zip(sides, start, strict=True)]
    current = judge.score(sums)
    steps = [Step(side, candidate, float(alone[side][candidate]), current) for side, candidate in enumerate(start)]
    while True:
        taken = {(step.side, step.candidate) for step in steps}
        options = [(side, each) for side, pool in enumerate(pools) for each in pool if (side, each) not in taken]
        scores = [judge.score(_added(sums, sides, *option)) for option in options]
        if not scores or max(scores) - current < GAIN:
            return steps
        current = max(scores)
        side, candidate = options[scores.index(current)]
        sums = _added(sums, sides, side, candidate)
        steps.append(Step(side, candidate, float(alone[side][candidate]), current))


def _added(sums: Sequence[Values], sides: Sequence[Candidates], side: int, candidate: int) -> list[Values]:
    """Returns the sums with one more candidate of one side."""
    more = sums[side] + sides[side].values[candidate]
    return [more if place == side else total for place, total in enumerate(sums)]


@dataclass(frozen=True)
class Agreement:
    """F1 of the best words of two directions, from 0 to 1."""

    forward: Candidates
    reverse: Candidates

    def table(self) -> Table:
        """Returns the agreement of every forward with every reverse candidate."""
        links = (
            [self._best_forward(values) for values in self.forward.values],
            [np.sort(self._best_reverse(values)) for values in self.reverse.values],
        )
        common = np.zeros((len(self.forward), len(self.reverse)))
        for start in range(0, self.forward.grid.cells, _CELLS_AT_ONCE):
            # As products of zeros and ones: exact, since a part has fewer cells than single precision can count.
            here, there = (_incidence(side, start) for side in links)
            common += here @ there.T
        sizes = [np.array([len(each) for each in side]) for side in links]
        shares: Table = 2 * common / np.maximum(sizes[0][:, None] + sizes[1][None, :], 1)
        return shares

    def score(self, sums: Sequence[Values]) -> float:
        """Returns the agreement of summed shares of both directions."""
        here, there = self._best_forward(sums[0]), self._best_reverse(sums[1])
        marked = np.zeros(self.forward.grid.cells, dtype=bool)
        marked[here] = True
        return 2 * float(np.count_nonzero(marked[there])) / max(here.size + there.size, 1)

    def _best_forward(self, values: Values) -> Integers:
        return self.forward.grid.best(values)

    def _best_reverse(self, values: Values) -> Integers:
        """Returns the best cells of the reverse direction, as cells of the forward one."""
        best: Integers = self.reverse.grid.places_turned[self.reverse.grid.best(values)]
        return best


def _incidence(links: Sequence[Integers], start: int) -> NDArray[np.float32]:
    """Returns (candidate, cell), one where a candidate has a link, of some cells from ``start`` on."""
    dense = np.zeros((len(links), _CELLS_AT_ONCE), dtype=np.float32)
    for row, cells in zip(dense, links, strict=True):
        low, high = np.searchsorted(cells, (start, start + _CELLS_AT_ONCE))
        row[cells[low:high] - start] = 1
    return dense


@dataclass(frozen=True, eq=False)
class ErrorRate:
    """Minus the AER, as a share, of what a recipe would give: the product of two directions, or the best of one.

    Of several thresholds the one with the lowest AER counts, of equal ones the first.
    """

    sides: Sequence[Candidates]
    sure: NDArray[np.bool_]  # by cell of the forward grid
    possible: NDArray[np.bool_]
    thresholds: Sequence[float] = field(default=())

    def table(self) -> Table:
        """Returns the score of every candidate, or of every pair of candidates."""
        forward = self.sides[0].values
        if len(self.sides) == 1:
            return np.array([self.score([values]) for values in forward])
        return np.stack([self._column(forward, values) for values in self.sides[1].values], axis=1)

    def score(self, sums: Sequence[Values]) -> float:
        """Returns the score of summed shares."""
        return self.best(sums)[0]

    def best(self, sums: Sequence[Values]) -> tuple[float, float | None]:
        """Returns the score of summed shares, and the threshold that has it; None where none is needed."""
        grid = self.sides[0].grid
        if len(self.sides) == 1:
            linked = np.zeros((1, grid.cells), dtype=bool)
            linked[0, grid.best(sums[0])] = True
            return float(self._scores(linked, slice(None))[0]), None
        turned = self.sides[1].grid.normalised(sums[1])[grid.places_turned]
        scores = self._by_threshold(grid.normalised(sums[0])[None], turned)[:, 0]
        place = int(scores.argmax())
        return float(scores[place]), self.thresholds[place]

    def _column(self, forward: NDArray[np.float32], reverse: Values) -> Table:
        """Returns the best score of every forward candidate with one of the reverse direction."""
        turned = reverse[self.sides[0].grid.places_turned]
        best: Table = self._by_threshold(forward, turned).max(axis=0)
        return best

    def _by_threshold(self, forward: NDArray[np.float32], turned: Values) -> Table:
        """Returns (threshold, forward shares): scores of their products with one of the reverse direction."""
        # No share is above one: where the other is not above the threshold, no product is.
        cells = np.flatnonzero(turned > min(self.thresholds))
        products = forward[:, cells] * turned[cells]
        return np.stack([self._scores(products > threshold, cells) for threshold in self.thresholds])

    def _scores(self, linked: NDArray[np.bool_], cells: Integers | slice) -> Table:
        """Returns the score of each row of links; rows are given for some cells."""
        sure, possible = (np.count_nonzero(linked & gold[cells], axis=1) for gold in (self.sure, self.possible))
        links, wanted = np.count_nonzero(linked, axis=1), int(np.count_nonzero(self.sure))
        counts = zip(sure.tolist(), possible.tolist(), links.tolist(), strict=True)
        return np.array([-scores_of(*each, wanted).aer / 100 for each in counts])
