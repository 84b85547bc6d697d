"""From the settings of a toy task to its results."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from alignlens.io.typed import written
from alignlens.toys import keyword
from alignlens.toys.copying import CopyLesson, initial_weights, model_settings
from alignlens.toys.heads import run_heads
from alignlens.toys.samples import CopyTask
from alignlens.toys.settings import CopySettings, HeadsSettings, KeywordSettings, SeededSettings
from alignlens.toys.side_by_side import Classroom, Trainee

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alignlens.toys.settings import ToySettings

DIRECTIONS = {"one_direction": 1, "two_directions": 2}


def run_task(
    task: str, settings: ToySettings, work: Path, threads: int, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Returns curves and settings of a task; ``advance`` is called as updates are made."""
    common = {"task": task, "settings": written(settings), "steps": settings.evaluated()}
    with Classroom.opened(work, {"task": task, "settings": written(settings)}, threads, advance) as room:
        if isinstance(settings, HeadsSettings):
            return {**common, **run_heads(settings, room)}
        if isinstance(settings, KeywordSettings):
            return {**common, "seeds": _seeds(settings), "variants": _run_keyword(settings, room)}
        assert isinstance(settings, CopySettings)
        return {**common, "seeds": _seeds(settings), **_run_copy(task, settings, room)}


def updates(settings: ToySettings) -> int | None:
    """Returns how many updates a task takes, over all trainings; None where that depends on what is found."""
    if not isinstance(settings, SeededSettings):
        return None
    variants = len(DIRECTIONS) if isinstance(settings, KeywordSettings) else 1
    return settings.steps * settings.seeds * variants


def _seeds(settings: SeededSettings) -> list[int]:
    return list(range(1, settings.seeds + 1))


def _run_copy(name: str, settings: CopySettings, room: Classroom) -> dict[str, Any]:
    task, model = CopyTask(name, settings), model_settings(settings)
    start = partial(initial_weights, model, settings.vocabulary)
    trainees = [Trainee(seed, partial(start, seed)) for seed in _seeds(settings)]
    curves = room.train("copy", CopyLesson(task, model), settings, trainees)
    return {"accuracy": curves["accuracy"], "counts": task.counts().tolist()}


def _run_keyword(settings: KeywordSettings, room: Classroom) -> dict[str, Any]:
    curves = {}
    for variant, directions in DIRECTIONS.items():
        start = partial(keyword.initial_weights, settings, directions)
        trainees = [Trainee(seed, partial(start, seed)) for seed in _seeds(settings)]
        curves[variant] = room.train(variant, keyword.KeywordLesson(settings), settings, trainees)
    return curves
