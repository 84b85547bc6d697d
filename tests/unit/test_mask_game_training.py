"""Whole trainings by the mask game: resuming, annealing, what masks find, and who cannot play."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training_files import MODELS, CopyTask
from trainings import curve, cut_at, finished, same, state, training_of

from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.models.calibrated import Calibrated
from alignlens.models.checkpoint import load_model, load_tensors
from alignlens.models.settings import CalibratedSettings
from alignlens.workflow.settings import load_settings


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


@pytest.mark.parametrize("fusion", ["anneal", "gate"])
def test_it_goes_on_bit_for_bit(task: CopyTask, tmp_path: Path, fusion: str) -> None:
    changes: dict[str, Any] = {
        "architecture": "calibrated",
        "model": {**MODELS["calibrated"], "fusion": fusion, "anneal_updates": 20},
        "objective": {"name": "mask_game"},
    }
    whole = finished(task, tmp_path / "whole", **changes)
    if fusion == "anneal":
        assert float(state(whole)["weights.decoder.0.cross.fusion.updates"]) == 24
    for update in (1, 13):
        cut_at(task, tmp_path / str(update), update, **changes)
        resumed = finished(task, tmp_path / str(update), **changes)
        assert same(state(whole), state(resumed)), update
        for name in ("train_loss", "train_mask", "train_perturbed_loss"):
            assert curve(resumed.history, name) == curve(whole.history, name)


def test_annealing_follows_the_updates_of_the_training(task: CopyTask, tmp_path: Path) -> None:
    """Also with cross entropy, of which the mask nets are then a part like any other."""
    for objective in ("mask_game", "cross_entropy"):
        training = finished(
            task,
            tmp_path / objective,
            architecture="calibrated",
            model={**MODELS["calibrated"], "fusion": "anneal"},
            objective={"name": objective},
        )
        name = "decoder.0.cross.fusion.updates"
        for update in (5, 16):
            kept = load_tensors(training.work.checkpoint(f"snapshots/{update:06d}"))[0]
            assert float(kept[name]) == update
        assert float(load_tensors(training.work.checkpoint("snapshots/000000"))[0][name]) == 0


def test_cross_entropy_trains_mask_nets_as_it_trains_all_the_rest(task: CopyTask, tmp_path: Path) -> None:
    training = finished(task, tmp_path, architecture="calibrated", model=MODELS["calibrated"])
    name = "decoder.0.cross.mask_net.query.weight"
    kept = [load_tensors(training.work.checkpoint(f"snapshots/{update:06d}"))[0][name] for update in (0, 16)]
    assert not torch.equal(*kept)
    assert training.history[-1]["values"]["dev_loss"] < training.history[0]["values"]["dev_loss"]


def test_perturbing_hurts_and_hurts_less_in_random_order(tmp_path: Path) -> None:
    """On held-out sentences: the mask nets have found out where the copied word stands."""
    copying = CopyTask.write(tmp_path / "text", pairs=400)
    training = finished(
        copying,
        tmp_path / "work",
        architecture="calibrated",
        model={**MODELS["calibrated"], "dim": 32, "dropout": 0.0},
        objective={"name": "mask_game", "alpha": 0.3},
        batch_tokens=300,
        accumulation=1,
        max_updates=260,
        validate_every=260,
        validate_sentences=11,
        learning_rate=1e-2,
        warmup=40,
        snapshots=[],
    )
    last = training.history[-1]["values"]
    assert last["dev_clean_loss"] == pytest.approx(last["dev_loss"], abs=1e-5)
    assert last["dev_perturbed_loss"] > last["dev_clean_loss"] + 0.2
    assert last["dev_shuffled_loss"] < last["dev_perturbed_loss"] - 0.05
    assert 0.3 < last["dev_mask"] < 0.99


def test_the_command_trains_it_and_the_folder_has_its_curves(task: CopyTask, tmp_path: Path) -> None:
    arguments = task.arguments(tmp_path, "calibrated", objective={"name": "mask_game", "alpha": 0.1})
    assert main(arguments) == 0
    model, spec = load_model(tmp_path / "model")
    assert isinstance(model, Calibrated)
    assert spec.settings == CalibratedSettings(**MODELS["calibrated"])
    rows = list(csv.DictReader((tmp_path / "model/curves.csv").open()))
    for name in ("train_mask", "dev_mask", "dev_clean_loss", "dev_perturbed_loss", "dev_shuffled_loss"):
        assert all(float(row[name]) > 0 for row in rows), name
    assert [float(row["train_clean_loss"]) for row in rows] == [float(row["train_loss"]) for row in rows]
    assert json.loads((tmp_path / "model/model.json").read_text())["training"]["objective"]["penalty"] == "length"


def test_other_models_cannot_play_and_one_line_says_so(
    project: Path, task: CopyTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (
        r"training\.objective\.name: mask_game only trains models of architecture calibrated, not transformer\. Choose"
    )
    game = {"objective": {"name": "mask_game"}}
    models = {"x": {"preset": "demo_transformer", "training": game}}
    with pytest.raises(ConfigError, match=rf"^config\.models\.x\.{told}"):
        load_settings({"preset": "mine", "datasets": ["demo"], "models": models}, project)
    assert main(task.arguments(tmp_path, **game)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("alignlens train: --settings.training.objective.name: mask_game only trains models")
    with pytest.raises(ConfigError, match=f"^{told}"):
        training_of(task, tmp_path / "work", **game)
