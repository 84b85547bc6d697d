"""``alignlens cost`` on a small untrained model: methods alone, their passes counted, long ones stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_folder import SOURCE, TARGET, write_folder

from alignlens.attribution import cost
from alignlens.cli.main import main
from alignlens.subwords.spans import Segmenter
from alignlens.tracking.records import read_journal

ABOUT = {"preset": "p", "dataset": "demo", "direction": "xa-xb", "model": "transformer", "seed": "1"}
METHODS = ["attention", "norms", "grad", "smoothgrad,n=3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, lines in (("source", SOURCE), ("target", TARGET)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, *more: str) -> int:
    return main(["cost", "--model", str(folder), "--source", "source", "--target", "target", *more])


def measured(folder: Path, *more: str) -> dict[str, Any]:
    # However busy the machine is, there is time for every sentence.
    assert call(folder, "--methods", *METHODS, "--out", "cost.json", "--seconds", "1000", *more) == 0
    result: dict[str, Any] = json.loads(Path("cost.json").read_text())
    return result


def pieces(folder: Path, *numbers: int) -> int:
    """Target pieces and ends of some sentences."""
    segmenter = Segmenter.load(folder / "target.model")
    return sum(len(segmenter.segment(TARGET[k]).ids) + 1 for k in numbers)


def test_every_method_is_measured_alone(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_LONG_ENOUGH", 1000.0)
    result = measured(folder, "--about", json.dumps(ABOUT), "--journal", "j.jsonl")
    assert (result["threads"], result["weights"], result["model"]) == (1, "weights", "transformer")
    assert {"machine", "cores", "versions", "device"} <= result.keys()
    rows = {row["method"]: row for row in result["methods"]}
    assert list(rows) == ["attention", "norms", "ding_grad", "ding_smoothgrad,n=3"]
    total = pieces(folder, 0, 1, 2, 3)
    passes = {method: (row["forward_passes"], row["backward_passes"]) for method, row in rows.items()}
    # Together they would share the clean pass; alone each has its own.
    assert passes == {
        "attention": (1, 0),
        "norms": (1, 0),
        "ding_grad": (1, total / 4),
        "ding_smoothgrad,n=3": (3, 3 * total / 4),
    }
    for row in rows.values():
        assert (row["sentences"], row["target_pieces"]) == (4, total)
        assert row["rounds"] == 5  # so quick that once would tell little
        assert row["cpu_seconds_per_100"] > 0
        assert row["seconds_per_100"] > 0
    (record,) = read_journal(files / "j.jsonl")
    assert (record.name, record.experiment) == ("demo · xa-xb · transformer · s1 · cost", "attribution")
    assert record.latest["backward_passes ding_smoothgrad n 3"] == 3 * total / 4


def test_the_sample_is_spread_over_the_text(folder: Path, files: Path) -> None:
    for count, numbers in ((2, (0, 2)), (3, (0, 1, 2)), (9, (0, 1, 2, 3))):
        rows = measured(folder, "--sentences", str(count))["methods"]
        assert {row["target_pieces"] for row in rows} == {pieces(folder, *numbers)}


def test_a_long_method_ends_with_the_sentences_it_is_at(folder: Path, files: Path) -> None:
    for row in measured(folder, "--seconds", "1e-6")["methods"]:
        assert (row["sentences"], row["rounds"], row["forward_passes"] >= 1) == (1, 1, True)
        assert row["target_pieces"] == pieces(folder, 0)


def test_a_slow_method_is_not_timed_again(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_LONG_ENOUGH", 0.0)
    assert {row["rounds"] for row in measured(folder)["methods"]} == {1}


def test_chunks_have_every_sentence_once_from_the_whole_text() -> None:
    for sentences, size in ((10, 3), (100, 64), (100, 0), (1, 7), (130, 1000)):
        chunks = cost._chunks(sentences, size)
        assert sorted(number for chunk in chunks for number in chunk) == list(range(sentences))
        assert max(map(len, chunks)) <= max(1, min(size, 64))
    assert [list(chunk) for chunk in cost._chunks(5, 3)] == [[0, 2, 4], [1, 3]]


def test_without_a_file_people_get_a_table(folder: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--methods", "attention", "grad") == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.startswith("method")
    assert (first.split()[0], second.split()[0]) == ("attention", "ding_grad")
    assert first.split()[-1] == "4"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--methods", "gard"], "did you mean"),
        (["--methods", "attention,layer=9"], "no layer 9"),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert call(folder, *arguments, "--out", "cost.json") == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not Path("cost.json").exists()
