"""Small trainings of the copy task, whole and cut off, and what to compare of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from training_files import MODELS, TRAINING, CopyTask

from alignlens.models.checkpoint import load_tensors
from alignlens.training.assembly import assemble
from alignlens.training.loop import Training, Watcher
from alignlens.training.processes import Processes
from alignlens.training.settings import TrainingSettings

SILENT = Watcher(lambda record: None, lambda note: None)


def training_of(
    task: CopyTask,
    work: Path,
    start_from: Path | None = None,
    architecture: str = "transformer",
    model: dict[str, Any] | None = None,
    **changes: Any,
) -> Training:
    torch.set_num_threads(1)
    settings = TrainingSettings.from_json({**TRAINING, **changes})
    alone = Processes(0, 1, torch.device("cpu"))
    made = MODELS[architecture] if model is None else model
    return assemble(task.files, architecture, made, False, settings, 5, work, alone, start_from)[0]


def finished(task: CopyTask, work: Path, **changes: Any) -> Training:
    training = training_of(task, work, **changes)
    training.run(SILENT)
    return training


def state(training: Training) -> dict[str, torch.Tensor]:
    return load_tensors(training.work.folder / "state.safetensors")[0]


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def cut_at(task: CopyTask, work: Path, update: int, **changes: Any) -> None:
    training = training_of(task, work, **changes)

    def count(note: str) -> None:
        if training.progress.update == update:
            raise PowerCut

    with pytest.raises(PowerCut):
        training.run(Watcher(lambda record: None, count))


def curve(records: Iterable[dict[str, Any]], name: str) -> list[float]:
    return [record["values"][name] for record in records]
