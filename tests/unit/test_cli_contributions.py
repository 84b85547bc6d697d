"""``alignlens contributions``, called as a user calls it, on small untrained models."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tiny_folder import SOURCE, TARGET, write_folder

from alignlens.attribution import corpus
from alignlens.cli import pairs
from alignlens.cli.main import main
from alignlens.io.matrices import Matrices
from alignlens.tracking.records import read_journal

SOURCES, TARGETS = [*SOURCE[:2], "", *SOURCE[2:]], [*TARGET[:2], "", *TARGET[2:]]
TEXT = ["--source", "source", "--target", "target"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, *arguments: str) -> int:
    return main(["contributions", "--model", str(folder), "--threads", "1", *arguments])


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_step_of_every_sentence_has_a_line(folder: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, *TEXT, "--out", "steps.tsv", "--sentences", "sentences.tsv", "--json") == 0
    steps, sentences = rows_of("steps.tsv"), rows_of("sentences.tsv")
    assert [row["sentence"] for row in sentences] == ["0", "1", "2", "3", "4"]
    for row in sentences:
        mine = [step for step in steps if step["sentence"] == row["sentence"]]
        assert [int(step["step"]) for step in mine] == list(range(int(row["steps"])))
        assert mine[-1]["token"] == "<end>"
        assert (mine[0]["target"], mine[0]["source_renormalised"], mine[0]["target_entropy"]) == (
            "0.0000",
            "1.0000",
            "",
        )
        for step in mine:
            assert sum(float(step[side]) for side in ("source", "target", "start")) == pytest.approx(1, abs=2e-4)
            assert len(step["most_of_source"].split(" ")) <= 3
        assert len(mine[-1]["most_of_target"].split()) == min(3, len(mine) - 1)
    summary = json.loads(capsys.readouterr().out)
    assert (summary["sentences"], summary["steps"], summary["method"]) == (5, len(steps), "lrp")
    assert summary["suspicious"] == [int(row["sentence"]) for row in sentences if row["suspicious"] == "yes"]


def test_json_says_the_same_a_line_a_sentence(folder: Path, files: Path) -> None:
    assert call(folder, *TEXT, "--out", "steps.tsv") == 0
    assert call(folder, *TEXT, "--format", "json", "--out", "steps.jsonl") == 0
    found = [json.loads(line) for line in Path("steps.jsonl").read_text(encoding="utf-8").splitlines()]
    plain = rows_of("steps.tsv")
    told = [(str(each["sentence"]), step) for each in found for step in each["steps"]]
    assert len(told) == len(plain)
    for (sentence, step), row in zip(told, plain, strict=True):
        assert (sentence, step["token"]) == (row["sentence"], row["token"])
        assert step["source"] == pytest.approx(float(row["source"]), abs=1e-4)


def test_windows_do_not_change_a_number(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(folder, *TEXT, "--out", "whole.tsv") == 0
    monkeypatch.setattr(pairs, "_WINDOW", 2)
    assert call(folder, *TEXT, "--out", "windows.tsv") == 0
    assert Path("whole.tsv").read_text() == Path("windows.tsv").read_text()


@pytest.mark.parametrize("architecture", ["lstm", "fconv"])
def test_other_architectures_and_rules_do_as_well(files: Path, architecture: str) -> None:
    model = write_folder(files / architecture, architecture)
    for method in ("lrp,alpha=0.5", "lrp_epsilon"):
        assert call(model, *TEXT, "--method", method, "--out", "steps.tsv") == 0
        assert {row["sentence"] for row in rows_of("steps.tsv")} == set("01234")


def test_a_transformer_has_contributions_by_nearness_too(folder: Path, files: Path) -> None:
    assert call(folder, *TEXT, "--method", "alti", "--out", "steps.tsv") == 0
    rows = rows_of("steps.tsv")
    assert {row["sentence"] for row in rows} == set("01234")
    for row in rows:
        assert sum(float(row[side]) for side in ("source", "target", "start")) == pytest.approx(1, abs=1e-3)


def test_without_a_target_the_model_translates(folder: Path, files: Path) -> None:
    short = ["--max-ratio", "0", "--max-offset", "7", "--beam", "1"]
    assert call(folder, "--source", "source", *short, "--translation-out", "mine", "--out", "steps.tsv") == 0
    assert len(Path("mine").read_text(encoding="utf-8").splitlines()) == 5
    assert call(folder, "--source", "source", "--target", "mine", "--out", "again.tsv") == 0


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_it_draws(folder: Path, files: Path, suffix: str) -> None:
    assert call(folder, *TEXT, "--out", "steps.tsv", "--picture", f"shares.{suffix}") == 0
    content = Path(f"shares.{suffix}").read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*TEXT, "--method", "attention"], "method attention does not explain the target prefix; give lrp or lrp_ep"),
        ([*TEXT, "--method", "lpr"], "did you mean lrp"),
        ([*TEXT, "--method", "lrp,alpha=2"], "alpha=2: must be"),
        ([*TEXT, "--picture", "shares.gif"], "--picture shares.gif: must end in .svg or .png"),
        ([*TEXT, "--out", "source"], "source"),
        ([*TEXT, "--json"], "--json needs --out"),
        ([*TEXT, "--sentences", "-"], "only one of --out, --sentences and --translation-out can be standard output"),
        (["--source", "-", "--target", "-"], "only one of --source and --target"),
        ([*TEXT, "--translation-out", "t"], "leave out --target"),
        (["--source", "source", "--target", "shorter"], "shorter:3: 2 lines, but source has 5"),
        (["--source", "nothing", "--target", "nothing"], "nothing"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    (files / "shorter").write_text("a\n" * 2, encoding="utf-8")
    (files / "nothing").write_text("", encoding="utf-8")
    assert call(folder, *arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1


def test_attribute_keeps_both_sides_and_tells_what_layers_lose(
    folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "PORTION", 2)
    method = "lrp,alpha=0.5"
    ask = ["attribute", "--model", str(folder), "--threads", "1", *TEXT, "--methods", method]
    assert main([*ask, "--out", "whole", "--journal", "whole.jsonl"]) == 0
    for part in ("1", "2"):
        assert main([*ask, "--out", f"part{part}", "--shard", f"{part}/2"]) == 0
    assert main(["attribute", "--gather", "part2", "part1", "--out", "gathered", "--journal", "both.jsonl"]) == 0
    for name in sorted(path.name for path in (files / "whole").iterdir()):
        assert (files / "gathered" / name).read_bytes() == (files / "whole" / name).read_bytes(), name
    whole = Matrices.open("whole")
    for number in range(5):
        source, prefix = (whole.matrix(name, number) for name in (method, f"{method}@prefix"))
        assert source.sum(1) + prefix.sum(1) == pytest.approx(1, abs=1e-3)
    for journal in ("whole.jsonl", "both.jsonl"):
        (record,) = read_journal(files / journal)
        assert 0 < record.latest["lost/lrp alpha 0.5/residual sum"] < 1


def test_a_model_without_rules_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_folder(files / "bag_of_words", "bag_of_words")
    assert call(model, *TEXT) == 2
    assert "method lrp does not work with bag_of_words" in capsys.readouterr().err


def test_a_calibrated_model_has_rules(files: Path) -> None:
    assert call(write_folder(files / "calibrated", "calibrated"), *TEXT) == 0
