"""``alignlens bleu`` with several systems, called as a user calls it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from alignlens.cli.main import main
from alignlens.metrics.bleu import corpus_bleu
from alignlens.tracking.records import read_journal

ABOUT = json.dumps({"preset": "p", "dataset": "demo", "direction": "xa-xb"})
WRONG = {"old.1": 0.4, "old.2": 0.45, "new.1": 0.2, "new.2": 0.25, "other": 0.4}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(3)
    lines = [generator.choice(list("abcdef"), size=9).tolist() for _ in range(60)]
    (tmp_path / "reference").write_text("".join(" ".join(line) + "\n" for line in lines))
    for name, wrong in WRONG.items():
        changed = ([word if generator.random() > wrong else "x" for word in line] for line in lines)
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in changed))
    (tmp_path / "copy").write_text((tmp_path / "old.1").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> int:
    return main(["bleu", "--reference", "reference", "--tokenize", "none", "--trials", "200", *arguments])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert call(*arguments) == 0
    return capsys.readouterr().out


def test_two_systems_and_their_baseline_are_a_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--hypothesis", "new.1", "--hypothesis", "copy", "--versus", "old.1")
    header, new, copy, old, last = out.splitlines()
    assert header.split() == [
        *("system", "BLEU", "95", "%", "difference", "95", "%", "p", "bootstrap", "randomisation")
    ]
    lines, references = ((files / name).read_text().splitlines() for name in ("new.1", "reference"))
    assert new.split()[:2] == ["new", f"{corpus_bleu(lines, references, 'none').bleu:.2f}"]
    assert new.split()[-3:] == ["0.0020", "0.0010", "0.0050"]
    assert copy.split()[-6:] == ["+0.00", "[+0.00,", "+0.00]", "1.0000", "1.0000", "1.0000"]
    assert old.startswith("old ")
    assert len(old.split()) == 4
    assert last.startswith("60 sentences  nrefs:1|bs:1000|ar:200|seed:1|case:mixed|eff:no|tok:none|")


def test_seeds_have_a_mean_and_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--hypothesis", "new.1", "new.2", "--versus", "old.1", "old.2", "--names", "new", "old"]
    out = printed(capsys, *arguments)
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == ["new", "new.1", "new.2", "old", "old.1", "old.2"]
    assert out.splitlines()[1].startswith("new (mean of 2) ")
    content = json.loads(printed(capsys, *arguments, "--json"))
    new, old = content["systems"]
    assert new["bleu"] == pytest.approx(np.mean([seed["bleu"] for seed in new["seeds"]]))
    assert new["difference"] == pytest.approx(new["bleu"] - old["bleu"])
    assert new["p_bootstrap"] is None
    assert new["seeds"][1]["p_bootstrap"] < 0.05
    assert [seed["translation"] for seed in old["seeds"]] == ["old.1", "old.2"]
    assert content["baseline"] == "old"
    assert content["interval"] == {"level": 95, "samples": 1000, "seed": 1}


def test_a_comparison_is_a_step_with_files_and_a_run_per_system(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = ["--out", "out.json", "--table", "out.tsv", "--journal", "j.jsonl", "--about", ABOUT]
    arguments = [
        "--hypothesis",
        "new.1",
        "new.2",
        "--hypothesis",
        "other",
        "--versus",
        "old.1",
        "--names",
        "new",
        "other",
    ]
    assert printed(capsys, *arguments, "old", *outputs) == ""
    content = json.loads((files / "out.json").read_text())
    assert content["dataset"] == "demo"
    with (files / "out.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["system"], row["translation"]) for row in rows] == [
        ("new", "mean of 2"), ("new", "new.1"), ("new", "new.2"), ("other", "other"), ("old", "old.1"),
    ]  # fmt: skip
    assert float(rows[0]["difference"]) == pytest.approx(content["systems"][0]["difference"], abs=1e-6)
    assert (rows[0]["p_bootstrap"], rows[4]["difference"]) == ("", "")
    records = read_journal(files / "j.jsonl")
    assert [record.name for record in records] == [f"demo · xa-xb · bleu · {name}" for name in ("new", "other", "old")]
    assert len({record.key for record in records}) == 3
    assert records[0].latest["difference"] == pytest.approx(content["systems"][0]["difference"])
    assert records[0].latest["seeds"] == 2
    assert "p_randomisation" in records[1].latest
    assert "difference" not in records[2].latest
    assert [len(record.artifacts) for record in records] == [2, 1, 1]


def test_several_systems_without_a_baseline_are_only_scored(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--hypothesis", "new.1", "--hypothesis", "old.1")
    assert [len(line.split()) for line in out.splitlines()[1:3]] == [4, 4]
    assert "|ar:" not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--hypothesis", "new.1", "--versus", "nowhere"], "nowhere: no such file."),
        (["--hypothesis", "new.1", "short", "--versus", "old.1"], "short:2: 1 lines, but reference has 60."),
        (["--hypothesis", "empty", "--versus", "old.1"], "empty: the file is empty."),
        (["--hypothesis", "new.1", "--versus", "./new.1"], "./new.1 is given twice (as new.1)."),
        (["--hypothesis", "new.1", "--versus", "old.1", "--names", "a"], "--names: give 2 different names"),
        (["--hypothesis", "new.1", "--versus", "old.1", "--names", "a", "a"], "--names: give 2 different names"),
        (["--hypothesis", "new.1", "--versus", "old.1", "--samples", "0"], "--samples 0: a comparison needs at least"),
        (["--hypothesis", "new.1", "--table", "x"], "--names and --table need a comparison"),
        (
            ["--hypothesis", "new.1", "--versus", "old.1", "--table", "old.1"],
            "would overwrite its input, --versus old.1",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_lost(
    arguments: list[str], told: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "short").write_text("a b c\n")
    (files / "empty").write_text("")
    before = {path: path.read_bytes() for path in files.iterdir()}
    outputs = ["--out", "kept.json"]
    assert call(*arguments, *outputs) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert told in captured.err
    assert {path: path.read_bytes() for path in files.iterdir()} == before
