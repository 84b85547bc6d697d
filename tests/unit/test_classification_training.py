"""Training of classifiers: what is frozen, interruptions, curves and the weights that are kept."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from classifiers import SMALL, prepared_texts, recipe, train

from alignlens.classification import training
from alignlens.classification.folder import TrainedClassifier, assemble, write_classifier
from alignlens.classification.model import build
from alignlens.classification.prepare import Prepared
from alignlens.cli.main import main
from alignlens.errors import InputError
from alignlens.models.checkpoint import load_tensors
from alignlens.training.loop import TrainingError, Watcher

SILENT = Watcher(lambda record: None, lambda note: None)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_texts(tmp_path_factory.mktemp("texts") / "texts")


def loop_of(texts: Prepared, work: Path, model: dict[str, Any] | None = None, **changes: Any) -> Any:
    torch.set_num_threads(1)
    return assemble(texts, recipe({**SMALL, **(model or {})}, **{"updates": 12, **changes}), 5, work)


@pytest.mark.parametrize(
    ("model", "frozen"),
    [
        ({"attention": "uniform"}, {"query.weight", "query.bias", "attend.weight", "attend.bias"}),
        (
            {"trained": "attention"},
            {"table.weight", "output.weight", "output.bias"}
            | {
                f"encoder.{part}_{kind}_l0{end}"
                for part in ("weight", "bias")
                for kind in ("ih", "hh")
                for end in ("", "_reverse")
            },
        ),
        ({}, set()),
        ({"kind": "bag_of_words"}, set()),
    ],
)
def test_what_is_frozen_stays_bit_for_bit(
    texts: Prepared, tmp_path: Path, model: dict[str, Any], frozen: set[str]
) -> None:
    loop = loop_of(texts, tmp_path, model)
    before = {name: each.detach().clone() for name, each in loop.model.named_parameters()}
    loop.run(SILENT)
    same = {name for name, each in loop.model.named_parameters() if torch.equal(each, before[name])}
    # The softmax does not see a number that is added to all of its logits.
    assert same - {"attend.bias"} == frozen - {"attend.bias"}
    assert ("attend.bias" in same) >= ("attend.bias" in frozen)


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def cut_at(loop: Any, update: int) -> None:
    def count(note: str) -> None:
        if loop.progress.update == update:
            raise PowerCut

    with pytest.raises(PowerCut):
        loop.run(Watcher(lambda record: None, count))


@pytest.mark.parametrize("model", [{}, {"trained": "attention"}, {"kind": "bag_of_words"}])
def test_a_training_goes_on_bit_for_bit(
    texts: Prepared, tmp_path: Path, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_SAVE_EVERY_SECONDS", 0.0)
    told = {"updates": 120, "snapshots": [0, 10, 60], "snapshot_every": 50}  # more than two epochs
    chosen = recipe({**SMALL, **model}, **told)
    straight, cut = loop_of(texts, tmp_path / "a", model, **told), loop_of(texts, tmp_path / "b", model, **told)
    straight.run(SILENT)
    write_classifier(tmp_path / "straight", straight, chosen, texts)
    for update in (1, 49, 75):
        cut_at(cut, update)
        cut = loop_of(texts, tmp_path / "b", model, **told)
        assert cut.progress.update == update - 1  # the update that the power cut hit was not saved
    cut.run(SILENT)
    write_classifier(tmp_path / "cut", cut, chosen, texts)
    names = sorted(path.relative_to(tmp_path / "cut") for path in (tmp_path / "cut").rglob("*") if path.is_file())
    assert [name.as_posix() for name in names if name.suffix == ".safetensors"] == [
        *(f"snapshots/{update:06d}.safetensors" for update in (0, 10, 50, 60, 100)),
        "weights.safetensors",
    ]
    for name in names:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name
    with pytest.raises(InputError, match=r"a stopped training with training.batch = 32, but now"):
        loop_of(texts, tmp_path / "b", model, **{**told, "batch": 16})


def test_curves_snapshots_and_the_best_weights(texts: Prepared, tmp_path: Path) -> None:
    chosen = recipe(SMALL, updates=30, snapshots=[0, 4, 99], snapshot_every=20, learning_rate=0.02)
    loop = assemble(texts, chosen, 1, tmp_path / "work")
    loop.run(SILENT)
    write_classifier(tmp_path / "model", loop, chosen, texts)
    trained = TrainedClassifier(tmp_path / "model")
    assert list(trained.checkpoints) == ["000000", "000004", "000020", "final"]
    rows = list(csv.DictReader((tmp_path / "model/curves.csv").open()))
    assert [int(row["update"]) for row in rows] == [0, 4, 20, 30]
    assert rows[0]["train_loss"] == ""
    best = max(rows, key=lambda row: float(row["dev_accuracy"]))
    assert trained.card["best"]["update"] == int(best["update"])
    assert load_tensors(tmp_path / "model/weights.safetensors")[1]["update"] == int(best["update"])
    found = training.measured(trained.at("final"), texts.splits["dev"])
    assert found == {"accuracy": float(best["dev_accuracy"]), "loss": float(best["dev_loss"])}
    first = build(chosen.model, len(texts.words), 1)
    assert training.measured(first, texts.splits["dev"])["loss"] == float(rows[0]["dev_loss"])
    bag = recipe({**SMALL, "kind": "bag_of_words"}, epochs=2, batch=100)
    loop = assemble(texts, bag, 1, tmp_path / "work2")
    loop.run(SILENT)
    assert [record["update"] for record in loop.history] == [0, 16, 32]
    assert loop.snapshots == [0]


def test_a_loss_that_is_no_number_stops_the_training(texts: Prepared, tmp_path: Path) -> None:
    loop = loop_of(texts, tmp_path)
    loop.model.output.bias.data.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"update 1: the loss is nan at learning rate 0\.001\."):
        loop.run(SILENT)


@pytest.mark.parametrize(("number", "status", "code"), [(signal.SIGKILL, None, -9), (signal.SIGTERM, "KILLED", 143)])
def test_a_killed_command_goes_on(
    texts: Prepared, tmp_path: Path, number: signal.Signals, status: str | None, code: int
) -> None:
    cut, straight = tmp_path / "cut", tmp_path / "straight"
    journal = cut / "j.jsonl"
    command = [sys.executable, "-m", "alignlens", *train(texts, cut, "--journal", str(journal))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "update 100" not in (line := process.stderr.readline()):
            assert line
        os.kill(process.pid, number)
        process.communicate()
    assert process.returncode == code
    assert not (cut / "model").exists()
    ends = [json.loads(line) for line in journal.read_text().splitlines() if '"end"' in line]
    assert [event["status"] for event in ends] == ([] if status is None else [status])
    assert (cut / "work/state.safetensors").exists() == (number == signal.SIGTERM)
    assert main(train(texts, cut, "--journal", str(journal))) == 0
    assert main(train(texts, straight)) == 0
    for name in ("weights.safetensors", "curves.csv", "model.json", "snapshots/000200.safetensors"):
        assert (cut / "model" / name).read_bytes() == (straight / "model" / name).read_bytes()
    assert not (cut / "work").exists()
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert (events[0]["experiment"], events[0]["name"]) == ("train classifiers", "demo-keywords · lstm · s1")
    curves = [event for event in events if "dev_accuracy" in event.get("values", {})]
    assert [event["step"] for event in curves] == [0, 100, 200]
