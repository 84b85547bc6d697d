"""A sentence pair as it is drawn: pieces, words, gold links, and what models scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Side:
    """One side of a sentence pair in pieces, and the word that each piece belongs to."""

    pieces: list[str]
    word_of_piece: list[int]


@dataclass(frozen=True)
class Example:
    """A test sentence as a model reads it (source) and is given it (target); gold links of words likewise."""

    dataset: str
    direction: str
    number: int
    source: Side
    target: Side
    sure: list[tuple[int, int]]
    possible: list[tuple[int, int]]
    rows: dict[str, dict[str, NDArray[np.float32]]]
    """Matrices by model and method: target pieces with END x source pieces with END."""
