"""A model of one direction that gives shares of words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.soft import word_count, word_shares
from alignlens.attribution.corpus import attribute
from alignlens.errors import ConfigError, InputError
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alignlens.alignment.extraction import Scores
    from alignlens.alignment.soft import Shares
    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq
    from alignlens.recipes.grid import Integers
    from alignlens.subwords.spans import Segmenter


@dataclass(frozen=True)
class Asked:
    """A trained model and how it is run."""

    trained: TrainedModel
    tokens: int  # most padded tokens of a batch
    workers: int = 1
    masks: Seq2Seq | None = None
    adaptive: float | None = None

    def shares(
        self, pieces: Pieces, methods: Sequence[Method], advance: Callable[[int], None] | None = None
    ) -> Iterator[tuple[int, Shares]]:
        """Yields the place of every sentence and its shares (method, target words, source words), in any order."""
        by_sentence = attribute(
            self.trained.model,
            pieces.read,
            pieces.explained,
            methods,
            tokens=self.tokens,
            source_begin=self.trained.spec.source_begin,
            adaptive=self.adaptive,
            first=pieces.first,
            workers=self.workers,
            advance=advance,
            masks=self.masks,
        )
        for place, matrices in by_sentence:
            scores = np.stack([matrices[method.text] for method in methods])
            _check_signs(scores, methods)
            words = pieces.source_words[place], pieces.target_words[place]
            yield place, word_shares(scores, *words, begin=self.trained.spec.source_begin)


def _check_signs(scores: Scores, methods: Sequence[Method]) -> None:
    lowest = scores.min(axis=(1, 2))
    if (lowest < 0).any():
        method = methods[int(lowest.argmin())]
        raise ConfigError(f"method {method.text}: its scores have signs and are not shares. Leave it out.")


@dataclass(frozen=True)
class Pieces:
    """What a model reads and explains, and the words that it sees in it."""

    trained: TrainedModel
    read: TokenStore
    explained: TokenStore
    first: int = 0  # the number of the first sentence, where this is a part of a text

    @classmethod
    def of(cls, trained: TrainedModel, read: Given, explained: Given) -> Pieces:
        """Returns the pieces of given sentences."""
        return cls(trained, trained.source_ids(read), trained.target_ids(explained), read.first - 1)

    @cached_property
    def source_words(self) -> list[list[int]]:
        """The word of every piece that is read."""
        return _words(self.trained.source, self.read)

    @cached_property
    def target_words(self) -> list[list[int]]:
        """The word of every piece that is explained."""
        return _words(self.trained.target, self.explained)

    @property
    def source_counts(self) -> Integers:
        """How many words are read in every sentence."""
        return np.array([word_count(words) for words in self.source_words], np.int64)

    @property
    def target_counts(self) -> Integers:
        """How many words are explained in every sentence."""
        return np.array([word_count(words) for words in self.target_words], np.int64)

    def turned(self, reverse: TrainedModel, source: Given, target: Given) -> Pieces:
        """Returns what the model of the other direction reads and explains: the same text, by subwords of its own.

        Raises where the two models do not see the same words.
        """
        texts = source.as_text(self.trained.source), target.as_text(self.trained.target)
        other = Pieces.of(reverse, texts[1], texts[0])
        sides = (texts[0], self.source_counts, other.target_counts), (texts[1], self.target_counts, other.source_counts)
        for given, ours, theirs in sides:
            if (ours != theirs).any():
                place = int(np.argmax(ours != theirs))
                problem = f"{ours[place]} words for {self.trained.folder}, but {theirs[place]} for {reverse.folder}."
                advice = "Give tokenised text, or models whose subwords keep its words intact."
                raise InputError(problem, given.name, given.first + place, advice)
        return other


def _words(segmenter: Segmenter, store: TokenStore) -> list[list[int]]:
    return [word_of_piece(segmenter.pieces_of(store[k])) for k in range(len(store))]
