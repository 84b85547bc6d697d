"""Everything a stopped training needs to continue as if nothing had happened, in a folder that is not an output.

``state.safetensors`` has the weights of model and objective, optimiser moments and where the run is; ``history.jsonl``
its records so far, with a checksum on the last line. Random numbers need no state: every micro-batch seeds its
own generator.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.corpora.batches import Position
from alignlens.errors import InputError
from alignlens.io.atomic import write_lines, write_text
from alignlens.io.documents import taking
from alignlens.io.locks import held
from alignlens.io.parts import check_marked
from alignlens.models.checkpoint import load_tensors, put_weights, save_tensors, weights_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn
    from torch.optim import Optimizer

    from alignlens.io.locks import Hold

_MARKER = "training"
_MARK = "The saved state of a training. alignlens train continues from it and removes this folder at the end.\n"
_FOLDERS = ("recent", "snapshots")
_DIGEST = "sha256"


@dataclass
class Sums:
    """Added up over micro-batches: the loss, and sum and number of every metric of the objective."""

    loss: float = 0.0
    measured: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, loss: float, measured: Mapping[str, tuple[float, float]]) -> None:
        """Adds other sums."""
        self.loss += loss
        for name, (value, number) in measured.items():
            old = self.measured.get(name, (0.0, 0.0))
            self.measured[name] = (old[0] + value, old[1] + number)

    def means(self, count: int) -> dict[str, float]:
        """Returns the numbers under the names of the learning curves."""
        measured = {f"train_{name}": value / max(number, 1.0) for name, (value, number) in self.measured.items()}
        return {"train_loss": self.loss / count, **measured}


@dataclass
class Progress:
    """Where a training is, apart from its tensors."""

    update: int = 0
    position: Position = field(default_factory=lambda: Position(0, 0, 0))
    plateau_scale: float = 1.0
    best: dict[str, float] | None = None  # the best validation's measures, with its update
    without_gain: int = 0  # validations since then
    recent: list[int] = field(default_factory=list)  # updates of the checkpoints that would be averaged
    sums: Sums = field(default_factory=Sums)  # these four since the last record
    count: int = 0  # what losses are divided by
    labels: int = 0
    seconds: float = 0.0
    scaler: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Progress:
        """Returns the progress that ``asdict`` wrote."""
        return cls(**{**content, "position": Position(**content["position"]), "sums": Sums(**content["sums"])})


class WorkFolder:
    """The resumable state of one training."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self._identity = json.loads(json.dumps(identity))
        self._state = folder / "state.safetensors"
        self._history = folder / "history.jsonl"

    @classmethod
    @contextmanager
    def reserved(cls, folder: Path) -> Iterator[Hold]:
        """Keeps a folder for this process alone, after making sure that it is ours or new."""
        real = Path(os.path.realpath(folder))
        _check_ours(real, folder)
        with held(real.with_name(f".{real.name}.lock"), "trains here") as hold:
            _check_ours(real, folder)
            write_text(real / _MARKER, _MARK, seal=False)
            try:
                yield hold
            finally:
                if [path.name for path in real.glob("*")] == [_MARKER]:  # Nothing worth keeping was saved.
                    (real / _MARKER).unlink()
                    real.rmdir()

    def remove(self) -> None:
        """Removes what trainings leave here, and the folder unless there is something else in it."""
        places = [self.folder, *(self.folder / name for name in _FOLDERS)]
        own = [self._state, self._history, self.checkpoint("best"), self.folder / _MARKER]
        own += [path for place in places[1:] for path in place.glob("*.safetensors")]
        own += [path for place in places for path in place.glob(".*.tmp")]  # left by killed processes
        for path in own:
            path.unlink(missing_ok=True)
        for place in reversed(places):
            with suppress(OSError):
                place.rmdir()

    def resume(self, modules: Mapping[str, nn.Module], optimizer: Optimizer) -> Progress:
        """Fills modules and optimiser with the saved state, if there is one; returns where the training is."""
        if not self._state.is_file():
            return Progress()
        tensors, about = load_tensors(self._state)
        with taking(self._state, self._advice):
            self._check_identity(about["identity"])
            for part, module in modules.items():
                put_weights(module, _below(tensors, f"{part}."), self._state)
            _put_moments(optimizer, modules, tensors)
            return Progress.from_json(about["progress"])

    def save(
        self,
        modules: Mapping[str, nn.Module],
        optimizer: Optimizer,
        progress: Progress,
        history: list[dict[str, Any]],
    ) -> None:
        """Writes everything ``resume`` needs; the history first, so that it is never behind the state."""
        lines = [json.dumps(record, sort_keys=True) for record in history]
        write_lines(self._history, [*lines, json.dumps({_DIGEST: _digest(lines)})], seal=False)
        tensors = {
            f"{part}.{name}": tensor for part, module in modules.items() for name, tensor in weights_of(module).items()
        }
        tensors.update(_moments(optimizer, modules))
        save_tensors(self._state, tensors, {"identity": self._identity, "progress": asdict(progress)})

    def history(self, update: int) -> list[dict[str, Any]]:
        """Returns the records up to an update."""
        if not self._history.is_file():
            return []
        with taking(self._history, self._advice):
            *lines, last = self._history.read_text(encoding="utf-8").splitlines()
            if json.loads(last) != {_DIGEST: _digest(lines)}:
                raise ValueError("its checksum does not match")
            return [record for record in map(json.loads, lines) if record["update"] <= update]

    @property
    def _advice(self) -> str:
        return f"Delete {self.folder} to start over."

    def checkpoint(self, name: str) -> Path:
        """Returns the path of a checkpoint of this training: ``best``, ``recent/000100``, ``snapshots/000100``."""
        return self.folder / f"{name}.safetensors"

    def _check_identity(self, saved: Mapping[str, Any]) -> None:
        """Raises if the saved state belongs to another training, naming the first thing that differs."""
        for key, (then, now) in differences(saved, self._identity).items():
            raise InputError(
                f"holds a stopped training with {key} = {json.dumps(then)}, but now {key} = {json.dumps(now)}.",
                self._state,
                advice=f"Set it back to continue, or delete {self.folder} to start over.",
            )


def _check_ours(folder: Path, name: Path) -> None:
    """Raises unless a folder is new, empty, or one that a training has left."""
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder for a training.", name, advice="Choose a new folder.")
    check_marked(folder, name, _MARKER)


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def differences(one: Any, other: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Returns the key paths at which two pieces of plain data differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        differing: dict[str, tuple[Any, Any]] = {}
        for key in sorted(one.keys() | other.keys()):
            differing.update(differences(one.get(key), other.get(key), f"{path}.{key}" if path else key))
        return differing
    return {} if one == other else {path: (one, other)}


def _below(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _parameters(modules: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    return {
        f"{part}.{name}": parameter for part, module in modules.items() for name, parameter in module.named_parameters()
    }


def _moments(optimizer: Optimizer, modules: Mapping[str, nn.Module]) -> dict[str, Any]:
    """Returns the optimiser's tensors by the names of their parameters."""
    return {
        f"optimizer.{key}.{name}": tensor
        for name, parameter in _parameters(modules).items()
        for key, tensor in optimizer.state.get(parameter, {}).items()
    }


def _put_moments(optimizer: Optimizer, modules: Mapping[str, nn.Module], tensors: Mapping[str, Any]) -> None:
    parameters = _parameters(modules)
    for full_name, tensor in _below(tensors, "optimizer.").items():
        key, name = full_name.split(".", 1)
        optimizer.state[parameters[name]][key] = tensor.to(parameters[name].device)
