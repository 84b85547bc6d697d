"""Scores of a sentence without the model's frame, so that all models have the same rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.corpora.symbols import PLAIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.corpora.symbols import Frame

    Numbers = NDArray[np.floating[Any]]


def of_source(scores: Numbers, frame: Frame) -> Numbers:
    """Returns scores (..., target, source) with rows for pieces and END, and columns for [BEGIN,] pieces and END."""
    if frame == PLAIN:
        return scores
    scores = scores[..., frame.lead :, :]
    return np.roll(scores, 1, axis=-1) if frame.source_last else scores


def of_prefix(scores: Numbers, frame: Frame) -> Numbers:
    """Returns scores (target, prefix) likewise; all that the decoder reads before a target is one column, BEGIN."""
    if not frame.lead:
        return scores
    first, rest = np.split(scores[frame.lead :], [frame.lead + 1], axis=1)
    return np.concatenate((first.sum(1, keepdims=True), rest), axis=1)
