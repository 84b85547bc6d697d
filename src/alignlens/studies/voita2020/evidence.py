"""What the claims are tested on: shares and entropies of every sentence and position, by model and prefix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.attribution.registry import parse
from alignlens.io.matrices import Matrices
from alignlens.io.trajectories import FINAL, Trajectory
from alignlens.metrics.contributions import Steps, divergence, influence
from alignlens.metrics.sampled import Draws, Sampled
from alignlens.results.paths import ATTRIBUTED, FREE, TRAJECTORY
from alignlens.studies.tally import Tally
from alignlens.studies.voita2020.runs import RANDOM, REFERENCE, pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import Results

    Numbers = NDArray[np.float64]
    Pair = tuple[NDArray[np.floating], NDArray[np.floating]]

#: What is measured at every target position; the last is by source position.
SOURCE, RAW, START = "source share", "raw source share", "share of the start symbol"
SOURCE_ENTROPY, TARGET_ENTROPY, INFLUENCE = "source entropy", "target entropy", "influence of source positions"
QUANTITIES = (SOURCE, RAW, START, SOURCE_ENTROPY, TARGET_ENTROPY, INFLUENCE)
#: What stands before a prediction.
GIVEN, OWN, OTHERS = PREFIXES = ("reference", "own", "random")
_METHOD = "lrp"


@dataclass(frozen=True, eq=False)
class Curves:
    """Numbers (sentence, position) of sentences of one length, by quantity."""

    numbers: dict[str, Numbers]
    worst: float
    """The greatest distance of all shares of a step from one."""

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Curves:
        """Returns the curves of scores of source and prefix; of several lengths, the most frequent counts."""
        shapes = np.array([source.shape for source, _ in pairs])
        kinds, counts = np.unique(shapes, axis=0, return_counts=True)
        chosen = np.flatnonzero((shapes == kinds[counts.argmax()]).all(axis=1))
        rows: dict[str, list[Numbers]] = {name: [] for name in QUANTITIES}
        worst = 0.0
        for place in chosen.tolist():
            source, prefix = pairs[place]
            worst = max(worst, float(np.abs(source.sum(1) + prefix.sum(1) - 1).max()))
            steps = Steps.of(source, prefix)
            shares = (steps.renormalised, steps.source, steps.start, steps.source_entropy, steps.target_entropy)
            for name, numbers in zip(QUANTITIES, (*shares, influence(source)), strict=True):
                rows[name].append(numbers)
        return cls({name: np.stack(shares) for name, shares in rows.items()}, worst)

    @property
    def sentences(self) -> int:
        """How many there are."""
        return len(self.numbers[SOURCE])

    @property
    def positions(self) -> int:
        """Target positions, the end symbol included."""
        return int(self.numbers[SOURCE].shape[1])

    def mean(self, quantity: str) -> Numbers:
        """Returns the mean over sentences at every position."""
        mean: Numbers = self.numbers[quantity].mean(axis=0)
        return mean

    def samples(self, quantity: str, draws: Draws) -> Numbers:
        """Returns (sample, position): the means of resampled sentences, the same ones at every position."""
        return resampled(self.numbers[quantity], draws)

    def sampled(self, quantity: str, draws: Draws, places: slice = slice(1, None)) -> Sampled:
        """Returns the mean over sentences and some positions, by default all after the first."""
        by_sentence = self.numbers[quantity][:, places].mean(axis=1)
        return Sampled(float(by_sentence.mean()), draws.ratio(by_sentence, np.ones(len(by_sentence))))


def resampled(numbers: Numbers, draws: Draws) -> Numbers:
    """Returns (sample, place): the means of (sentence, place) over resampled sentences."""
    ones = np.ones(len(numbers))
    return np.stack([draws.ratio(column, ones) for column in numbers.T], axis=1)


def limits(numbers: Numbers, draws: Draws) -> Numbers:
    """Returns (2, place): what holds the means of (sentence, place) over resampled sentences; nan where none is known.

    Of one sentence nothing is known.
    """
    bounds = np.full((2, numbers.shape[1]), np.nan)
    known = ~np.isnan(numbers).any(axis=0)
    if len(numbers) > 1 and known.any():
        edges = [(100 - draws.level) / 2, (100 + draws.level) / 2]
        bounds[:, known] = np.percentile(resampled(numbers[:, known], draws), edges, axis=0)
    return bounds


class Snapshot(NamedTuple):
    """The first model at one moment of its training."""

    update: int | None  # None for the weights that training kept
    curves: Curves
    divergence: Numbers  # by sentence: of the final model from this one
    correct: Numbers | None  # (sentence, position): whether the reference is the model's first choice


class Key(NamedTuple):
    """One model with one kind of prefixes."""

    dataset: str
    model: str
    prefix: str
    alpha: float


@dataclass(frozen=True)
class Evidence:
    """Everything that was read, and how sentences are drawn again."""

    curves: dict[Key, Curves] = field(default_factory=dict)
    timelines: dict[tuple[str, float], list[Snapshot]] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    """By dataset: the model of most figures."""
    draws: Draws = field(default_factory=Draws)

    @classmethod
    def of(cls, results: Results) -> Evidence:
        """Returns the evidence of a results folder."""
        manifest = results.manifest
        curves, timelines, base = dict(_attributed(manifest)), {}, {}
        for key, snapshots in _timelines(manifest):
            curves[key] = snapshots[-1].curves
            timelines[key.dataset, key.alpha] = snapshots
            base[key.dataset] = key.model
        return cls(curves, timelines, base, Draws(**manifest.interval))

    @property
    def datasets(self) -> list[str]:
        """The datasets in the order they were found in."""
        return list(dict.fromkeys(key.dataset for key in self.curves))

    @property
    def alphas(self) -> list[float]:
        """The settings of relevance, the greatest share of positive parts first."""
        return sorted({key.alpha for key in self.curves}, reverse=True)

    def tally(self) -> Tally:
        """Returns an empty tally at the level of the intervals."""
        return Tally(self.draws.level)

    def of_base(self, dataset: str, prefix: str, alpha: float) -> Curves | None:
        """Returns the curves of the model of most figures."""
        return self.curves.get(Key(dataset, self.base.get(dataset, ""), prefix, alpha))

    def amounts(self, dataset: str, alpha: float) -> dict[int, Curves]:
        """Returns the models by training pairs, with reference prefixes."""
        asked = (dataset, GIVEN, alpha)
        amounts = {
            pairs: curves
            for key, curves in self.curves.items()
            if (key.dataset, key.prefix, key.alpha) == asked and (pairs := pairs_of(key.model)) is not None
        }
        return dict(sorted(amounts.items()))


def _attributed(manifest: Manifest) -> Iterator[tuple[Key, Curves]]:
    for path, names in manifest.find(ATTRIBUTED):
        if not names["model"].startswith("voita_"):
            continue
        matrices = Matrices.open(path)
        prefix = OWN if names["decoding"] == FREE else OTHERS if names["split"] == RANDOM else GIVEN
        for method in _methods(matrices.names):
            numbers = matrices.numbers.tolist()
            pairs = [(matrices.matrix(method, each), matrices.matrix(f"{method}@prefix", each)) for each in numbers]
            alpha = float(parse(method).parameters["alpha"])
            yield Key(names["dataset"], names["model"], prefix, alpha), Curves.of(pairs)


def _timelines(manifest: Manifest) -> Iterator[tuple[Key, list[Snapshot]]]:
    for path, names in manifest.find(TRAJECTORY):
        if pairs_of(names["model"]) is None or names["split"] != REFERENCE:
            continue
        trajectory = Trajectory.open(path)
        for method in _methods(trajectory.quantities):
            pairs = {
                weights: list(
                    zip(
                        trajectory.matrices(weights, method),
                        trajectory.matrices(weights, f"{method}@prefix"),
                        strict=True,
                    )
                )
                for weights in trajectory.weights
            }
            snapshots = []
            for weights in trajectory.weights:
                away = [divergence(one, other) for one, other in zip(pairs[FINAL], pairs[weights], strict=True)]
                correct = trajectory.correct(weights)
                snapshots.append(
                    Snapshot(
                        None if weights == FINAL else int(weights),
                        Curves.of(pairs[weights]),
                        np.array(away),
                        None if correct is None else np.stack(correct).astype(np.float64),
                    )
                )
            alpha = float(parse(method).parameters["alpha"])
            yield Key(names["dataset"], names["model"], GIVEN, alpha), snapshots


def _methods(names: Sequence[str]) -> list[str]:
    """Returns the methods among the names of matrices."""
    return [name for name in names if name.partition(",")[0] == _METHOD and "@" not in name]
