"""``alignlens trajectory``, called as a user calls it, on a small trained model: what it writes, and how it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_files import CopyTask

from alignlens.cli import trajectory
from alignlens.cli.main import main
from alignlens.io.matrices import Matrices
from alignlens.io.trajectories import Trajectory
from alignlens.tracking.records import read_journal

METHODS = ["attention", "probe", "grad_input"]
UPDATES = ["000000", "000005", "000016"]
ABOUT = json.dumps(
    {"preset": "p", "dataset": "demo", "direction": "xa-xb", "model": "snell_attention", "seed": "1", "split": "dev"}
)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def model(task: CopyTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained")
    answer = task.train(place, "lstm")
    assert answer.returncode == 0, answer.stderr
    return place / "model"


@pytest.fixture
def text(task: CopyTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(task.folder / "dev.txt")


def words(model: Path, text: str, *more: str) -> list[str]:
    given = ["--model", str(model), "--source", text, "--target", text, "--threads", "1"]
    return ["trajectory", *given, "--methods", *METHODS, *more]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_checkpoint_says_what_it_says_when_asked_alone(
    model: Path, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(model, text, "--bleu", text, "--out", "all", "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    found = Trajectory.open("all")
    assert (found.weights, found.quantities) == ((*UPDATES, "final"), tuple(METHODS))
    assert (answer["sentences"], answer["performance"]) == (len(found), found.performance)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all"]
    for weights in found.weights:
        named = "weights" if weights == "final" else f"snapshots/{weights}"
        pair = ["--model", str(model), "--weights", named, "--source", text, "--threads", "1"]
        assert main(["attribute", *pair, "--target", text, "--methods", *METHODS, "--out", "alone"]) == 0
        alone = Matrices.open("alone")
        for method in METHODS:
            for number, matrix in enumerate(found.matrices(weights, method)):
                np.testing.assert_allclose(matrix, alone.matrix(method, number), atol=1e-6)
        assert main(["force", *pair, "--target", text, "--json"]) == 0
        forced = json.loads(capsys.readouterr().out)
        for measure in ("accuracy", "loss"):
            assert found.performance[weights][measure] == pytest.approx(forced[measure], abs=1e-6)
        assert main(["translate", *pair, "--out", "text"]) == 0
        assert main(["bleu", "--hypothesis", "text", "--reference", text, "--tokenize", "none", "--json"]) == 0
        bleu = json.loads(capsys.readouterr().out)["bleu"]
        assert found.performance[weights]["bleu"] == pytest.approx(bleu)
    # It is not the same model everywhere, or nothing would have been put into it.
    first, last = (
        np.concatenate([m.ravel() for m in found.matrices(each, "attention")]) for each in ("000000", "final")
    )
    assert np.abs(first - last).max() > 1e-3
    assert found.performance["000000"]["loss"] > found.performance["final"]["loss"] + 0.1


def test_the_prefix_is_explained_too_and_right_predictions_are_marked(model: Path, text: str) -> None:
    given = ["--model", str(model), "--source", text, "--target", text, "--threads", "1"]
    assert main(["trajectory", *given, "--methods", "lrp", "--weights", UPDATES[0], "--out", "out"]) == 0
    found = Trajectory.open("out")
    assert found.quantities == ("lrp", "lrp@prefix")
    for weights in found.weights:
        sides = zip(found.matrices(weights, "lrp"), found.matrices(weights, "lrp@prefix"), strict=True)
        correct = found.correct(weights)
        assert correct is not None
        for (source, prefix), right in zip(sides, correct, strict=True):
            assert prefix.shape == (len(source), len(source))
            assert len(right) == len(source)
        share = np.concatenate(correct).mean()
        assert share == pytest.approx(found.performance[weights]["accuracy"])


def test_a_run_has_the_curve_and_the_final_numbers(model: Path, text: str, tmp_path: Path) -> None:
    assert main(words(model, text, "--out", "made", "--journal", "j.jsonl", "--about", ABOUT)) == 0
    (record,) = read_journal(tmp_path / "j.jsonl")
    assert record.name == "demo · xa-xb · snell_attention · s1 · trajectory · dev"
    found = Trajectory.open("made")
    assert found.facts["split"] == "dev"
    assert found.facts["methods"] == METHODS
    assert "bleu" not in found.performance["final"]
    assert record.latest["loss_final"] == pytest.approx(found.performance["final"]["loss"])
    assert record.latest["accuracy"] == pytest.approx(found.performance["000016"]["accuracy"])
    steps = [
        (event["step"], event["values"]["loss"])
        for event in map(json.loads, (tmp_path / "j.jsonl").read_text().splitlines())
        if event["event"] == "metrics" and "loss" in event["values"]
    ]
    assert steps == [(int(each), pytest.approx(found.performance[each]["loss"])) for each in UPDATES]


def test_some_checkpoints_by_their_updates(model: Path, text: str) -> None:
    assert main(words(model, text, "--weights", "16", "000005", "--out", "some")) == 0
    assert Trajectory.open("some").weights == ("000005", "000016", "final")
    assert main(words(model, text, "--weights", "final", "--out", "last")) == 0
    assert Trajectory.open("last").weights == ("final",)


class PowerCut(BaseException):
    """Nothing is tidied up when this strikes."""


def test_it_goes_on_with_what_is_finished_and_makes_the_rest_again(
    model: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(words(model, text, "--out", "whole")) == 0
    asked, made = trajectory._Asked.write, []

    def write(self: Any, folder: Path, weights: str, *others: Any) -> None:
        if len(made) == 2 and "cut" not in made:
            made.append("cut")
            raise PowerCut
        made.append(weights)
        asked(self, folder, weights, *others)

    monkeypatch.setattr(trajectory._Asked, "write", write)
    command = words(model, text, "--out", "made", "--work", "kept")
    with pytest.raises(PowerCut):
        main(command)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["000000", "000005", "parts"]
    assert not (tmp_path / "made").exists()
    assert main(command) == 0
    assert made == ["000000", "000005", "cut", "000016", "final"]
    assert content(tmp_path / "made") == content(tmp_path / "whole")
    assert not (tmp_path / "kept").exists()


def test_what_was_finished_for_another_question_is_made_again(
    model: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    asked = trajectory._Asked.write

    def write(self: Any, folder: Path, weights: str, *others: Any) -> None:
        if weights == "final" and made.count("000000") == 1:
            raise PowerCut
        made.append(weights)
        asked(self, folder, weights, *others)

    monkeypatch.setattr(trajectory._Asked, "write", write)
    with pytest.raises(PowerCut):
        main(words(model, text, "--out", "made"))
    assert made == UPDATES
    assert main(words(model, text, "--out", "made", "--bleu", text)) == 0
    assert made == [*UPDATES, *UPDATES, "final"]
    assert all("bleu" in each for each in Trajectory.open("made").performance.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_kill_and_go_on_ends_with_the_same_bytes(model: Path, task: CopyTask, text: str, tmp_path: Path) -> None:
    train = str(task.folder / "train.txt")
    command = words(model, train, "--bleu", train, "--out", "made", "--work", "kept")
    process = subprocess.Popen([sys.executable, "-m", "alignlens", *command], stderr=subprocess.PIPE)
    until = time.monotonic() + 120
    while not (tmp_path / "kept" / "000000").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (tmp_path / "made").exists()
    assert main(command) == 0
    assert main([*command[:-4], "--out", "whole"]) == 0
    assert content(tmp_path / "made") == content(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "whole"]


def test_a_kill_before_the_folder_of_parts_is_marked_is_no_hindrance(model: Path, text: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.parts.host-1.tmp").write_text("Finished")
    assert main(words(model, text, "--out", "x", "--work", "work")) == 0
    assert not (tmp_path / "work").exists()


def test_what_the_user_can_fix_is_one_line_and_exit_code_two(
    model: Path, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def failed_with(*more: str) -> str:
        assert main(words(model, text, *more)) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1, told
        assert not (tmp_path / "x").exists()
        assert not (tmp_path / "x.work").exists()
        return told

    assert "no snapshot of update 7. The model has: 0, 5, 16." in failed_with("--weights", "5", "7", "--out", "x")
    assert "--weights best: must be an update" in failed_with("--weights", "best", "--out", "x")
    assert "unknown method 'attentive'" in failed_with("--methods", "attentive", "--out", "x")
    (tmp_path / "short").write_text("ba\n")
    assert "short:2: 1 lines" in failed_with("--bleu", "short", "--out", "x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    assert "holds other files" in failed_with("--out", "x", "--work", "full")
    assert "would be replaced" in failed_with("--out", "full")
    assert (tmp_path / "full" / "thesis.tex").exists()


def test_help_does_not_load_the_tensor_library() -> None:
    code = "import sys, alignlens.cli.trajectory\nassert not {'torch', 'sacrebleu', 'mlflow'} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", code], check=True)
