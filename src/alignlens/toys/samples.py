"""Sentences of the toy tasks: fresh for every step, and the same for a seed whoever else trains beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.toys.settings import ControlSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.toys.settings import CopySettings, ToySettings

    Ids = NDArray[np.int64]

FIRST_WORD = PADDING_ID + 1
#: Id of the word to be found.
KEYWORD = 0
# Numbers for different purposes never come from the same generator.
_TRAINING, _EVALUATION, _ORDER, _COUNTS = range(4)


def generator(seed: int, step: int, evaluation: bool = False) -> np.random.Generator:
    """Returns the generator of the samples of a step."""
    return np.random.default_rng([seed, step, _EVALUATION if evaluation else _TRAINING])


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentences and what is to be written, as ids of (row, position)."""

    source: Ids  # words, then END
    target: Ids  # words

    @property
    def prefix(self) -> Ids:
        """What the decoder reads: BEGIN, and all words but the last."""
        begin = np.full((len(self.target), 1), BEGIN_ID)
        return np.concatenate((begin, self.target[:, :-1]), 1)


class CopyTask:
    """Where sentences of a copy task come from."""

    def __init__(self, name: str, settings: ToySettings) -> None:
        self.name, self.settings = name, settings

    def draw(self, seed: int, step: int, evaluation: bool = False) -> Pairs:
        """Returns the samples of a step of a seed."""
        rows = self.settings.evaluate_samples if evaluation else self.settings.batch
        return self._pairs(generator(seed, step, evaluation), seed, rows)

    def order(self, seed: int) -> Ids:
        """Returns which source word stands at each position of the target, for all sentences of a seed."""
        if self.name != "permuted_copy":
            return np.arange(self.settings.words)
        return np.random.default_rng([seed, 0, _ORDER]).permutation(self.settings.words)

    def _pairs(self, random: np.random.Generator, seed: int, rows: int) -> Pairs:
        words = FIRST_WORD + self._words(random, rows)
        ends = np.full((rows, 1), END_ID)
        return Pairs(np.concatenate((words, ends), 1), words[:, self.order(seed)])

    def _words(self, random: np.random.Generator, rows: int) -> Ids:
        """Returns distinct words (row, position), counted from zero."""
        length = self.settings.words
        pool = self.settings.pool if isinstance(self.settings, ControlSettings) else length
        words = random.random((rows, pool)).argsort(1)[:, :length]
        if self.name == "mixture":
            words = words + length * random.integers(0, 2, (rows, 1))
        return words

    def counts(self) -> NDArray[np.float64]:
        """Returns how often words stand together: of each source position a share of one, mean over sentences.

        Rows are source words, columns target words; END counts as a position but has no row. The samples are of
        seed 1, and, like the order of positions, not of any training.
        """
        settings = cast("CopySettings", self.settings)
        pairs = self._pairs(np.random.default_rng([1, 0, _COUNTS]), 1, settings.count_samples)
        size = settings.vocabulary
        read, written = (
            np.apply_along_axis(np.bincount, 1, ids - FIRST_WORD, minlength=size).astype(np.float64)
            for ids in (pairs.source[:, :-1], pairs.target)
        )
        table: NDArray[np.float64] = read.T @ written / pairs.source.shape[1] / len(read)
        return table


@dataclass(frozen=True, eq=False)
class Questions:
    """Sentences that have the keyword once, or not at all; every second one has it."""

    words: Ids  # (row, position)
    positive: NDArray[np.bool_]  # (row)
    places: Ids  # (row): where the keyword is, or would be


def draw_questions(settings: ToySettings, seed: int, step: int, evaluation: bool = False) -> Questions:
    """Returns the samples of a step of a seed."""
    random = generator(seed, step, evaluation)
    rows = settings.evaluate_samples if evaluation else settings.batch
    words = random.integers(KEYWORD + 1, settings.words, (rows, settings.words))
    positive = np.arange(rows) % 2 == 0
    # An evaluation has the keyword at every position, so that none lacks a mean.
    places = np.arange(rows) // 2 % settings.words if evaluation else random.integers(0, settings.words, rows)
    words[np.flatnonzero(positive), places[positive]] = KEYWORD
    return Questions(words, positive, places)
