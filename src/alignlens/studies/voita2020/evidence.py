"""What the claims are tested on: shares and entropies of every sentence and position, by model and prefix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.io.matrices import Matrices
from alignlens.metrics.contributions import Steps, divergence, influence
from alignlens.metrics.sampled import Draws, Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: What is measured at every target position; the last is by source position.
SOURCE, RAW, START = "source share", "raw source share", "start symbol"
SOURCE_ENTROPY, TARGET_ENTROPY, INFLUENCE = "source entropy", "target entropy", "influence of source positions"
QUANTITIES = (SOURCE, RAW, START, SOURCE_ENTROPY, TARGET_ENTROPY, INFLUENCE)


class Asked(NamedTuple):
    """One model, its weights, and what it was given: prefixes of the reference, its own, or of other pairs."""

    dataset: str
    model: str
    seed: int
    weights: str
    prefix: str
    alpha: float


@dataclass(frozen=True, eq=False)
class Curves:
    """Numbers (sentence, position) of sentences of one length, by quantity."""

    numbers: dict[str, Numbers]

    @classmethod
    def of(cls, folder: Path | str, method: str) -> Curves:
        """Returns the curves of a folder of scores; of sentences with several lengths, those of the most frequent."""
        matrices = Matrices.open(folder)
        shapes = matrices.shapes
        kinds, counts = np.unique(shapes, axis=0, return_counts=True)
        chosen = np.flatnonzero((shapes == kinds[counts.argmax()]).all(axis=1))
        rows: dict[str, list[Numbers]] = {name: [] for name in QUANTITIES}
        for place in chosen.tolist():
            number = int(matrices.numbers[place])
            source, prefix = (matrices.matrix(name, number) for name in (method, f"{method}@prefix"))
            steps = Steps.of(source, prefix)
            for name, found in (
                (SOURCE, steps.renormalised),
                (RAW, steps.source),
                (START, steps.start),
                (SOURCE_ENTROPY, steps.source_entropy),
                (TARGET_ENTROPY, steps.target_entropy),
                (INFLUENCE, influence(source)),
            ):
                rows[name].append(found)
        return cls({name: np.stack(found) for name, found in rows.items()})

    @property
    def sentences(self) -> int:
        """How many there are."""
        return len(self.numbers[SOURCE])

    @property
    def positions(self) -> int:
        """Target positions, the end symbol included."""
        return self.numbers[SOURCE].shape[1]

    def mean(self, quantity: str) -> Numbers:
        """Returns the mean over sentences at every position."""
        return self.numbers[quantity].mean(axis=0)

    def samples(self, quantity: str, draws: Draws) -> Numbers:
        """Returns (sample, position): the means of resampled sentences, the same ones at every position."""
        found = self.numbers[quantity]
        return np.stack([draws.ratio(column, np.ones(len(column))) for column in found.T], axis=1)

    def band(self, quantity: str, draws: Draws) -> Numbers:
        """Returns the limits (2, position) that hold the means of resampled sentences."""
        edges = [(100 - draws.level) / 2, (100 + draws.level) / 2]
        limits: Numbers = np.percentile(self.samples(quantity, draws), edges, axis=0)
        return limits

    def sampled(self, quantity: str, places: Sequence[int] | slice, draws: Draws) -> Sampled:
        """Returns the mean over sentences and some positions."""
        by_sentence = self.numbers[quantity][:, places].mean(axis=1)
        return Sampled(float(by_sentence.mean()), draws.ratio(by_sentence, np.ones(len(by_sentence))))


@dataclass(frozen=True)
class Evidence:
    """All curves that were read, and how sentences are drawn again."""

    curves: dict[Asked, Curves] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)
