"""From the files of a training to the training, and from its end to a self-contained model folder."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.corpora.batches import TrainingBatches
from alignlens.corpora.symbols import PLAIN, Frame
from alignlens.corpora.tokens import TokenStore
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_directory, write_json, write_lines
from alignlens.io.checksum import sha256_of
from alignlens.io.seals import verify
from alignlens.io.text import read_lines
from alignlens.models.checkpoint import (
    FORMAT,
    KIND,
    average,
    load_model,
    load_tensors,
    put_weights,
    save_tensors,
    weights_of,
)
from alignlens.models.contract import parameter_count
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_of, architecture_settings
from alignlens.subwords.reading import read_segmenter, vocabulary_beside
from alignlens.subwords.spans import Segmenter, join
from alignlens.subwords.stores import check_subwords
from alignlens.training.loop import Training
from alignlens.training.objectives.contract import Material
from alignlens.training.state import WorkFolder, differences
from alignlens.training.validation import DevText

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.models.contract import Seq2Seq
    from alignlens.training.processes import Processes
    from alignlens.training.settings import TrainingSettings

CURVES = ("learning_rate", "train_loss", "dev_loss", "dev_accuracy", "dev_bleu")


@dataclass(frozen=True)
class Files:
    """Input of a training: token stores, the dev text for BLEU, and the subword models.

    A training that does not change what the model computes translates nothing, and needs no dev text.
    """

    train_source: Path
    train_target: Path
    dev_source: Path
    dev_target: Path
    dev_text: Path | None
    source_subwords: Path
    target_subwords: Path


def assemble(
    files: Files,
    architecture: str,
    model: dict[str, Any],
    source_begin: bool,
    settings: TrainingSettings,
    seed: int,
    work: Path,
    processes: Processes,
    start_from: Path | None = None,
    pairs: int | None = None,
    start_weights: str = "weights",
    frame: Frame = PLAIN,
) -> tuple[Training, ModelSpec]:
    """Returns the training, resumed from ``work`` if something is there, and what it trains.

    ``start_from`` is the folder of a trained model whose weights a new training begins with, the checkpoint
    ``start_weights`` of it; ``pairs`` are the first of the training text that it sees, None for all. ``frame`` is
    that of a model from elsewhere.
    """
    source, target = TokenStore.open(files.train_source), TokenStore.open(files.train_target)
    if pairs is not None:
        source, target = source.first(pairs), target.first(pairs)
    dev_source, dev_target = TokenStore.open(files.dev_source), TokenStore.open(files.dev_target)
    _subwords(files.source_subwords, source, dev_source)
    segmenter = _subwords(files.target_subwords, target, dev_target)
    references = _references(files, len(dev_target))
    spec = ModelSpec(
        architecture,
        architecture_settings(architecture, model),
        source.vocabulary_size,
        target.vocabulary_size,
        source_begin,
        frame,
    )
    batches = TrainingBatches(
        source,
        target,
        tokens=settings.batch_tokens,
        sentences=settings.batch_sentences,
        longest=settings.longest,
        seed=seed,
        source_begin=source_begin,
    )
    chosen = settings.objective
    dev = DevText(
        dev_source,
        dev_target,
        references=references,
        spell=lambda ids: join(segmenter.pieces_of(ids)),
        source_begin=source_begin,
        batch_tokens=settings.batch_tokens,
        translated=settings.validate_sentences,
        translates=chosen.spec.moves_model,
    )
    network = build(spec, seed)
    chosen.check_architecture(architecture)
    objective = chosen.spec.load()(chosen.options, Material(spec, settings, source, target))
    if start_from is not None:
        _begin_with(start_from, start_weights, network, spec, files)
    elif chosen.spec.needs_start:
        raise ConfigError(f"training.objective: {chosen.name} starts from a trained model; name it with --start-from.")
    identity = {
        "model": spec.as_json(),
        "start_from": None if start_from is None else sha256_of(start_from / f"{start_weights}.safetensors"),
        "training": _path_of(settings),
        "seed": seed,
        "data": [store.fingerprint for store in (source, target, dev_source, dev_target)],
    }
    return Training(network, objective, settings, batches, dev, WorkFolder(work, identity), processes, seed), spec


def _references(files: Files, sentences: int) -> list[str]:
    """Returns the dev text, if there is one."""
    if files.dev_text is None:
        return []
    references = read_lines(files.dev_text)
    if len(references) != sentences:
        raise InputError(
            f"{len(references):,} lines for {sentences:,} sentences in {files.dev_target}.",
            files.dev_text,
            advice="Give the text that the token store was made from.",
        )
    return references


def _begin_with(folder: Path, weights: str, model: Seq2Seq, spec: ModelSpec, files: Files) -> None:
    """Gives a model the weights of a trained one, which must have the same settings and pieces.

    A model of an architecture that extends another may begin with one of the other; the rest of its weights is new.
    """
    trained, other = load_model(folder, weights)
    advice = "Start from a model of the same architecture, settings and subwords."
    wanted, own = spec.as_json(), weights_of(model)
    extends = architecture_of(spec.architecture).extends == other.architecture
    if extends:
        common = {key: wanted["settings"][key] for key in other.as_json()["settings"]}
        wanted |= {"architecture": other.architecture, "settings": common}
    for key, (theirs, ours) in differences(other.as_json(), wanted).items():
        problem = f"a model with {key} = {json.dumps(theirs)}, but here {key} = {json.dumps(ours)}."
        raise InputError(problem, folder, advice=advice)
    for side, path in (("source", files.source_subwords), ("target", files.target_subwords)):
        if sha256_of(folder / f"{side}.model") != sha256_of(path):
            raise InputError(f"its {side} pieces are not those of {path}.", folder, advice=advice)
    put_weights(model, {**(own if extends else {}), **weights_of(trained)}, folder)


def _subwords(path: Path, *stores: TokenStore) -> Segmenter:
    """Returns the subword model that made the token stores; the trained model needs it."""
    segmenter = read_segmenter(path)
    for store in stores:
        check_subwords(store, segmenter)
    return segmenter


def _path_of(settings: TrainingSettings) -> dict[str, Any]:
    """Returns the settings that determine the course of a training; the others only say when to stop."""
    free = {"threads", "max_epochs", "patience", "keep"} | ({"max_updates"} if settings.schedule != "linear" else set())
    return {key: value for key, value in settings.as_json().items() if key not in free}


def write_model(folder: Path, training: Training, spec: ModelSpec, files: Files) -> None:
    """Writes the folder of a finished training: every kept checkpoint, what it is, its curves and samples."""
    work, progress, settings = training.work, training.progress, training.settings
    with atomic_directory(folder, KIND) as temporary:
        _describe(temporary, training, spec, files)
        _keep(work.checkpoint("best"), temporary / "best.safetensors")
        save_tensors(temporary / "last.safetensors", weights_of(training.model), {"update": progress.update})
        recent = [work.checkpoint(f"recent/{update:06d}") for update in progress.recent]
        save_tensors(temporary / "averaged.safetensors", average(recent), {"updates": progress.recent})
        shutil.copy(temporary / f"{settings.keep}.safetensors", temporary / "weights.safetensors")
        (temporary / "snapshots").mkdir()
        for update in settings.snapshots:
            if update <= progress.update:
                name = f"snapshots/{update:06d}"
                _keep(work.checkpoint(name), temporary / f"{name}.safetensors")
        if own := weights_of(training.objective):
            save_tensors(temporary / "objective.safetensors", own, {"update": progress.update})
        write_lines(temporary / "samples.txt", _samples(training.history))


def write_masks(folder: Path, training: Training, spec: ModelSpec, files: Files, masks_of: str) -> None:
    """Writes the folder of mask nets that were trained alone: one checkpoint, with the model that they belong to.

    ``masks_of`` is the SHA-256 of its weights.
    """
    with atomic_directory(folder, KIND) as temporary:
        _describe(temporary, training, spec, files, masks_of=masks_of)
        save_tensors(
            temporary / "weights.safetensors", weights_of(training.model), {"update": training.progress.update}
        )


def _describe(folder: Path, training: Training, spec: ModelSpec, files: Files, **more: str) -> None:
    """Writes all of a model folder that is not weights."""
    for side, path in (("source", files.source_subwords), ("target", files.target_subwords)):
        verify(path)
        shutil.copyfile(path, folder / f"{side}.model")
        if (vocabulary := vocabulary_beside(path)).is_file():
            shutil.copyfile(vocabulary, vocabulary_beside(folder / f"{side}.model"))
    write_json(folder / "model.json", {**_card(training, spec), **more})
    _write_curves(folder / "curves.csv", training)


def _keep(checkpoint: Path, kept: Path) -> None:
    """Copies a checkpoint after checking it, so that damage is an error now, not when the model is used."""
    load_tensors(checkpoint)
    shutil.copy(checkpoint, kept)


def _card(training: Training, spec: ModelSpec) -> dict[str, Any]:
    progress = training.progress
    return {
        "format": FORMAT,
        "spec": spec.as_json(),
        "training": training.settings.as_json(),
        "seed": training.seed,
        "parameters": parameter_count(training.model),
        "updates": progress.update,
        "epochs": progress.position.epoch,
        "best": progress.best,
        "averaged": progress.recent,
        "kept": training.settings.keep,
        "pairs_left_out": training.batches.dropped,
    }


def _write_curves(path: Path, training: Training) -> None:
    objective = training.objective
    curves = [*CURVES, *(f"train_{name}" for name in objective.metrics)]
    curves += [f"dev_{name}" for name in objective.dev_metrics]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["update", "epoch", *curves])
        for record in training.history:
            values = record["values"]
            writer.writerow([record["update"], record["epoch"], *(values.get(name, "") for name in curves)])


def _samples(history: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for record in history:
        for reference, translation in record.get("samples", ()):
            lines += [f"update {record['update']}", f"  reference    {reference}", f"  translation  {translation}"]
    return lines
