"""Links as written in a file: their lines, the words as numbered there, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import LONGEST_SENTENCE, Alignment
from alignlens.errors import InputError
from alignlens.io.text import read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

#: A number in a file of links: ASCII digits only, and no more of them than an array holds.
NUMBER = "[0-9]{1,18}"
_LONGEST_SHOWN = 60


def shown(text: str) -> str:
    """Returns a token for an error message, quoted and cut; a damaged file may have tokens of any length."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def link_lines(path: Path | str, wanted: str, may_be_empty: bool = False) -> list[str]:
    """Returns the lines of a file of links; ``wanted`` says what an empty file lacks."""
    lines = read_lines(path, allow_empty_file=True)
    if not lines and not may_be_empty:
        raise InputError("the file is empty.", path, advice=f"Expected {wanted}.")
    return lines


@dataclass(frozen=True)
class Lengths:
    """How many words every sentence of a text has, by side."""

    source: Integers
    target: Integers

    @classmethod
    def of(cls, source: Sequence[int] | None, target: Sequence[int] | None) -> Lengths | None:
        """Returns the lengths of both sides, or None without a text."""
        if source is None or target is None:
            return None
        return cls(np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64))


@dataclass(frozen=True)
class Written:
    """The links of a file in its order, with the sentence (from zero) and the line (from one) of each.

    ``option`` is the command line option for the number of a sentence's first word; empty if there is none.
    """

    path: Path | str
    lines: Integers
    sentence: Integers
    source: Integers
    target: Integers
    sentences: int
    option: str = ""
    scores: NDArray[np.float64] | None = None

    def alignment(self, base: int, lengths: Lengths | None = None) -> Alignment:
        """Returns the links with words counted from zero; raises for links that are impossible with this ``base``."""
        too_low = (self.source < base) | (self.target < base)
        if too_low.any():
            raise self._wrong(too_low, f"{{}} with words counted from {base}.", self._advice(0))
        most = LONGEST_SENTENCE + base
        too_high = (self.source >= most) | (self.target >= most)
        if too_high.any():
            raise self._wrong(too_high, f"{{}} beyond word {LONGEST_SENTENCE}.", "The file is damaged.")
        if lengths is not None:
            self._check_sentences(lengths)
            self._check_words(base, lengths)
        return Alignment.from_arrays(self.sentence, self.source - base, self.target - base, self.sentences, self.scores)

    def only(self, chosen: NDArray[np.bool_]) -> Written:
        """Returns some of the links, without scores."""
        return replace(
            self,
            lines=self.lines[chosen],
            sentence=self.sentence[chosen],
            source=self.source[chosen],
            target=self.target[chosen],
            scores=None,
        )

    def without_zero(self) -> bool:
        """Returns whether there are links, and none of them is 0 on either side."""
        return bool(self.source.size) and int(self.source.min()) > 0 and int(self.target.min()) > 0

    def fits(self, base: int, lengths: Lengths) -> bool:
        """Returns whether every link lies inside its sentence pair with words counted from ``base``."""
        return not self._outside(base, lengths).any()

    def _check_sentences(self, lengths: Lengths) -> None:
        if self.sentences != lengths.source.size:
            raise InputError(
                f"{self.sentences} lines for {lengths.source.size} sentence pairs.",
                self.path,
                min(self.sentences, lengths.source.size) + 1,
                "There must be one line per pair; a pair without links has an empty line.",
            )

    def _check_words(self, base: int, lengths: Lengths) -> None:
        outside = self._outside(base, lengths)
        if not outside.any():
            return
        worst = int(np.flatnonzero(outside)[0])
        rows, columns = lengths.source[self.sentence], lengths.target[self.sentence]
        size = f"{rows[worst]} source and {columns[worst]} target words"
        if rows[worst] == 0 or columns[worst] == 0:
            raise self._wrong(outside, f"{{}} on an empty sentence ({size}).", "Leave this line empty.")
        if base == 0 and self.without_zero() and self.fits(1, lengths):
            advice = f"No link of the file is 0 on either side. {self._advice(1)}"
        elif (self.source - base < columns).all() and (self.target - base < rows).all():
            advice = "Every link fits with the sides exchanged: swap source and target."
        else:
            advice = "Check that links and text belong together, and the order of source and target."
        raise self._wrong(outside, f"{{}} is out of range ({size}).", advice)

    def _outside(self, base: int, lengths: Lengths) -> NDArray[np.bool_]:
        rows, columns = lengths.source[self.sentence], lengths.target[self.sentence]
        outside: NDArray[np.bool_] = (self.source - base >= rows) | (self.target - base >= columns)
        return outside

    def _advice(self, base: int) -> str:
        if self.option:
            return f"The file counts from {base}: set {self.option} {base}."
        return f"The file counts from {base}; it must count from {1 - base}."

    def _wrong(self, wrong: NDArray[np.bool_], problem: str, advice: str) -> InputError:
        worst = int(np.flatnonzero(wrong)[0])
        link = f"link {self.source[worst]}-{self.target[worst]}"
        return InputError(problem.format(link), self.path, int(self.lines[worst]), advice)
