"""What models were asked, sentence by sentence: the text as a model reads and explains it, gold links, scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.extraction import by_words, links_of
from alignlens.alignment.gold import read_gold
from alignlens.attribution.registry import parse
from alignlens.display.sentences import Side
from alignlens.errors import InputError
from alignlens.io.matrices import Matrices
from alignlens.io.text import check_equal_counts, read_lines, words
from alignlens.results.paths import FORCED, FREE, FREE_GOLD, TEST, TEXT, TRANSLATED_PIECES
from alignlens.results.reader import without_noise_seed
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.alignment.links import Alignment
    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import AttributedModel, Results, Score, ScoredDataset

_ADVICE = "Delete both and make them again: run the pipeline again."


@dataclass(frozen=True)
class Text:
    """The test text in the orientation of a model: what it reads, what is explained, and gold links between them."""

    decoding: str
    source: list[Side]
    target: list[Side]
    sure: Alignment
    possible: Alignment


@dataclass(frozen=True)
class Asked:
    """One model and seed that was asked in one direction, about the reference or about its own translation."""

    run: AttributedModel
    direction: str
    reverse: bool
    text: Text
    matrices: Matrices

    @property
    def begin(self) -> int:
        """How many columns stand before those of the source's pieces."""
        return int(bool(self.matrices.facts.get("source_begin", False)))

    @cached_property
    def methods(self) -> list[str]:
        """The canonical methods with the first seed of their noise, as they are stored."""
        return [name for name in self.matrices.names if without_noise_seed(name) == name]

    def prefix(self, method: str) -> str | None:
        """Returns what the matrices of the target prefix are called, if there are some."""
        name = parse(method).matrices[-1]
        return name if name in self.matrices.squares else None

    def cells(self) -> NDArray[np.int64]:
        """Returns how many scores there are of every sentence."""
        rows, columns = self.matrices.shapes.T
        squares = sum(self.prefix(method) is not None for method in self.methods)
        cells: NDArray[np.int64] = rows * (columns * len(self.methods) + rows * squares)
        return cells

    def links(self, method: str, extraction: str, numbers: Sequence[int] | None = None) -> Alignment:
        """Returns the links of a method in the model's orientation: of all sentences, or of some, counted anew."""
        wanted = range(len(self.text.source)) if numbers is None else numbers
        return links_of(
            (self.matrices.matrix(method, k) for k in wanted),
            [self.text.source[k].word_of_piece for k in wanted],
            [self.text.target[k].word_of_piece for k in wanted],
            extraction,
            begin=bool(self.begin),
        )

    def scores_of_words(self, method: str, number: int) -> NDArray[np.float64]:
        """Returns scores of words (target, source): sums over source pieces, means over target pieces; no END."""
        sides = self.text.source[number], self.text.target[number]
        source, target = (np.asarray(side.word_of_piece, dtype=np.int64) for side in sides)
        return by_words(self.matrices.matrix(method, number), source, target, bool(self.begin))[:, self.begin : -1]

    def score(self, method: str, extraction: str) -> Score | None:
        """Returns the row of the table of scores."""
        return next(iter(self.run.find(method, self.direction, extraction)), None)


def read_asked(results: Results, dataset: ScoredDataset) -> list[Asked]:
    """Returns the first seed of every model in both directions, forced before free; what is missing is left out."""
    texts: dict[tuple[Path, ...], Text] = {}
    attributions = []
    for decoding in (FORCED, FREE):
        runs: dict[str, AttributedModel] = {}
        for run in results.runs(dataset.name, decoding=decoding):
            runs.setdefault(run.model, run)
        for reverse, direction in enumerate(dataset.directions):
            for run in runs.values():
                paths = _paths(results.manifest, run, direction, bool(reverse))
                folder = results.matrices(run, direction)
                if paths is None or folder is None:
                    continue
                if paths not in texts:
                    texts[paths] = _read_text(paths, decoding, turned=bool(reverse) and decoding == FORCED)
                attributions.append(Asked(run, direction, bool(reverse), texts[paths], _fitting(folder, texts[paths])))
    return attributions


def _paths(manifest: Manifest, run: AttributedModel, direction: str, reverse: bool) -> tuple[Path, ...] | None:
    """Returns source, target and gold links of a model; None if any of them is missing."""
    names = {"dataset": run.dataset, "direction": direction, "model": run.model, "seed": run.seed}
    source, target = ("target", "source") if reverse else ("source", "target")
    if run.decoding == FREE:
        rest = manifest.path(TRANSLATED_PIECES, **names), manifest.path(FREE_GOLD, **names)
    else:
        gold = manifest.path(TEXT, dataset=run.dataset, split=TEST, side="gold")
        rest = manifest.pieces(target, **names), gold
    paths = (manifest.pieces(source, **names), *rest)
    present = tuple(path for path in paths if path is not None)
    return present if len(present) == len(paths) else None


def _read_text(paths: tuple[Path, ...], decoding: str, turned: bool) -> Text:
    """Returns the text in two files of pieces with its gold links, which are the other way round if ``turned``."""
    source, target = ([_side(line) for line in read_lines(path)] for path in paths[:2])
    check_equal_counts([*paths[:2]], [len(source), len(target)])
    lengths = [_length(side) for side in source], [_length(side) for side in target]
    gold = read_gold(paths[2], 0, "pharaoh", *(lengths[::-1] if turned else lengths))
    sure, possible = (links.transposed() if turned else links for links in (gold.sure, gold.possible))
    return Text(decoding, source, target, sure, possible)


def _side(line: str) -> Side:
    pieces = words(line)
    return Side(pieces, word_of_piece(pieces))


def _length(side: Side) -> int:
    return side.word_of_piece[-1] + 1 if side.pieces else 0


def _fitting(folder: Path, text: Text) -> Matrices:
    """Returns the scores in a folder, after checking that they are about this text."""
    matrices = Matrices.open(folder)
    begin = int(bool(matrices.facts.get("source_begin", False)))
    pairs = zip(text.target, text.source, strict=True)
    expected = [(len(target.pieces) + 1, len(source.pieces) + 1 + begin) for target, source in pairs]
    if not np.array_equal(matrices.numbers, np.arange(len(expected))) or not np.array_equal(matrices.shapes, expected):
        raise InputError("its scores are not those of the pieces of the test text.", folder, advice=_ADVICE)
    return matrices
