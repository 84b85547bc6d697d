"""Scores on disk: what goes in comes out, in any order and from any shards, and nothing damaged is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from alignlens.errors import InputError, ToolError
from alignlens.io.matrices import KIND, Matrices, MatrixWriter, gather
from alignlens.io.seals import seal_folder

NAMES = ["ding_grad", "ding_smoothgrad,sigma=0.05"]
SHAPES = np.array([[2, 3], [1, 1], [4, 2], [0, 5], [3, 3]])
FACTS = {"methods": NAMES, "decoding": "forced", "source_begin": False}


def matrices_of(number: int, shapes: NDArray[np.int64] = SHAPES) -> dict[str, NDArray[np.float32]]:
    generator = np.random.default_rng(number)
    return {name: generator.random(tuple(shapes[number]), dtype=np.float32) for name in NAMES}


def write(folder: Path, order: list[int], numbers: list[int] | None = None) -> Path:
    """Writes the sentences of a shard (or all) in some order, and counts rows as an attribution does."""
    held = list(range(len(SHAPES))) if numbers is None else numbers
    facts = {**FACTS, "statistics": {"rows": 0, "copies": {"of": 0, 7: 1, 10: 1}, "by_length": [0, 0], "kind": "x"}}
    given_numbers = None if numbers is None else np.array(numbers, dtype=np.int64)
    with MatrixWriter(folder, NAMES, SHAPES[held], facts, given_numbers) as writer:
        for number in order:
            writer.write(number, matrices_of(number))
            facts["statistics"]["rows"] += int(SHAPES[number][0])
            facts["statistics"]["by_length"][number % 2] += 1
            facts["statistics"]["copies"]["of"] += 30
        if 0 not in held:  # what every run counts once, this shard does not
            facts["statistics"]["copies"] |= {7: 0, 10: 0}
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "scores", [0, 1, 2, 3, 4])


def test_every_matrix_comes_back(folder: Path) -> None:
    scores = Matrices.open(folder)
    assert (len(scores), scores.names, scores.numbers.tolist()) == (5, NAMES, [0, 1, 2, 3, 4])
    assert scores.facts["decoding"] == "forced"
    assert scores.facts["statistics"]["rows"] == 10
    for number in (4, 0, 3, 1, 2):
        assert scores.shape(number) == tuple(SHAPES[number])
        for name, matrix in matrices_of(number).items():
            found = scores.matrix(name, number)
            assert found.dtype == np.float32
            assert np.array_equal(found, matrix)
    with pytest.raises(ValueError, match="read-only"):
        scores.matrix(NAMES[0], 0)[0, 0] = 1
    with pytest.raises(IndexError, match="sentence 5"):
        scores.matrix(NAMES[0], 5)
    assert sorted(content(folder)) == [
        "000.f32",
        "001.f32",
        "facts.json",
        "numbers.npy",
        "seal.json",
        "shapes.npy",
        "sums.npy",
    ]


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)), st.lists(st.integers(0, 2), min_size=5, max_size=5), st.permutations(range(3)))
def test_order_and_shards_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], shard_of: list[int], shards: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("scores")
    whole = content(write(folder / "whole", [0, 1, 2, 3, 4]))
    assert content(write(folder / "other", order)) == whole
    parts = []
    for shard in shards:
        held = [number for number in range(5) if shard_of[number] == shard]
        parts.append(write(folder / f"part{shard}", [number for number in order if number in held], held))
    gather(parts, folder / "gathered")
    assert content(folder / "gathered") == whole


def test_sentence_numbers_need_not_be_in_order(tmp_path: Path) -> None:
    write(tmp_path / "one", [4, 2], [4, 2])
    write(tmp_path / "two", [4, 2], [2, 4])
    assert content(tmp_path / "one") == content(tmp_path / "two")
    scores = Matrices.open(tmp_path / "one")
    assert scores.numbers.tolist() == [2, 4]
    assert np.array_equal(scores.matrix(NAMES[1], 4), matrices_of(4)[NAMES[1]])


def write_squares(folder: Path, numbers: list[int]) -> Path:
    """Writes sentences with a square matrix beside the others."""
    with MatrixWriter(folder, NAMES, SHAPES[numbers], FACTS, np.array(numbers), ["x@prefix"]) as writer:
        for number in numbers:
            writer.write(number, {**matrices_of(number), "x@prefix": square_of(number)})
    return folder


def square_of(number: int) -> NDArray[np.float32]:
    rows = int(SHAPES[number][0])
    return np.random.default_rng(50 + number).random((rows, rows), dtype=np.float32)


def test_some_matrices_may_be_square(tmp_path: Path) -> None:
    scores = Matrices.open(write_squares(tmp_path / "scores", [0, 1, 2, 3, 4]))
    assert (scores.names, scores.squares) == (NAMES, ["x@prefix"])
    for number in (3, 0, 4, 1, 2):
        assert np.array_equal(scores.matrix("x@prefix", number), square_of(number))
        for name, matrix in matrices_of(number).items():
            assert np.array_equal(scores.matrix(name, number), matrix)
    parts = [write_squares(tmp_path / f"part{which}", list(range(which, 5, 2))) for which in (0, 1)]
    gather(parts, tmp_path / "gathered")
    assert content(tmp_path / "gathered") == content(tmp_path / "scores")
    with pytest.raises(InputError, match="other names than"):
        gather([parts[0], write(tmp_path / "odd", [1, 3], [1, 3])], tmp_path / "out")
    _flip(tmp_path / "scores/002.f32", 8 * 4 * 5)  # the first number of sentence 2
    assert np.array_equal(scores.matrix("x@prefix", 1), square_of(1))
    with pytest.raises(InputError, match=r"002\.f32: damaged: the scores of sentence 2"):
        scores.matrix("x@prefix", 2)


def test_a_square_matrix_has_as_many_columns_as_rows(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolError, match=r"x@prefix: a matrix of shape \(2, 3\), expected \(2, 2\)"),
        MatrixWriter(tmp_path / "scores", NAMES, SHAPES, FACTS, squares=["x@prefix"]) as writer,
    ):
        writer.write(0, {**matrices_of(0), "x@prefix": matrices_of(0)[NAMES[0]]})
    with pytest.raises(ValueError, match="given twice"):
        MatrixWriter(tmp_path / "scores", NAMES, SHAPES, FACTS, squares=[NAMES[0]])


def wrong_shape(writer: MatrixWriter) -> None:
    writer.write(0, {**matrices_of(0), NAMES[1]: matrices_of(2)[NAMES[1]]})


def not_a_number(writer: MatrixWriter) -> None:
    matrices = matrices_of(0)
    matrices[NAMES[1]][1, 2] = np.nan
    writer.write(0, matrices)


def twice(writer: MatrixWriter) -> None:
    writer.write(0, matrices_of(0))
    writer.write(0, matrices_of(0))


WRONG = {
    "shape": (wrong_shape, r"sentence 0: ding_smoothgrad,sigma=0.05: a matrix of shape \(4, 2\), expected \(2, 3\)"),
    "nan": (not_a_number, "sentence 0: ding_smoothgrad,sigma=0.05: a score that is not a finite number"),
    "twice": (twice, "sentence 0: was already written"),
    "unknown sentence": (lambda writer: writer.write(9, matrices_of(0)), "sentence 9: is not one of the sentences"),
    "missing name": (lambda writer: writer.write(0, {NAMES[0]: matrices_of(0)[NAMES[0]]}), "lacks 'ding_smoothgrad,"),
    "foreign name": (lambda writer: writer.write(0, {**matrices_of(0), "x": SHAPES}), "has an unknown 'x'"),
    "missing sentences": (lambda writer: writer.write(1, matrices_of(1)), "no scores for 4 of 5 .* number 0"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_what_is_wrong_is_told_and_leaves_nothing(tmp_path: Path, mistake: str) -> None:
    do, message = WRONG[mistake]
    with pytest.raises(ToolError, match=message), MatrixWriter(tmp_path / "scores", NAMES, SHAPES, FACTS) as writer:
        do(writer)
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_old_folder_and_another_folder_is_not_replaced(tmp_path: Path, folder: Path) -> None:
    before = content(folder)
    with pytest.raises(ToolError, match="no scores"), MatrixWriter(folder, NAMES, SHAPES, FACTS):
        pass
    assert content(folder) == before
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").touch()
    with pytest.raises(InputError, match="would be replaced"), MatrixWriter(tmp_path / "home", NAMES, SHAPES, FACTS):
        pass
    assert (tmp_path / "home/thesis.tex").is_file()


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with (
        pytest.raises(ToolError, match="No space left"),
        MatrixWriter(tmp_path / "scores", NAMES, SHAPES, FACTS) as writer,
    ):
        writer.write(0, matrices_of(0))
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys, numpy as np
from alignlens.io.matrices import MatrixWriter
with MatrixWriter(sys.argv[1], ["a"], np.array([[1, 1], [1, 1]]), {}) as writer:
    writer.write(1, {"a": np.ones((1, 1), np.float32)})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_nothing_that_counts(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "scores")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "scores").exists()
    write(tmp_path / "scores", [0, 1, 2, 3, 4])
    assert [path.name for path in tmp_path.iterdir()] == ["scores"]  # the rest of the dead one was swept


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def _described(folder: Path, **changes: object) -> None:
    """Changes the facts of a folder as if they had been written so."""
    path = folder / "facts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    (folder / "seal.json").unlink()
    seal_folder(folder, KIND, lambda name: name.endswith(".f32"))


BROKEN = {
    "absent": (lambda f: f.rename(f.with_name("elsewhere")), "no such folder"),
    "without seal": (lambda f: (f / "seal.json").unlink(), "not a folder of scores"),
    "without facts": (lambda f: (f / "facts.json").unlink(), "facts.json: no such file"),
    "cut facts": (lambda f: _cut(f / "facts.json"), "facts.json: damaged"),
    "other format": (lambda f: _described(f, format="zarr"), "not in the format alignlens matrices"),
    "other version": (lambda f: _described(f, version=1), "version 2"),
    "fewer names": (lambda f: _described(f, names=NAMES[:1]), "do not fit together"),
    "cut scores": (lambda f: _cut(f / "001.f32"), "001.f32: damaged: 95 bytes instead of 96"),
    "without scores": (lambda f: (f / "001.f32").unlink(), "001.f32: no such file"),
    "cut shapes": (lambda f: _cut(f / "shapes.npy"), "shapes.npy: damaged"),
    "flipped shapes": (lambda f: _flip(f / "shapes.npy", 1100), "shapes.npy: damaged"),
    "flipped sums": (lambda f: _flip(f / "sums.npy", 1100), "sums.npy: damaged"),
    "foreign numbers": (lambda f: np.save(f / "numbers.npy", np.ones(5)), "damaged"),
    "foreign file": (lambda f: (f / "002.f32").touch(), "002.f32: was not written"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_folder_is_one_clear_line(folder: Path, damage: str) -> None:
    BROKEN[damage][0](folder)
    with pytest.raises(InputError, match=BROKEN[damage][1]) as caught:
        Matrices.open(folder)
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_of_the_scores_is_found_when_they_are_read(folder: Path) -> None:
    path = folder / "001.f32"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(whole)
        _flip(path, bit)
        scores = Matrices.open(folder)
        with pytest.raises(InputError, match=r"001\.f32: damaged: the scores of sentence"):
            [scores.matrix(NAMES[1], number) for number in range(len(scores))]
        for number in range(len(scores)):  # the other method is whole
            assert np.array_equal(scores.matrix(NAMES[0], number), matrices_of(number)[NAMES[0]])


def test_shards_that_do_not_belong_together_are_refused(tmp_path: Path, folder: Path) -> None:
    even, odd = write(tmp_path / "even", [0, 2, 4], [0, 2, 4]), write(tmp_path / "odd", [1, 3], [1, 3])
    for parts in ([even], [even, even, odd], [folder, odd]):
        with pytest.raises(InputError, match=r"sentences 0 to 4 are not all there exactly once|sentences 0 to"):
            gather(parts, tmp_path / "out")
    begun = write(tmp_path / "begun", [0, 1, 2], [0, 1, 2])
    gather([begun], tmp_path / "three")  # nothing says that there are more
    _described(begun, facts={**json.loads((begun / "facts.json").read_text())["facts"], "sentences": 5})
    with pytest.raises(InputError, match="sentences 0 to 4 are not all there exactly once"):
        gather([begun], tmp_path / "out")
    _described(odd, facts={**json.loads((odd / "facts.json").read_text())["facts"], "decoding": "free"})
    with pytest.raises(InputError, match=r"odd: 'decoding' differs from that of .*even"):
        gather([even, odd], tmp_path / "out")
    _described(odd, names=[NAMES[0], "attention"])
    with pytest.raises(InputError, match="odd: has other names"):
        gather([even, odd], tmp_path / "out")
    assert not (tmp_path / "out").exists()


MEMORY = """
import resource, sys, numpy as np
from pathlib import Path
from alignlens.io.matrices import Matrices, MatrixWriter, gather
folder, sentences = Path(sys.argv[1]), int(sys.argv[2])
one, names = np.full((40, 40), 0.5, np.float32), ["a", "b"]
for shard in (0, 1):
    numbers = np.arange(sentences)[shard::2]
    with MatrixWriter(folder / str(shard), names, np.full((len(numbers), 2), 40), {}, numbers) as writer:
        for number in numbers[::-1]:
            writer.write(int(number), {"a": one, "b": one})
gather([folder / "0", folder / "1"], folder / "all")
scores = Matrices.open(folder / "all")
assert sum(float(scores.matrix("b", number)[7, 7]) for number in range(sentences)) == sentences / 2
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for sentences in (200, 10_000):  # 2.5 and 128 MB of scores
        (tmp_path / str(sentences)).mkdir()
        command = [sys.executable, "-c", MEMORY, str(tmp_path / str(sentences)), str(sentences)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 15, peaks
