"""The sentences of the figures: pieces, gold links and the score matrices of several models and methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.alignment.gold import read_gold
from alignlens.display.sentences import Example, Side
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.results.paths import FORCED, TEST, TEXT
from alignlens.results.protocol import ARCHITECTURES
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.alignment.gold import Gold
    from alignlens.results.scores import AttributedModel, Results, ScoredDataset

_WORDS = range(6, 13)
_USUAL_WORDS = 8
_MOST_PIECES = 12


def read_example(results: Results, dataset: ScoredDataset) -> Example | None:
    """Returns the sentence to draw of a dataset, or None where text, gold links or matrices are missing.

    Models that are drawn together read the same pieces: those of the first one in the order of the architectures.
    """
    gold_path = results.manifest.path(TEXT, dataset=dataset.name, split=TEST, side="gold")
    if gold_path is None:
        return None
    gold = read_gold(gold_path, 0, "pharaoh")
    for reverse, direction in enumerate(dataset.directions):
        for pieces in dict.fromkeys(_pieces(results, run, direction) for _, run in _shown(results, dataset)):
            if pieces is None:
                continue
            source, target = ([words(line) for line in read_lines(path)] for path in pieces)
            sides = [
                (Side(a, word_of_piece(a)), Side(b, word_of_piece(b))) for a, b in zip(source, target, strict=True)
            ]
            number = choose(gold, sides)
            rows = _matrices(results, dataset, direction, pieces, number)
            if rows:
                own_sides = sides[number][::-1] if reverse else sides[number]
                links = [
                    [(j, i) if reverse else (i, j) for i, j in links_of_kind]
                    for links_of_kind in (gold.sure[number], gold.possible[number])
                ]
                return Example(dataset.name, direction, number, *own_sides, links[0], links[1], rows)
    return None


def _pieces(results: Results, run: AttributedModel, direction: str) -> tuple[Path, Path] | None:
    """Returns both sides of the test text in the pieces that a model reads; None where one is missing."""
    model = {"dataset": run.dataset, "direction": direction, "model": run.model, "seed": run.seed}
    source, target = (results.manifest.pieces(side, **model) for side in ("source", "target"))
    return None if source is None or target is None else (source, target)


def _shown(results: Results, dataset: ScoredDataset) -> list[tuple[str, AttributedModel]]:
    """Returns all runs with the reference and what to call their models, in the order of the paper's architectures."""
    titled = []
    for architecture, title in ARCHITECTURES.items():
        several = len(results.names(dataset.name, architecture)) > 1
        for run in results.runs(dataset.name, architecture, FORCED):
            titled.append((f"{title} ({run.model})" if several else title, run))
    return titled


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
    results: Results, dataset: ScoredDataset, direction: str, pieces: tuple[Path, Path], number: int
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Returns the matrices of the first seed of every model that reads these pieces."""
    by_title: dict[str, dict[str, NDArray[np.float32]]] = {}
    for label, run in _shown(results, dataset):
        folder = results.matrices(run, direction)
        if label in by_title or folder is None or _pieces(results, run, direction) != pieces:
            continue
        matrices = Matrices.open(folder)
        begin = int(bool(matrices.facts.get("source_begin", False)))
        by_title[label] = {name: matrices.matrix(name, number)[:, begin:] for name in matrices.names}
    return by_title
