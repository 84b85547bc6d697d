"""Scores of one method in few bytes, for the browser of sentences: a level of 256 for every pair of pieces.

A chunk has, for the sentences shown and in their order, little-endian and one after the other:

    scale        two float32 per sentence: the scores of the lowest and the highest level
    prefix scale likewise of the target prefix, if the method explains it
    best         uint16 per target piece: the source piece with the largest score (extraction ding)
    word         uint16 per target word: the source word it is linked to, or NONE (extraction kobayashi)
    scores       uint8 per cell: target pieces and END by source pieces and END
    prefix       uint8 per cell: target pieces and END by start symbol and target pieces
    share        uint8 per target piece and END: the share of the source of 254 parts, or UNKNOWN

It is then compressed (zlib) and written in base64. ``templates/browser_data.js`` reads it.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.alignment.extraction import best_words
from alignlens.metrics.contributions import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.report.attributed import Asked

    Matrix = NDArray[np.float32]

LEVELS = 255
NONE = 0xFFFF
PARTS, UNKNOWN = 254, 255


def chunks(asked: Asked, methods: Sequence[str], numbers: Sequence[int]) -> Iterator[str]:
    """Yields everything the browser shows of each method on some sentences."""
    parts = [_parts(asked, methods, number) for number in numbers]
    for place, method in enumerate(methods):
        name = asked.prefix(method)
        prefixes = [] if name is None else [asked.matrices.matrix(name, number) for number in numbers]
        prefix_scales, prefix_scores = _quantised(prefixes)
        content = (
            np.stack([part.scales[place] for part in parts]),
            prefix_scales,
            np.concatenate([part.best[place] for part in parts]),
            np.concatenate([part.word[place] for part in parts]),
            np.concatenate([part.scores[place].ravel() for part in parts]),
            prefix_scores,
            _shares([asked.matrices.matrix(method, number) for number in numbers] if prefixes else [], prefixes),
        )
        yield base64.b64encode(zlib.compress(b"".join(each.tobytes() for each in content), 6)).decode("ascii")


class _Parts(NamedTuple):
    """All methods on one sentence, methods first."""

    scales: NDArray[np.float32]
    scores: NDArray[np.uint8]
    best: NDArray[np.uint16]
    word: NDArray[np.uint16]


def _parts(asked: Asked, methods: Sequence[str], number: int) -> _Parts:
    matrices = np.stack([asked.matrices.matrix(method, number) for method in methods])
    sides = asked.text.source[number], asked.text.target[number]
    source, target = (np.array(side.word_of_piece, dtype=np.int64) for side in sides)
    lengths = [max(side.word_of_piece, default=-1) + 1 for side in sides]
    best = np.full((len(methods), len(target)), NONE)
    word = np.full((len(methods), lengths[1]), NONE)
    if all(lengths):
        best = matrices[:, :-1, asked.begin : -1].argmax(axis=-1)
        word = best_words(matrices, source, target, bool(asked.begin))
    scales, scores = quantised(matrices)
    return _Parts(scales, scores, best.astype("<u2"), np.where(word < 0, NONE, word).astype("<u2"))


def quantised(matrices: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Returns (matrix, 2) the scores of the lowest and the highest level of each, and the level of every cell.

    Zero is never outside the scale, so that shades of different sentences begin at the same score.
    """
    exact = matrices.astype(np.float64)
    low, high = (edge.astype("<f4") for edge in (exact.min((1, 2), initial=0), exact.max((1, 2), initial=0)))
    step = (high.astype(np.float64) - low) / LEVELS
    levels = np.rint((exact - low[:, None, None]) / np.where(step > 0, step, 1)[:, None, None]).clip(0, LEVELS)
    return np.stack([low, high], axis=1), levels.astype(np.uint8)


def _quantised(matrices: Sequence[Matrix]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Returns the same of matrices of many shapes, one after the other."""
    parts = [quantised(matrix[None]) for matrix in matrices]
    if not parts:
        return np.empty((0, 2), dtype="<f4"), np.empty(0, dtype=np.uint8)
    return np.concatenate([scale for scale, _ in parts]), np.concatenate([levels.ravel() for _, levels in parts])


def _shares(matrices: Sequence[Matrix], prefixes: Sequence[Matrix]) -> NDArray[np.uint8]:
    """Returns the source's share of every step, the start symbol left out; unknown where there is nothing else."""
    if not prefixes:
        return np.empty(0, dtype=np.uint8)
    shares = np.concatenate(
        [Steps.of(source, prefix).renormalised for source, prefix in zip(matrices, prefixes, strict=True)]
    )
    return np.where(np.isnan(shares), UNKNOWN, np.rint(np.nan_to_num(shares) * PARTS)).astype(np.uint8)
