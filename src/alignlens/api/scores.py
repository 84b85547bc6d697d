"""Scores of one sentence pair in Python: a matrix with names, a table, and a picture in notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.alignment.soft import word_shares
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    Matrix = NDArray[np.floating[Any]]

END = "END"
BEGIN = "BEGIN"
_DARKEST = 0.85


@dataclass(frozen=True)
class Scores:
    """Scores of one sentence pair by a method: ``matrix[t, s]`` is how much source piece s mattered for target piece t.

    The last row and column belong to END; the first column to BEGIN, if the model reads it. ``to_words`` has shares of
    words, without them.
    """

    method: str
    matrix: Matrix
    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a table: a row for every target piece, a column for every source piece."""
        import pandas as pd

        return pd.DataFrame(self.matrix, index=list(self.target), columns=list(self.source))

    def to_words(self) -> pandas.DataFrame:
        """Returns shares of source words (columns) in every target word (rows); rows sum to one.

        Scores are summed over the pieces of a source word and averaged over those of a target word.
        """
        import pandas as pd

        begin = self.source[:1] == (BEGIN,)
        source, target = self.source[begin:-1], self.target[:-1]
        (shares,) = word_shares(self.matrix[None], word_of_piece(source), word_of_piece(target), begin=begin)
        return pd.DataFrame(shares, index=list(self.target_words), columns=list(self.source_words))

    def _repr_html_(self) -> str:
        """Returns the matrix as a table shaded by score, which notebooks show."""
        largest = max(float(np.abs(self.matrix).max(initial=0.0)), np.finfo(np.float64).tiny)
        head = "".join(f"<th>{escape(piece)}</th>" for piece in self.source)
        rows = "".join(
            f"<tr><th>{escape(piece)}</th>{''.join(_cell(float(value), largest) for value in row)}</tr>"
            for piece, row in zip(self.target, self.matrix, strict=True)
        )
        return f"<table><caption>{escape(self.method)}</caption><tr><th></th>{head}</tr>{rows}</table>"


def _cell(value: float, largest: float) -> str:
    """Returns a cell: the darker, the larger the score; a negative one is red."""
    colour = "30,30,30" if value >= 0 else "200,30,30"
    shade = _DARKEST * abs(value) / largest
    ink = "#fff" if shade > _DARKEST / 2 else "#000"
    return f'<td style="background:rgba({colour},{shade:.3f});color:{ink}">{value:.2f}</td>'
