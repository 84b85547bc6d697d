"""Whole texts: batched by length under a token budget, results in the order of the input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from alignlens.corpora.batches import ordered_batches
from alignlens.corpora.symbols import PLAIN
from alignlens.decoding.beam import beam_search
from alignlens.decoding.hypothesis import NOTHING
from alignlens.decoding.sampling import sample
from alignlens.decoding.sentences import stored
from alignlens.decoding.settings import BeamSettings, TranslationSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.checksum import sha256_of
from alignlens.models.checkpoint import load_model
from alignlens.models.hub import is_foreign, load_foreign
from alignlens.subwords.reading import read_segmenter
from alignlens.subwords.spans import Segmenter, line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.hypothesis import Hypothesis
    from alignlens.decoding.sentences import Pieces
    from alignlens.decoding.settings import DecodingSettings
    from alignlens.models.contract import Seq2Seq
    from alignlens.models.settings import ModelSpec


def decode(
    model: Seq2Seq,
    sources: TokenStore | Sequence[Pieces],
    settings: DecodingSettings,
    *,
    tokens: int = TranslationSettings.batch_tokens,
    source_begin: bool = False,
    advance: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses (beam search) or draws (sampling) of every source sentence, in the order of the input.

    ``tokens`` is the most padded source tokens of a batch, counted once for every hypothesis that is kept at the same
    time. A source without pieces is not shown to the model: its translation is empty. ``advance`` hears how many
    sentences were done.
    """
    store = stored(sources)
    count = 1 if isinstance(settings, BeamSettings) else settings.samples
    results: list[list[Hypothesis]] = [[NOTHING] * count for _ in range(len(store))]
    filled = np.flatnonzero(store.lengths(np.arange(len(store))))
    if advance is not None and len(filled) < len(store):
        advance(len(store) - len(filled))
    budget = max(1, tokens // settings.rows)
    device = next(model.parameters()).device
    for batch in ordered_batches(store, None, tokens=budget, source_begin=source_begin, indices=filled):
        batch = batch.framed(model.frame)
        source, mask = (torch.from_numpy(array).to(device) for array in (batch.source, batch.source_mask))
        numbers = batch.indices.tolist()
        if isinstance(settings, BeamSettings):
            hypotheses = beam_search(model, source, mask, settings)
        else:
            hypotheses = sample(model, source, mask, settings, numbers)
        for number, those in zip(numbers, hypotheses, strict=True):
            results[number] = those
        if advance is not None:
            advance(batch.sentences)
    return results


def translate(
    model: Seq2Seq,
    sources: TokenStore | Sequence[Pieces],
    settings: DecodingSettings,
    *,
    tokens: int = TranslationSettings.batch_tokens,
    source_begin: bool = False,
    advance: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """Returns the first hypothesis of every source sentence, as ``decode`` finds it."""
    decoded = decode(model, sources, settings, tokens=tokens, source_begin=source_begin, advance=advance)
    return [hypotheses[0] for hypotheses in decoded]


@dataclass(frozen=True)
class TrainedModel:
    """An opened model folder: the model, its description, and the subwords that turn text into ids and back."""

    folder: Path
    model: Seq2Seq
    spec: ModelSpec
    source: Segmenter
    target: Segmenter
    weights: Path  # the file of the checkpoint

    @classmethod
    def load(cls, folder: Path | str, weights: str = "weights") -> Self:
        """Returns the trained model of a folder, in evaluation mode: one of ours, or one of the Hugging Face hub."""
        folder = Path(folder)
        if is_foreign(folder):
            return cls._foreign(folder, weights)
        model, spec = load_model(folder, weights)
        segmenters = {}
        for side, size in (("source", spec.source_vocab), ("target", spec.target_vocab)):
            path = folder / f"{side}.model"
            segmenter = read_segmenter(path)
            if len(segmenter) != size:
                raise InputError(
                    f"{len(segmenter)} pieces, but the model in this folder was trained with {size}.",
                    path,
                    advice="Restore the SentencePiece model that it was trained with, or train again.",
                )
            segmenters[side] = segmenter
        return cls(folder, model, spec, **segmenters, weights=folder / f"{weights}.safetensors")

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of weights and both subword models, wherever the folder is."""
        files = [sha256_of(self.weights), self.source.checksum, self.target.checksum]
        if self.spec.frame != PLAIN:  # The same weights with other languages are a different model.
            files.append(repr(self.spec.frame))
        return hashlib.sha256("\n".join(files).encode()).hexdigest()

    @classmethod
    def _foreign(cls, name: Path, weights: str) -> Self:
        if weights != "weights":
            raise ConfigError(f"--weights {weights}: {name} has only one checkpoint. Leave out this option.")
        foreign, folder = load_foreign(name)
        sides = foreign.source_segmenter, foreign.target_segmenter
        return cls(folder, foreign.model, foreign.spec, *sides, foreign.weights)

    def source_ids(self, given: Given) -> TokenStore:
        """Returns the pieces of sentences to read."""
        return given.pieces(self.source, 1 + self.spec.source_begin, self.model.longest)

    def target_ids(self, given: Given) -> TokenStore:
        """Returns the pieces of sentences to explain or to score."""
        return given.pieces(self.target, 1, self.model.longest_target)

    def text(self, ids: Iterable[int]) -> str:
        """Returns the line that target ids spell, with the words that ``word_of_piece`` counts."""
        return line_of(self.target.pieces_of(ids))
