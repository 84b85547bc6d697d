"""The sentences of the figures: pieces, gold links and the score matrices of several models and methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.alignment.gold import read_gold
from alignlens.display.sentences import Example, Side
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.results.paths import FORCED, PIECES, TEST, TEXT
from alignlens.results.protocol import ARCHITECTURES
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.alignment.gold import Gold
    from alignlens.results.scores import Results, ScoredDataset

_WORDS = range(6, 13)
_USUAL_WORDS = 8
_MOST_PIECES = 12


def read_example(results: Results, dataset: ScoredDataset) -> Example | None:
    """Returns the sentence to draw of a dataset, or None where text, gold links or matrices are missing."""
    test, find = {"dataset": dataset.name, "split": TEST}, results.manifest.path
    pieces = [path for side in ("source", "target") if (path := find(PIECES, side=side, **test)) is not None]
    gold_path = find(TEXT, side="gold", **test)
    if len(pieces) != 2 or gold_path is None:
        return None
    source, target = ([words(line) for line in read_lines(path)] for path in pieces)
    sides = [(Side(a, word_of_piece(a)), Side(b, word_of_piece(b))) for a, b in zip(source, target, strict=True)]
    gold = read_gold(gold_path, 0, "pharaoh")
    number = choose(gold, sides)
    for reverse, direction in enumerate(dataset.directions):
        rows = _matrices(results, dataset, direction, number)
        if rows:
            mine = sides[number][::-1] if reverse else sides[number]
            links = [
                [(j, i) if reverse else (i, j) for i, j in found]
                for found in (gold.sure[number], gold.possible[number])
            ]
            return Example(dataset.name, direction, number, *mine, links[0], links[1], rows)
    return None


def choose(gold: Gold, sides: Sequence[tuple[Side, Side]]) -> int:
    """Returns a sentence of usual length, in few pieces, whose gold links cross; the same one every time."""

    def badness(number: int) -> tuple[bool, bool, bool, float, int]:
        source, target = sides[number]
        lengths = [max(side.word_of_piece, default=-1) + 1 for side in (source, target)]
        links = gold.sure[number]
        return (
            not all(length in _WORDS for length in lengths),
            not any(i < k and j > m for i, j in links for k, m in links),
            max(len(source.pieces), len(target.pieces)) > _MOST_PIECES,
            _unlinked(links, lengths) + sum(abs(length - _USUAL_WORDS) for length in lengths) / 2,
            number,
        )

    return min(range(len(sides)), key=badness)


def _unlinked(links: Sequence[tuple[int, int]], lengths: Sequence[int]) -> int:
    return sum(length - len({link[side] for link in links}) for side, length in enumerate(lengths))


def _matrices(
    results: Results, dataset: ScoredDataset, direction: str, number: int
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Returns the matrices of the first seed of every model, in the order of the paper's architectures."""
    found: dict[str, dict[str, NDArray[np.float32]]] = {}
    for architecture, title in ARCHITECTURES.items():
        names = results.names(dataset.name, architecture)
        for run in results.runs(dataset.name, architecture, FORCED):
            label = title if len(names) == 1 else f"{title} ({run.model})"
            folder = results.matrices(run, direction)
            if label in found or folder is None:
                continue
            matrices = Matrices.open(folder)
            begin = int(bool(matrices.facts.get("source_begin", False)))
            found[label] = {name: matrices.matrix(name, number)[:, begin:] for name in matrices.names}
    return found
