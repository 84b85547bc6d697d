"""Trainings that run side by side: groups of them are one batched model each, and threads share the groups.

Trainings are independent: samples come from their own seed and the number of the step, and no operation mixes two
models. A group keeps its state in a file of the work folder, so that the same command continues where it stopped.
"""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from alignlens.errors import InputError
from alignlens.io.documents import taking
from alignlens.models.checkpoint import load_tensors, save_tensors
from alignlens.training.interrupt import Interrupt
from alignlens.training.state import WorkFolder, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from alignlens.toys.settings import ToySettings

#: Of every measure, the values of each training at each evaluated step.
Curves = dict[str, list[list[float]]]

_SAVE_EVERY_SECONDS = 30.0
_FOLDER = "recent"  # one of those that a work folder removes at the end
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Stacked(Protocol):
    """Several models of one shape: every parameter has a leading axis of models."""

    weights: dict[str, Tensor]

    def losses(self, batch: Any) -> Tensor:
        """Returns the loss of each model on its own samples."""


class Lesson(Protocol):
    """The common part of the trainings of a stage."""

    measures: tuple[str, ...]

    def build(self, weights: Sequence[Mapping[str, Tensor]]) -> Any:
        """Returns the stacked models that start from these weights."""

    def batch(self, seeds: Sequence[int], step: int, evaluation: bool) -> Any:
        """Returns the samples of a step, those of each model from its own seed."""

    def measured(self, models: Any, batch: Any) -> dict[str, Tensor]:
        """Returns every measure of each model."""


@dataclass(frozen=True)
class Trainee:
    """One training: the seed of its samples, and what it starts from."""

    seed: int
    weights: Callable[[], Mapping[str, Tensor]]


class Group:
    """Trainings that are one batched model."""

    def __init__(
        self,
        lesson: Lesson,
        settings: ToySettings,
        trainees: Sequence[Trainee],
        path: Path,
        identity: Mapping[str, Any],
    ) -> None:
        self._lesson, self._settings, self._trainees = lesson, settings, trainees
        self._path, self._identity = path, json.loads(json.dumps(identity))
        self.step = 0
        self.curves: Curves = {name: [[] for _ in trainees] for name in lesson.measures}

    @property
    def finished(self) -> bool:
        """Returns whether there is nothing left to do."""
        return self.step == self._settings.steps and self._evaluated() == len(self._settings.evaluated())

    def _evaluated(self) -> int:
        return len(self.curves[self._lesson.measures[0]][0])

    def train(self, stopped: Callable[[], bool], advance: Callable[[int], None]) -> None:
        """Trains from where the group is to the end, or until ``stopped``; ``advance`` is called after every update."""
        tensors = self._resume()
        advance(self.step * len(self._trainees))
        if self.finished:
            return
        models = self._lesson.build([trainee.weights() for trainee in self._trainees])
        optimizer = torch.optim.Adam(models.weights.values(), lr=self._settings.learning_rate, fused=True)
        _put(models, optimizer, tensors)
        seeds = [trainee.seed for trainee in self._trainees]
        saved = time.monotonic()
        while not self.finished:
            if self.step == self._settings.evaluated()[self._evaluated()]:
                self._evaluate(models, seeds)
                continue
            losses = models.losses(self._lesson.batch(seeds, self.step, evaluation=False))
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
            self.step += 1
            advance(len(self._trainees))
            if stopped() or time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                self._save(_state(models, optimizer))
                saved = time.monotonic()
            if stopped():
                return
        self._save({})

    def _evaluate(self, models: Stacked, seeds: Sequence[int]) -> None:
        batch = self._lesson.batch(seeds, self.step, evaluation=True)
        with torch.no_grad():
            measured = self._lesson.measured(models, batch)
        for name, values in measured.items():
            for curve, value in zip(self.curves[name], values.tolist(), strict=True):
                curve.append(value)

    def _save(self, tensors: Mapping[str, Tensor]) -> None:
        save_tensors(self._path, tensors, {"identity": self._identity, "step": self.step, "curves": self.curves})

    def _resume(self) -> dict[str, Tensor]:
        """Takes step and curves from the group's file, if there is one; returns the tensors in it."""
        if not self._path.is_file():
            return {}
        tensors, about = load_tensors(self._path)
        with taking(self._path, f"Delete {self._path.parent.parent} to start over."):
            check_identity(self._path, about["identity"], self._identity)
            self.step, self.curves = int(about["step"]), dict(about["curves"])
        return tensors


