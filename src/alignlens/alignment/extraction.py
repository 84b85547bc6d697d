"""From scores of pieces to links of words, in the two procedures found in the literature.

A matrix has a row per target piece and one for END, a column per source piece and one for END (and one for BEGIN
before them, if the model reads it).

*ding* (Ding et al. 2019): without END and BEGIN, every target piece takes the source piece with the largest score, and
two words are linked if any of their pieces are. A target word has at least one link, and as many as it has pieces at
most.

*kobayashi* (Kobayashi et al. 2020): scores are summed over the pieces of a source word and averaged over those of a
target word; every target word takes the source word with the largest score, or none where END (or BEGIN) has it.

Ties go to the first piece or word of the sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.alignment.links import Alignment
from alignlens.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Scores = NDArray[np.floating]
    Owners = Sequence[int] | Integers


def extract(
    matrix: Scores, source_words: Owners, target_words: Owners, procedure: str, *, begin: bool = False
) -> list[tuple[int, int, float]]:
    """Returns the links of one sentence pair as (source word, target word, score), sorted.

    ``source_words`` and ``target_words`` say which word each piece belongs to, as in ``links_of``.
    """
    links = links_of([matrix], [source_words], [target_words], procedure, begin=begin)
    scores = links.scores if links.scores is not None else np.empty(0)
    return list(zip(links.source.tolist(), links.target.tolist(), scores.tolist(), strict=True))


def links_of(
    matrices: Iterable[Scores],
    source_words: Sequence[Owners],
    target_words: Sequence[Owners],
    procedure: str,
    *,
    begin: bool = False,
) -> Alignment:
    """Returns the links, with scores, of a corpus: one matrix per sentence pair, looked at one at a time.

    ``source_words[k]`` says which word each piece of source sentence k belongs to, without END and BEGIN, in
    ascending order; -1 for pieces that spell no word at all, which only a model writes. A side without words has no
    links. The score of a link is that of its words (kobayashi), or the largest of its linked pieces (ding).
    """
    if procedure not in EXTRACTIONS:
        raise ConfigError(unknown_name("extraction", procedure, EXTRACTIONS))
    if len(source_words) != len(target_words):
        raise ValueError(f"{len(source_words)} source and {len(target_words)} target sentences")
    find = _ding if procedure == "ding" else _kobayashi
    parts = []
    pairs = zip(matrices, source_words, target_words, strict=True)
    for number, (matrix, source, target) in enumerate(pairs):
        rows, columns = np.asarray(target, dtype=np.int64), np.asarray(source, dtype=np.int64)
        expected = (rows.size + 1, columns.size + 1 + begin)
        if matrix.shape != expected:
            raise ValueError(f"sentence {number}: scores of shape {matrix.shape}, expected {expected}")
        if rows.size and columns.size and rows[-1] >= 0 and columns[-1] >= 0:
            links = find(matrix, columns, rows, begin)
            parts.append((np.full(links[0].size, number, dtype=np.int64), *links))
    return _merged(parts, len(source_words))


def _ding(
    matrix: Scores, source: Integers, target: Integers, begin: bool
) -> tuple[Integers, Integers, NDArray[np.float64]]:
    """Returns source word, target word and score of the best source piece of every target piece."""
    inner = matrix[:-1, int(begin) : -1]
    best = inner.argmax(axis=1)
    return source[best], target, inner[np.arange(target.size), best].astype(np.float64)


def _kobayashi(
    matrix: Scores, source: Integers, target: Integers, begin: bool
) -> tuple[Integers, Integers, NDArray[np.float64]]:
    """Returns source word, target word and score of the best source word of every target word that has one."""
    means = by_words(matrix, source, target, begin)
    word = _chosen(means, begin)
    aligned = np.flatnonzero(word >= 0)
    return (
        source[_starts(source)[word[aligned]]],
        target[_starts(target)[aligned]],
        means[aligned, word[aligned] + int(begin)],
    )


def best_words(matrix: Scores, source: Integers, target: Integers, begin: bool) -> Integers:
    """Returns (..., target words): the source word that each is linked to (kobayashi), -1 where END or BEGIN has it.

    Both sides have words. ``matrix`` may be several, as in ``by_words``.
    """
    word = _chosen(by_words(matrix, source, target, begin), begin)
    return np.where(word >= 0, source[_starts(source)][word], -1)


def _chosen(means: NDArray[np.float64], begin: bool) -> Integers:
    word: Integers = means.argmax(axis=-1) - int(begin)
    return np.where(word < means.shape[-1] - 1 - int(begin), word, -1)


def by_words(matrix: Scores, source: Integers, target: Integers, begin: bool) -> NDArray[np.float64]:
    """Returns (..., target words, source words and END): sums over source pieces, means over target pieces.

    BEGIN, if there is one, stays the first column; the row of END is left out. ``matrix`` may be several, one after the
    other on axes before the last two.
    """
    source_starts, target_starts = _starts(source), _starts(target)
    columns = np.concatenate(([0] if begin else [], source_starts + int(begin), [matrix.shape[-1] - 1]))
    of_source = np.add.reduceat(matrix[..., :-1, :].astype(np.float64), columns.astype(np.int64), axis=-1)
    pieces = np.diff(target_starts, append=target.size)
    means: NDArray[np.float64] = np.add.reduceat(of_source, target_starts, axis=-2) / pieces[:, None]
    return means


def _starts(owner: Integers) -> Integers:
    """Returns the first piece of every word."""
    steps = np.diff(owner)
    if (steps < 0).any():
        raise ValueError("pieces whose words are not in order")
    return np.concatenate(([0], np.flatnonzero(steps) + 1)).astype(np.int64)


def _merged(parts: list[tuple[Integers, Integers, Integers, NDArray[np.float64]]], sentences: int) -> Alignment:
    """Returns the alignment of links that may occur several times, each with its largest score."""
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Alignment.from_arrays(nothing, nothing, nothing, sentences, np.empty(0))
    sentence, source, target, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Of a link given several times an alignment keeps the first score.
    order = np.argsort(-scores, kind="stable")
    return Alignment.from_arrays(sentence[order], source[order], target[order], sentences, scores[order])
