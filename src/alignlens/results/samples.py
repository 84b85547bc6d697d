"""The sentences behind a row of scores, and the row's values on resampled text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alignlens.errors import InputError
from alignlens.metrics.aer import Counts
from alignlens.metrics.sampled import Draws, Sampled, mean_of
from alignlens.metrics.sentences import FILE, read_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.metrics.sentences import SentenceCounts
    from alignlens.results.scores import AttributedModel, Score

# Files hold four digits of an error rate, and entropies in single precision.
_ROUNDING = 1e-3
_ADVICE = "Delete both and recreate them with: alignlens score or alignlens score-methods, or run the pipeline again."


@dataclass(frozen=True)
class SentenceFile:
    """The counts of all rows of a metrics file, read when the first of them is asked for."""

    metrics: Path
    names: tuple[str, ...] = field(repr=False, compare=False)
    """Of the rows that the metrics file has, in its order."""
    sentences: int

    @cached_property
    def content(self) -> SentenceCounts:
        """All of it, after checking that it is about the same rows."""
        path = self.metrics.with_name(FILE)
        sentences = read_sentences(path)
        if sentences.names != self.names or sentences.counts.shape[1] != self.sentences:
            raise InputError(f"has other rows or sentences than {self.metrics.name} beside it.", path, advice=_ADVICE)
        return sentences

    def refused(self, row: int) -> InputError:
        """Returns the error for a row whose sentences do not add up to the metrics file."""
        problem = f"has other counts for {self.names[row]} than {self.metrics.name} beside it."
        return InputError(problem, self.metrics.with_name(FILE), advice=_ADVICE)


@dataclass(frozen=True)
class SentenceRow:
    """One row of such a file."""

    file: SentenceFile
    row: int

    @property
    def counts(self) -> NDArray[np.int32]:
        """Sentences x 4."""
        counts: NDArray[np.int32] = self.file.content.counts[self.row]
        return counts

    @property
    def entropies(self) -> NDArray[np.float32]:
        """One number per sentence, nan where it has none."""
        entropies: NDArray[np.float32] = self.file.content.entropies[self.row]
        return entropies


class Samples:
    """Rows of scores as numbers with their uncertainty."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self._known: dict[tuple[SentenceRow, str], Sampled] = {}

    def error_rate(self, scores: Iterable[Score]) -> Sampled | None:
        """Returns the error rate of a row, the mean over the seeds of its noise; None if it was not measured."""
        return _mean(self._once(score, "aer", self._error_rate) for score in scores if not math.isnan(score.aer))

    def entropy(self, scores: Iterable[Score]) -> Sampled | None:
        """Returns the entropy of a row in the same way."""
        return _mean(self._once(score, "entropy", self._entropy) for score in scores if not math.isnan(score.entropy))

    def over_seeds(
        self, runs: Iterable[AttributedModel], measure: Callable[[AttributedModel], Sampled | None]
    ) -> Sampled | None:
        """Returns a measure of one model, the mean over those of its seeds that have it; None if none has."""
        measured = [(run, value) for run in runs if (value := measure(run)) is not None]
        if not measured:
            return None
        model = " ".join((measured[0][0].dataset, measured[0][0].model))
        return self.draws.over_seeds(model, [value for _, value in measured])

    def _once(self, score: Score, name: str, measure: Callable[[Score], Sampled]) -> Sampled:
        key = score.sentences, name
        if key not in self._known:
            self._known[key] = measure(score)
        return self._known[key]

    def _error_rate(self, score: Score) -> Sampled:
        counts = score.sentences.counts
        if not abs(Counts(counts.astype(np.int64)).scores().aer - score.aer) <= _ROUNDING:
            raise score.sentences.file.refused(score.sentences.row)
        hits, sizes = counts[:, :2].sum(axis=1), counts[:, 2:].sum(axis=1)
        return Sampled(score.aer, 100 * (1 - self.draws.ratio(hits, sizes)))

    def _entropy(self, score: Score) -> Sampled:
        entropies = score.sentences.entropies.astype(np.float64)
        known = ~np.isnan(entropies)
        if not known.any() or not abs(entropies[known].mean() - score.entropy) <= _ROUNDING:
            raise score.sentences.file.refused(score.sentences.row)
        return Sampled(score.entropy, self.draws.ratio(np.where(known, entropies, 0), known))


def _mean(values: Iterable[Sampled]) -> Sampled | None:
    numbers = list(values)
    return mean_of(numbers) if numbers else None
