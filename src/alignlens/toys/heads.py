"""Several heads from good and bad initialisations, and how often a single random head is enough.

All trainings start from one stored initialisation of everything but heads; redrawing it would change which heads are
good. A head is its matrix A and bias b and, where heads have projections of their own, its projection.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from alignlens.toys.copying import CopyLesson, initial_weights, model_settings
from alignlens.toys.samples import CopyTask
from alignlens.toys.side_by_side import Trainee

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from alignlens.toys.settings import HeadsSettings
    from alignlens.toys.side_by_side import Classroom

SCENARIOS = ("all_bad", "one_good", "random")
_log = logging.getLogger("toy")
_HEAD = ("bilinear.weight", "bilinear.bias")
_OWN = ("from_context.weight", "from_context.bias")
# Seeds of heads, of those that the random scenario draws from, and of draws; no two stages share samples.
_HEADS, _POOL, _DRAWS = 1_000_000, 2_000_000, 3_000_000


class Heads:
    """The initialisations: what all models share, and heads by number."""

    def __init__(self, settings: HeadsSettings) -> None:
        self._settings = settings
        self._single = model_settings(settings, settings.variant)
        self._stored = initial_weights(self._single, settings.words, settings.initial_seed)
        self._names = (*_HEAD, *_OWN) if settings.variant == "released" else _HEAD

    def model(self, seeds: Sequence[int]) -> dict[str, Tensor]:
        """Returns the weights of a model whose heads have these seeds."""
        heads = [initial_weights(self._single, self._settings.words, seed) for seed in seeds]
        return {**self._stored, **{name: torch.cat([head[name] for head in heads]) for name in self._names}}


class Collected:
    """Single heads that were tried, in the order of their numbers, until there are enough good and bad ones."""

    def __init__(self, settings: HeadsSettings) -> None:
        self._settings = settings
        self.kinds: list[str] = []
        self.accuracy: list[list[float]] = []

    def add(self, curves: Sequence[list[float]]) -> None:
        """Adds the trainings of the next head."""
        self.accuracy.extend(curves)
        if all(max(curve) > self._settings.good_above for curve in curves):
            self.kinds.append("good")
        else:
            self.kinds.append("bad" if all(curve[-1] < self._settings.bad_below for curve in curves) else "rejected")

    @property
    def complete(self) -> bool:
        """Returns whether no more heads are to be tried."""
        enough = all(self.kinds.count(kind) >= self._settings.collect for kind in ("good", "bad"))
        return enough or len(self.kinds) >= self._settings.most_heads

    def numbers(self, kind: str) -> list[int]:
        """Returns the numbers of the heads of a kind that were wanted."""
        return [number for number, each in enumerate(self.kinds) if each == kind][: self._settings.collect]

    def summary(self) -> dict[str, Any]:
        """Returns their results as plain data; a training succeeds if it ends above the threshold of good heads."""
        successes = sum(curve[-1] > self._settings.good_above for curve in self.accuracy)
        kinds = {kind: self.kinds.count(kind) for kind in ("good", "bad", "rejected")}
        return {"trials": len(self.accuracy), "successes": successes, **kinds, "accuracy": self.accuracy}


def run_heads(settings: HeadsSettings, room: Classroom) -> dict[str, Any]:
    """Returns the curves of single heads and of all scenarios."""
    heads = Heads(settings)
    collected = _collect(settings, heads, room)
    several = CopyLesson(CopyTask("permutation", settings), model_settings(settings, settings.variant, settings.heads))
    drawn = {scenario: draws(settings, collected, scenario) for scenario in SCENARIOS}
    trainees = [
        Trainee(_DRAWS + draw, partial(heads.model, seeds))
        for each in drawn.values()
        for draw, seeds in enumerate(each)
    ]
    curves = iter(room.train("scenarios", several, settings, trainees)["accuracy"])
    scenarios = {scenario: {"accuracy": [next(curves) for _ in each]} for scenario, each in drawn.items()}
    return {"variant": settings.variant, "single": collected.summary(), "scenarios": scenarios}


def _collect(settings: HeadsSettings, heads: Heads, room: Classroom) -> Collected:
    """Returns the heads that were tried; how many are tried at once does not change which."""
    collected = Collected(settings)
    lesson = CopyLesson(CopyTask("permutation", settings), model_settings(settings, settings.variant))
    while not collected.complete:
        first = len(collected.kinds)
        # The least number needed; later rounds try as many as might be missing.
        round_size = settings.collect if first else 2 * settings.collect
        numbers = range(first, min(first + round_size, settings.most_heads))
        trainees = [
            Trainee(seed, partial(heads.model, [_HEADS + number]))
            for number in numbers
            for seed in range(1, settings.data_seeds + 1)
        ]
        curves = room.train(f"single-{first:06d}", lesson, settings, trainees)["accuracy"]
        for place in range(len(numbers)):
            if not collected.complete:
                collected.add(curves[place * settings.data_seeds : (place + 1) * settings.data_seeds])
    return collected


def draws(settings: HeadsSettings, collected: Collected, scenario: str) -> list[list[int]]:
    """Returns the seeds of the heads of every draw; none, with a warning, if there are too few."""
    random = np.random.default_rng([settings.initial_seed, SCENARIOS.index(scenario)])
    needed = {"all_bad": {"bad": settings.heads}, "one_good": {"good": 1, "bad": settings.heads - 1}, "random": {}}
    pools: Mapping[str, tuple[list[int], int]] = {
        kind: ([_HEADS + number for number in collected.numbers(kind)], count)
        for kind, count in needed[scenario].items()
    } or {"random": ([_POOL + number for number in range(settings.random_pool)], settings.heads)}
    for kind, (pool, count) in pools.items():
        if len(pool) < count:
            _log.warning(
                "%s: only %d %s heads among %d tried, but %d are needed; raise most_heads",
                scenario,
                len(pool),
                kind,
                len(collected.kinds),
                count,
            )
            return []
    return [
        [int(seed) for pool, count in pools.values() for seed in random.choice(pool, count, replace=False)]
        for _ in range(settings.draws)
    ]