def check_identity(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises if a file belongs to other settings, naming the first thing that differs."""
    for key, (then, now) in differences(saved, wanted).items():
        raise InputError(
            f"holds a stopped training with {key} = {json.dumps(then)}, but now {key} = {json.dumps(now)}.",
            path,
            advice=f"Set it back to continue, or delete {path.parent.parent} to start over.",
        )


def _state(models: Stacked, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {f"model.{name}": weight for name, weight in models.weights.items()}
    for name, weight in models.weights.items():
        tensors.update({f"{key}.{name}": optimizer.state[weight][key] for key in _MOMENTS})
    return tensors


def _put(models: Stacked, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    if not tensors:
        return
    for name, weight in models.weights.items():
        weight.data.copy_(tensors[f"model.{name}"])
        optimizer.state[weight] = {key: tensors[f"{key}.{name}"] for key in _MOMENTS}


class Classroom:
    """Runs the trainings of a task, stage by stage, in threads of one core each."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], threads: int, advance: Callable[[int], None]) -> None:
        self._folder, self._identity, self._threads = folder / _FOLDER, dict(identity), threads
        self._advance, self._telling = advance, threading.Lock()

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, identity: Mapping[str, Any], threads: int, advance: Callable[[int], None]
    ) -> Iterator[Classroom]:
        """Keeps a work folder for this process; removes it if the block succeeds, unless another process waits."""
        before = torch.get_num_threads()
        with WorkFolder.reserved(folder) as hold:
            room = cls(folder, identity, threads, advance)
            for path in sorted(room._folder.glob("*.safetensors"))[:1]:
                with taking(path, f"Delete {folder} to start over."):
                    check_identity(path, _task_of(load_tensors(path)[1]["identity"]), _plain(identity))
            torch.set_num_threads(1)  # of every thread: products of this size gain more from another group than a core
            try:
                yield room
            finally:
                torch.set_num_threads(before)
            if not hold.awaited():
                WorkFolder(folder, identity).remove()

    def train(self, stage: str, lesson: Lesson, settings: ToySettings, trainees: Sequence[Trainee]) -> Curves:
        """Returns the curves of all trainings of a stage, in their order."""
        size = settings.group_size(len(trainees))
        groups = [
            Group(
                lesson,
                settings,
                trainees[first : first + size],
                self._folder / f"{stage}-{first:05d}.safetensors",
                {**self._identity, "stage": stage, "seeds": [each.seed for each in trainees[first : first + size]]},
            )
            for first in range(0, len(trainees), size)
        ]
        self._run(groups)
        return {name: [curve for group in groups for curve in group.curves[name]] for name in lesson.measures}

    def _run(self, groups: Sequence[Group]) -> None:
        broken = threading.Event()
        with Interrupt() as interrupt:

            def stopped() -> bool:
                return broken.is_set() or interrupt.asked is not None

            def train(group: Group) -> None:
                if stopped():
                    return
                try:
                    group.train(stopped, self._tell)
                except BaseException:
                    broken.set()  # The other groups save their state.
                    raise

            with ThreadPoolExecutor(min(self._threads, len(groups))) as pool:
                waiting = [pool.submit(train, group) for group in groups]
            for each in waiting:
                each.result()
            if interrupt.asked is not None:
                interrupt.obey()

    def _tell(self, updates: int) -> None:
        with self._telling:
            self._advance(updates)


def _task_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in identity.items() if key not in ("stage", "seeds")}


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain
