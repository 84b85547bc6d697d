"""The folder of a trained classifier: its description, its final weights, snapshots and learning curves."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from alignlens.classification.model import begin_with, build
from alignlens.classification.settings import ClassifierRecipe
from alignlens.classification.training import CURVES, ClassifierLoop
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import Seal, verify_member
from alignlens.io.trajectories import FINAL
from alignlens.models.checkpoint import load_tensors, put_weights
from alignlens.training.state import WorkFolder

if TYPE_CHECKING:
    from alignlens.classification.model import Classifier
    from alignlens.classification.prepare import Prepared

KIND = "trained classifier"
CARD, CURVE_FILE = "model.json", "curves.csv"
_FORMAT = 1
_WEIGHTS, _SNAPSHOTS = "weights", "snapshots"
_AGAIN = "Train it again: alignlens classify train, or run the pipeline again."


def assemble(prepared: Prepared, recipe: ClassifierRecipe, seed: int, work: Path) -> ClassifierLoop:
    """Returns the training of a recipe, resumed from ``work`` if something is there."""
    model = build(recipe.model, len(prepared.words), seed)
    if recipe.model.vectors:
        _begin(model, prepared)
    content = recipe.as_json()
    # The length of a training does not change its course.
    path = {key: value for key, value in content["training"].items() if key not in ("updates", "epochs")}
    in_epochs = recipe.training.epochs is not None
    identity = {"model": content["model"], "training": path, "in_epochs": in_epochs, "seed": seed}
    work_folder = WorkFolder(work, {**identity, "data": prepared.fingerprint})
    return ClassifierLoop(model, recipe.training, prepared.splits, work_folder, seed)


def _begin(model: Classifier, prepared: Prepared) -> None:
    if prepared.vectors is None:
        raise ConfigError(
            f"model.vectors: {prepared.folder} has none; add them with: alignlens classify prepare --vectors FILE"
        )
    width = prepared.vectors.shape[1]
    if width != model.settings.width:
        raise ConfigError(
            f"model.embedding: {model.settings.width}, but the word vectors of {prepared.folder} have {width} numbers; "
            f"set it to {width}"
        )
    begin_with(model, prepared.vectors)


def write_classifier(folder: Path, loop: ClassifierLoop, recipe: ClassifierRecipe, prepared: Prepared) -> None:
    """Writes the folder of a finished training."""
    progress = loop.progress
    with atomic_directory(folder, KIND) as temporary:
        _keep(loop.work.checkpoint("best"), temporary / f"{_WEIGHTS}.safetensors")
        (temporary / _SNAPSHOTS).mkdir()
        for update in loop.snapshots:
            name = f"{_SNAPSHOTS}/{update:06d}"
            _keep(loop.work.checkpoint(name), temporary / f"{name}.safetensors")
        card = {
            "format": _FORMAT,
            "recipe": recipe.as_json(),
            "words": len(prepared.words),
            "vocabulary_sha256": prepared.vocabulary_sha256,
            "dataset": prepared.report.get("dataset"),
            "seed": loop.seed,
            **loop.model.sizes(),
            "updates": progress.update,
            "epochs": progress.position.epoch,
            "snapshots": loop.snapshots,
            "best": progress.best,
        }
        write_json(temporary / CARD, card)
        with (temporary / CURVE_FILE).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["update", "epoch", *CURVES])
            for record in loop.history:
                values = record["values"]
                writer.writerow([record["update"], record["epoch"], *(values.get(name, "") for name in CURVES)])


def _keep(checkpoint: Path, kept: Path) -> None:
    """Copies a checkpoint after checking it, so that damage is an error now, not when the model is used."""
    load_tensors(checkpoint)
    shutil.copy(checkpoint, kept)


class TrainedClassifier:
    """The folder of a trained classifier, whose checkpoints are loaded one at a time."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        seal = Seal.of(self.folder, KIND, "Give the folder that alignlens classify train wrote.")
        seal.check_names()
        self.card: dict[str, Any] = read_json(self.folder / CARD, _AGAIN)
        if self.card.get("format") != _FORMAT:
            raise InputError("not a classifier of this version of alignlens.", self.folder / CARD, advice=_AGAIN)
        with taking(self.folder / CARD, _AGAIN):
            recipe = ClassifierRecipe.from_json(self.card["recipe"], "recipe")
            self.model = build(recipe.model, int(self.card["words"])).eval()
            updates = [int(update) for update in self.card["snapshots"]]
        #: The checkpoints by the names that trajectories have for them, the weights that were kept last.
        self.checkpoints = {**{f"{each:06d}": f"{_SNAPSHOTS}/{each:06d}" for each in updates}, FINAL: _WEIGHTS}

    def check_data(self, prepared: Prepared) -> None:
        """Raises unless texts use the vocabulary of the model."""
        if self.card.get("vocabulary_sha256") != prepared.vocabulary_sha256:
            raise InputError(
                f"its words are not those of {prepared.folder}.",
                self.folder,
                advice="Give the texts that it was trained on.",
            )

    def at(self, checkpoint: str) -> Classifier:
        """Returns the model with the weights of a checkpoint; the one before is the same object, and has them too."""
        name = f"{self.checkpoints[checkpoint]}.safetensors"
        verify_member(self.folder, name)
        with torch.no_grad():
            put_weights(self.model, load_tensors(self.folder / name)[0], self.folder / name)
        return self.model
