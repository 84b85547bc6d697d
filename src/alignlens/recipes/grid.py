"""All pairs of words of a text as one long array, so that a whole text is a few array operations.

A cell is a pair of a target and a source word of the same sentence pair. Cells stand sentence after sentence, target
word after target word: a row of a sentence's matrix is a run of cells. The grid of the other direction has the same
cells of every sentence in the order of its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.alignment.links import Alignment

    Integers = NDArray[np.int64]
    Values = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Grid:
    """Where the cells of every sentence are; sentences without words on a side have none."""

    heights: Integers  # rows of every sentence: the words that are explained
    widths: Integers  # columns of every sentence: the words that were read

    @classmethod
    def of(cls, explained: Integers, read: Integers) -> Grid:
        """Returns the grid of sentences with these numbers of words to explain and to read."""
        filled = (explained > 0) & (read > 0)
        return cls(np.where(filled, explained, 0), np.where(filled, read, 0))

    @cached_property
    def offsets(self) -> Integers:
        """Where the cells of every sentence begin, and the end: one number more than sentences."""
        return np.concatenate(([0], np.cumsum(self.heights * self.widths)))

    @property
    def cells(self) -> int:
        """How many there are."""
        return int(self.offsets[-1])

    @cached_property
    def rows(self) -> Integers:
        """Where every row begins."""
        return np.cumsum(self._row_widths) - self._row_widths

    @cached_property
    def _row_widths(self) -> Integers:
        return np.repeat(self.widths, self.heights)

    @property
    def turned(self) -> Grid:
        """The grid of the other direction."""
        return Grid(self.widths, self.heights)

    @cached_property
    def places_turned(self) -> Integers:
        """Where each cell stands in the grid of the other direction."""
        sizes = self.heights * self.widths
        starts, widths, heights = (np.repeat(each, sizes) for each in (self.offsets[:-1], self.widths, self.heights))
        row, column = np.divmod(np.arange(self.cells) - starts, widths)
        return (starts + column * heights + row).astype(np.int64)

    def normalised(self, values: Values) -> Values:
        """Returns values of all cells, every row divided by its sum; a row of zeros stays one."""
        sums = np.repeat(np.add.reduceat(values, self.rows), self._row_widths)
        shares: Values = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
        return shares

    def best(self, values: Values) -> Integers:
        """Returns the cell with the largest value of every row that has any, in order; of equal ones the first."""
        most = np.maximum.reduceat(values, self.rows)
        highest = np.flatnonzero(values == np.repeat(most, self._row_widths))
        first: Integers = highest[np.searchsorted(highest, self.rows)]
        return first[most > 0]

    def links(self, alignment: Alignment) -> NDArray[np.bool_]:
        """Returns which cells are links (source word, target word) of a text that begins with these sentences."""
        inside = alignment.sentence < len(self.heights)
        sentence, source, target = (each[inside] for each in (alignment.sentence, alignment.source, alignment.target))
        linked = np.zeros(self.cells, dtype=bool)
        linked[self.offsets[sentence] + target * self.widths[sentence] + source] = True
        return linked
