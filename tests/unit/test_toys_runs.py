"""``alignlens toy``: what it writes, that it goes on bit for bit, and what it says when told nonsense."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alignlens.cli.main import main
from alignlens.toys import side_by_side
from alignlens.toys.copying import CopyLesson, initial_weights, model_settings
from alignlens.toys.samples import CopyTask
from alignlens.toys.settings import toy_settings
from alignlens.toys.side_by_side import Classroom, Curves, Trainee
from alignlens.toys.tasks import run_task
from alignlens.tracking.journal import read_journal

TINY = {"words": 4, "dim": 8, "hidden": 8, "batch": 6, "steps": 6, "evaluate_every": 2, "evaluate_samples": 8}
SEEDED = {**TINY, "seeds": 3}
HEADS = {**TINY, "heads": 2, "collect": 2, "most_heads": 6, "draws": 2, "random_pool": 3, "data_seeds": 2}


def arguments(task: str, folder: Path, settings: dict[str, Any], *more: str) -> list[str]:
    files = ["--work", str(folder / "work"), "--out", str(folder / "toy.json")]
    return ["toy", task, "--settings", json.dumps(settings), "--threads", "2", *files, *more]


def result(folder: Path) -> Any:
    return json.loads((folder / "toy.json").read_text())


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-4)


# ---- what is written


@pytest.mark.parametrize("task", ["permutation", "control", "mixture", "permuted_copy"])
def test_a_copy_task_writes_curves_and_counts_and_records_them(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "toy.journal.jsonl"
    assert main(arguments(task, tmp_path, SEEDED, "--journal", str(journal), "--json")) == 0
    found = result(tmp_path)
    settings = toy_settings(task, SEEDED, "settings")
    assert found["task"] == task
    assert found["settings"]["learning_rate"] == 1e-3
    assert found["seeds"] == [1, 2, 3]
    assert found["steps"] == [0, 2, 4, 6]
    accuracy = np.array(found["accuracy"])
    assert accuracy.shape == (3, 4)
    assert ((accuracy >= 0) & (accuracy <= 1)).all()
    assert np.array(found["counts"]).shape == (settings.vocabulary, settings.vocabulary)
    assert not (tmp_path / "work").exists()
    (run,) = read_journal(journal)
    assert (run.experiment, run.name, run.status) == ("toys", f"{task} · 3 seeds", "FINISHED")
    told = json.loads(capsys.readouterr().out)
    assert told["accuracy"] == pytest.approx(accuracy[:, -1].mean())
    assert told["converged"] == pytest.approx((accuracy[:, -1] > 0.95).mean())


def test_a_copy_task_that_is_easy_is_learned(tmp_path: Path) -> None:
    settings = {**SEEDED, "hidden": 32, "dim": 32, "pool": 8, "batch": 32, "steps": 120, "learning_rate": 0.01}
    assert main(arguments("control", tmp_path, settings)) == 0
    accuracy = np.array(result(tmp_path)["accuracy"])
    assert (accuracy[:, 0] < 0.5).all()
    assert (accuracy[:, -1] > 0.95).all()


def test_the_keyword_task_has_two_variants_with_all_measures(tmp_path: Path) -> None:
    settings = {**SEEDED, "near_end": 1, "hidden": 16, "steps": 40, "learning_rate": 0.01}
    assert main(arguments("keyword", tmp_path, settings)) == 0
    found = result(tmp_path)
    assert found["variants"].keys() == {"one_direction", "two_directions"}
    for measures in found["variants"].values():
        assert measures.keys() == {"keyword", "next", "mean", "last", "accuracy"}
        assert all(np.array(rows).shape == (3, 21) for rows in measures.values())
        assert np.mean(measures["keyword"], 0)[-1] > np.mean(measures["keyword"], 0)[0] + 0.5


@pytest.mark.parametrize("variant", ["printed", "released"])
def test_heads_write_single_trainings_and_scenarios_whatever_trains_at_once(variant: str, tmp_path: Path) -> None:
    # With these thresholds every head is bad, and good ones are never found.
    found = []
    for number, size in enumerate((1, 4)):
        settings = {**HEADS, "variant": variant, "bad_below": 1, "good_above": 1, "side_by_side": size}
        assert main(arguments("heads", tmp_path / str(number), settings)) == 0
        found.append(result(tmp_path / str(number)))
    told = found[0]
    single = told["single"]
    assert (single["trials"], single["good"], single["bad"], single["rejected"]) == (12, 0, 6, 0)
    assert np.array(single["accuracy"]).shape == (12, 4)
    shapes = {name: np.array(each["accuracy"]).shape for name, each in told["scenarios"].items()}
    assert shapes == {"all_bad": (2, 4), "one_good": (0,), "random": (2, 4)}
    assert told["variant"] == variant
    close(found[0]["single"]["accuracy"], found[1]["single"]["accuracy"])
    close(found[0]["scenarios"]["random"]["accuracy"], found[1]["scenarios"]["random"]["accuracy"])


def test_groups_and_threads_do_not_change_a_seed(tmp_path: Path) -> None:
    found = []
    for number, changes in enumerate(({"side_by_side": 1}, {"side_by_side": 3}, {"seeds": 2})):
        settings = toy_settings("control", {**SEEDED, "pool": 9, "batch": 32, **changes}, "settings")
        found.append(run_task("control", settings, tmp_path / str(number), 1 + number, lambda updates: None))
    close(found[0]["accuracy"], found[1]["accuracy"])
    close(found[0]["accuracy"][:2], found[2]["accuracy"])


# ---- going on


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def curves_of(folder: Path, told: Any) -> Curves:
    settings = toy_settings("permutation", {**SEEDED, "steps": 9}, "settings")
    lesson = CopyLesson(CopyTask("permutation", settings), model_settings(settings))
    start = partial(initial_weights, lesson.settings, settings.vocabulary)
    with Classroom.opened(folder, {"task": "permutation"}, 1, told) as room:
        return room.train("copy", lesson, settings, [Trainee(seed, partial(start, seed)) for seed in (1, 2, 3)])


def test_a_cut_training_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = curves_of(tmp_path / "whole", lambda updates: None)
    monkeypatch.setattr(side_by_side, "_SAVE_EVERY_SECONDS", 0.0)
    for cut in (1, 5, 7, 14):
        told: list[int] = []

        def strike(updates: int, told: list[int] = told, cut: int = cut) -> None:
            told.append(updates)
            if len(told) == cut:
                raise PowerCut

        with pytest.raises(PowerCut):
            curves_of(tmp_path / str(cut), strike)
        again: list[int] = []
        assert curves_of(tmp_path / str(cut), again.append) == whole, cut
        assert sum(again) == 27, "updates that were made before count, too"
        assert not (tmp_path / str(cut)).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_refuses_other_settings_and_goes_on(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**SEEDED, "batch": 32, "steps": 200, "evaluate_every": 50}
    often = (
        "import sys; from alignlens.toys import side_by_side; side_by_side._SAVE_EVERY_SECONDS = 0.0;"
        " from alignlens.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen([sys.executable, "-c", often, *arguments("permutation", tmp_path, settings)])
    saved = tmp_path / "work" / "recent"
    until = time.monotonic() + 60
    while not list(saved.glob("*.safetensors")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) != 0
    assert not (tmp_path / "toy.json").exists()

    assert main(arguments("permutation", tmp_path, {**settings, "batch": 16})) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a stopped training with settings.batch = 32, but now settings.batch = 16" in line
    assert list(saved.glob("*.safetensors")), "a refused state stays"

    assert main(arguments("permutation", tmp_path, settings)) == 0
    assert not (tmp_path / "work").exists()
    assert main(arguments("permutation", tmp_path / "whole", settings)) == 0
    assert (tmp_path / "toy.json").read_bytes() == (tmp_path / "whole" / "toy.json").read_bytes()


def test_a_damaged_state_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def strike(updates: int) -> None:
        if updates == 3 and list((tmp_path / "work").rglob("*.safetensors")):
            raise PowerCut

    settings = toy_settings("permutation", {**SEEDED, "side_by_side": 3}, "settings")
    monkeypatch.setattr(side_by_side, "_SAVE_EVERY_SECONDS", 0.0)
    with pytest.raises(PowerCut):
        run_task("permutation", settings, tmp_path / "work", 1, strike)
    (state,) = (tmp_path / "work").rglob("*.safetensors")
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    assert main(arguments("permutation", tmp_path, {**SEEDED, "side_by_side": 3})) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "damaged" in line
    assert str(state) in line


# ---- what it says


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("permutation", '{"step": 3}', "--settings.step: unknown key 'step'"),
        ("control", '{"words": 30, "pool": 20}', "--settings.pool: 20 words are too few for sentences of 30"),
        ("heads", '{"variant": "both"}', "--settings.variant: 'both' is not one of printed, released"),
        ("keyword", '{"learning_rate": 0}', "--settings.learning_rate: 0 must be more than 0"),
        ("mixture", '{"words": 4', "--settings: not JSON"),
    ],
)
def test_bad_settings_are_one_line_and_leave_nothing(
    task: str, settings: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["toy", task, "--settings", settings, "--work", str(tmp_path / "work"), "--out", str(tmp_path / "a.json")]
    assert main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alignlens toy: {message}")
    assert not list(tmp_path.iterdir())


def test_an_unknown_task_and_a_folder_of_others_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments("copying", tmp_path, TINY))
    (line,) = capsys.readouterr().err.splitlines()
    assert "invalid choice: 'copying'" in line
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").write_text("x")
    assert main(arguments("permutation", tmp_path, SEEDED)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "holds other files" in line
    assert (tmp_path / "work" / "mine").exists()


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["toy", "--help"])
    told = capsys.readouterr().out
    assert "alignlens toy permutation --settings" in told
    assert "permuted_copy" in told
