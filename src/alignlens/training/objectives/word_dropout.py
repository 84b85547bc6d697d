"""Word dropout of one side (Voita et al. 2021, section 5): the model reads wrong tokens, and predicts the right ones.

As in their released code, control symbols and the first token of a sentence are never replaced, and every other one is
with the same probability. Random pieces are drawn from those that the training text has: their vocabulary is made of
that text, while ours also has a piece for every byte, most of which the model would never see otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alignlens.corpora.frequency import counts_of
from alignlens.corpora.symbols import PADDING_ID, UNKNOWN_ID
from alignlens.training.objectives.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    from alignlens.corpora.batches import Batch, Integers
    from alignlens.corpora.tokens import TokenStore
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Material, Moment, Outcome
    from alignlens.training.objectives.registry import WordDropoutOptions

_LAST_CONTROL_ID = PADDING_ID


def pieces_of(store: TokenStore) -> Integers:
    """Returns the ids of the pieces that occur in a text, control symbols left out."""
    ids = np.flatnonzero(counts_of(store))
    return ids[ids > _LAST_CONTROL_ID]


def replaced(
    ids: Integers, first: int, share: float, replacements: Integers, generator: np.random.Generator
) -> tuple[Integers, int, int]:
    """Returns ids with a share of the pieces from column ``first`` on replaced, how many were, and how many may be."""
    may = ids > _LAST_CONTROL_ID
    may[:, :first] = False
    chosen = may & (generator.random(ids.shape) < share)
    drawn = replacements[generator.integers(len(replacements), size=ids.shape)]
    return np.where(chosen, drawn, ids), int(chosen.sum()), int(may.sum())


class _WordDropout(CrossEntropy):
    """Cross entropy of batches in which one side is changed."""

    metrics = ("replaced",)

    def __init__(self, options: WordDropoutOptions, material: Material, store: TokenStore, first: int) -> None:
        super().__init__(options, material)
        self._first, self._share = first, options.share
        self._replacements = pieces_of(store) if options.by == "random" else np.array([UNKNOWN_ID])

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns the cross entropy of the labels, given wrong tokens."""
        generator = moment.generator("word dropout")
        ids, number, among = replaced(self._read(batch), self._first, self._share, self._replacements, generator)
        return replace(super().forward(model, self._with(batch, ids), moment), measured={"replaced": (number, among)})

    @abstractmethod
    def _read(self, batch: Batch) -> Integers:
        """Returns the ids that are changed."""

    @abstractmethod
    def _with(self, batch: Batch, ids: Integers) -> Batch:
        """Returns the batch with changed ids."""


class SourceWordDropout(_WordDropout):
    """The encoder reads wrong tokens."""

    def __init__(self, options: WordDropoutOptions, material: Material) -> None:
        super().__init__(options, material, material.source, first=1 + material.spec.source_begin)

    def _read(self, batch: Batch) -> Integers:
        return batch.source

    def _with(self, batch: Batch, ids: Integers) -> Batch:
        return replace(batch, source=ids)


class TargetWordDropout(_WordDropout):
    """The decoder reads wrong tokens; what it has to predict stays right."""

    def __init__(self, options: WordDropoutOptions, material: Material) -> None:
        super().__init__(options, material, material.target, first=2)  # BEGIN and the first token stand before it

    def _read(self, batch: Batch) -> Integers:
        return batch.prefix

    def _with(self, batch: Batch, ids: Integers) -> Batch:
        return replace(batch, prefix=ids)
