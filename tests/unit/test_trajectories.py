"""Trajectories on disk: what goes in comes out, in the order of training, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from alignlens.errors import InputError
from alignlens.io.matrices import MatrixWriter
from alignlens.io.trajectories import Trajectory, join_trajectories, weights_name, write_trajectory

SHAPES = [(2, 3), (1, 4), (3, 1)]
QUANTITIES = ("attention", "probe,bias=dropped")
PERFORMANCE = {
    "000000": {"accuracy": 0.1, "loss": 3.0, "bleu": 0.0},
    "000500": {"accuracy": 0.6, "loss": 1.0, "bleu": 20.0},
    "1000000": {"accuracy": 0.6, "loss": 1.5, "bleu": 25.0},
    "final": {"accuracy": 0.55, "loss": 0.9, "bleu": 25.0},
}


def rows_of(order: tuple[str, ...] = tuple(PERFORMANCE)) -> dict[str, dict[str, list[NDArray[np.float32]]]]:
    generator = np.random.default_rng(3)
    made = {
        weights: {quantity: [generator.random(shape, dtype=np.float32) for shape in SHAPES] for quantity in QUANTITIES}
        for weights in PERFORMANCE
    }
    return {weights: made[weights] for weights in order}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = rows_of(("final", "000500", "1000000", "000000"))
    write_trajectory(tmp_path / "run", rows, PERFORMANCE, {"task": "demo", "split": "dev"})
    return tmp_path / "run"


def test_every_matrix_comes_back_in_the_order_of_training(folder: Path) -> None:
    found, rows = Trajectory.open(folder), rows_of()
    assert found.weights == ("000000", "000500", "1000000", "final")
    assert found.updates == ("000000", "000500", "1000000")
    assert found.quantities == QUANTITIES
    assert found.performance == PERFORMANCE
    assert found.correct("final") is None
    assert (found.facts["task"], found.facts["split"], found.folder, len(found)) == ("demo", "dev", folder, 3)
    assert found.shapes.tolist() == [list(shape) for shape in SHAPES]
    for weights in found.weights:
        for quantity in QUANTITIES:
            matrices = found.matrices(weights, quantity)
            assert len(matrices) == len(SHAPES)
            assert all(np.array_equal(one, other) for one, other in zip(matrices, rows[weights][quantity], strict=True))


def test_the_prefix_and_what_was_right_come_along(tmp_path: Path) -> None:
    rows, generator = rows_of(), np.random.default_rng(4)
    for of_weights in rows.values():
        of_weights["lrp@prefix"] = [generator.random((shape[0],) * 2, dtype=np.float32) for shape in SHAPES]
    marks = {weights: ["10", "1", "011"] for weights in rows}
    parts = []
    for weights, of_weights in rows.items():
        performance = {weights: PERFORMANCE[weights]}
        write_trajectory(tmp_path / weights, {weights: of_weights}, performance, {}, {weights: marks[weights]})
        parts.append(Trajectory.open(tmp_path / weights))
    join_trajectories(tmp_path / "run", parts, {})
    found = Trajectory.open(tmp_path / "run")
    assert found.quantities == (*QUANTITIES, "lrp@prefix")
    for weights, of_weights in rows.items():
        for one, other in zip(found.matrices(weights, "lrp@prefix"), of_weights["lrp@prefix"], strict=True):
            np.testing.assert_array_equal(one, other)
        correct = found.correct(weights)
        assert correct is not None
        assert [each.tolist() for each in correct] == [[True, False], [True], [False, True, True]]
    only = {weights: {"lrp@prefix": each["lrp@prefix"]} for weights, each in rows.items()}
    with pytest.raises(ValueError, match="about the source"):
        write_trajectory(tmp_path / "wrong", only, PERFORMANCE, {})


def test_the_order_they_are_given_in_does_not_change_the_bytes(folder: Path, tmp_path: Path) -> None:
    write_trajectory(tmp_path / "again", rows_of(), PERFORMANCE, {"task": "demo", "split": "dev"})
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_the_best_checkpoint_is_the_first_of_equals_and_may_be_the_final_one(folder: Path, tmp_path: Path) -> None:
    found = Trajectory.open(folder)
    assert found.best("accuracy") == "000500"
    assert found.best("bleu") == "1000000"
    with pytest.raises(InputError, match="has no perplexity"):
        found.best("perplexity")
    better = {**PERFORMANCE, "final": {"accuracy": 0.61, "loss": 0.9}}
    write_trajectory(tmp_path / "other", rows_of(), better, {})
    assert Trajectory.open(tmp_path / "other").best("accuracy") == "final"
    # What was measured at some checkpoints only is compared there.
    assert Trajectory.open(tmp_path / "other").best("bleu") == "1000000"


def test_what_is_not_there_is_named_with_what_is(folder: Path) -> None:
    found = Trajectory.open(folder)
    with pytest.raises(InputError, match="no checkpoint '000100'; it has 000000, 000500"):
        found.matrices("000100", "attention")
    with pytest.raises(InputError, match="no quantity 'probe'; it has attention, probe,bias=dropped"):
        found.matrices("final", "probe")
    some = found.matrices("final", "attention", [2, 0])
    assert [matrix.shape for matrix in some] == [SHAPES[2], SHAPES[0]]


def test_a_damaged_matrix_is_told_when_it_is_read(folder: Path) -> None:
    (folder / "000.f32").write_bytes(bytes((folder / "000.f32").stat().st_size))
    with pytest.raises(InputError, match="CRC-32"):
        Trajectory.open(folder).matrices("000000", "attention")


NUMBER = {"000000": {"accuracy": 0.5}}
BROKEN: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "scores of methods": (["attention"], {"methods": ["attention"]}, "names no checkpoints"),
    "no name": (["x/attention"], {"weights": ["x"], "performance": {"x": {}}}, "names no checkpoints"),
    "no order": (
        ["final/a", "000000/a"],
        {"weights": ["final", "000000"], "performance": {"final": {}, "000000": {}}},
        "not in order",
    ),
    "twice": (["000000/a"], {"weights": ["000000", "000000"], "performance": NUMBER}, "not in order"),
    "a matrix too few": (
        ["000000/a", "000000/b", "final/a"],
        {"weights": ["000000", "final"], "performance": {"000000": {}, "final": {}}},
        "not those of its checkpoints",
    ),
    "how its checkpoints performed": (["000000/a"], {"weights": ["000000"]}, "how its checkpoints performed"),
    "performance of another": (
        ["000000/a"],
        {"weights": ["000000"], "performance": {"final": {}}},
        "how its checkpoints performed",
    ),
    "a text": (["000000/a"], {"weights": ["000000"], "performance": {"000000": {"loss": "low"}}}, "is not a number"),
}


@pytest.mark.parametrize(("names", "facts", "told"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_trajectory_is_one_line(tmp_path: Path, names: list[str], facts: dict[str, Any], told: str) -> None:
    with MatrixWriter(tmp_path / "made", names, np.array([[1, 2]]), facts) as writer:
        writer.write(0, {name: np.zeros((1, 2), np.float32) for name in names})
    with pytest.raises(InputError, match=f"not a trajectory: .*{told}") as error:
        Trajectory.open(tmp_path / "made")
    assert "\n" not in str(error.value)
    assert str(tmp_path / "made") in str(error.value)


def test_a_folder_that_is_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Trajectory.open(tmp_path / "nowhere")
    (tmp_path / "facts.json").write_text(json.dumps({"format": "alignlens matrices"}))
    with pytest.raises(InputError, match="has no seal"):
        Trajectory.open(tmp_path)


def test_what_does_not_belong_together_is_not_written(tmp_path: Path) -> None:
    rows, some = rows_of(), {"000000": PERFORMANCE["000000"]}
    with pytest.raises(ValueError, match="performance given for"):
        write_trajectory(tmp_path / "x", rows, some, {})
    lacking = {**rows, "final": {"attention": rows["final"]["attention"]}}
    with pytest.raises(ValueError, match="quantities differ"):
        write_trajectory(tmp_path / "x", lacking, PERFORMANCE, {})
    with pytest.raises(ValueError, match="not the name of a checkpoint"):
        write_trajectory(tmp_path / "x", {"500": rows["final"]}, {"500": {}}, {})
    assert not (tmp_path / "x").exists()
    assert (weights_name(50), weights_name(1_000_000)) == ("000050", "1000000")
