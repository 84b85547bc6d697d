"""``alignlens translate``, ``force`` and ``bleu``, called as a user calls them, on a small untrained model."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_folder import SOURCE, TARGET, write_folder

from alignlens.cli.main import main
from alignlens.tracking.records import read_journal

ABOUT = json.dumps({"preset": "p", "dataset": "demo", "direction": "xa-xb", "model": "transformer", "seed": "1"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = [*SOURCE[:2], "", *SOURCE[2:]]
    (tmp_path / "source").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "target").write_text("\n".join([*TARGET[:2], "", *TARGET[2:]]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "source.gz", "wt", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, verb: str, *arguments: str) -> int:
    return main([verb, "--model", str(folder), "--threads", "1", *arguments])


SHORT = ["--max-ratio", "0", "--max-offset", "7"]


def test_translate_to_a_file_to_standard_output_and_from_gzip(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, "translate", "--source", "source", "--out", "plain", *SHORT) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "source: empty lines, left empty in the translation: 1" in captured.err
    lines = (files / "plain").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 6
    assert lines[2] == lines[5] == ""
    assert all(lines[:2])
    assert call(folder, "translate", "--source", "source.gz", *SHORT) == 0
    assert capsys.readouterr().out == (files / "plain").read_text(encoding="utf-8")
    # Other weights of the same folder are another model.
    assert call(folder, "translate", "--source", "source", "--weights", "best", *SHORT) == 0
    assert capsys.readouterr().out != (files / "plain").read_text(encoding="utf-8")


def test_translate_reads_standard_input(folder: Path, files: Path) -> None:
    command = [sys.executable, "-m", "alignlens", "translate", "--model", str(folder), "--source", "-", *SHORT]
    text = (files / "source").read_text(encoding="utf-8")
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=True, encoding="utf-8")
    assert call(folder, "translate", "--source", "source", "--out", "plain", *SHORT) == 0
    assert answer.stdout == (files / "plain").read_text(encoding="utf-8")
    assert "Traceback" not in answer.stderr


def test_several_translations_of_a_line_are_numbered_and_scored(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, "translate", "--source", "source", "--n-best", "3", "--beam", "3", "--scores", *SHORT) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3 + ["2"] + ["3"] * 3 + ["4"] * 3
    scores = [float(row[1]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    assert rows[6] == ["2", "0.0000", "0.0000", ""]
    sampling = ["--samples", "2", "--seed", "5", *SHORT]
    assert call(folder, "translate", "--source", "source", *sampling) == 0
    drawn = capsys.readouterr().out
    assert drawn.count("\n") == 10
    assert call(folder, "translate", "--source", "source", *sampling, "--batch-tokens", "1") == 0
    assert capsys.readouterr().out == drawn


def test_translate_keeps_a_journal_and_counts_what_it_did(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = ["--journal", "j.jsonl", "--about", ABOUT, "--out", "plain", "--json"]
    assert call(folder, "translate", "--source", "source", *journal, *SHORT) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["sentences"], result["translations"], result["empty_lines"]) == (5, 5, 1)
    (record,) = read_journal(files / "j.jsonl")
    assert record.name == "demo · xa-xb · transformer · s1 · translate"
    assert record.status == "FINISHED"
    assert record.params["beam"] == 5
    assert record.latest["sentences"] == 5


def test_force_scores_the_reference_in_total_and_by_sentence(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["--source", "source", "--target", "target"]
    kept = ["--out", "forced.json", "--per-sentence", "forced.tsv", "--journal", "j.jsonl", "--about", ABOUT]
    assert call(folder, "force", *text, *kept) == 0
    result = json.loads((files / "forced.json").read_text())
    header, *rows = [line.split("\t") for line in (files / "forced.tsv").read_text().splitlines()]
    assert header == ["sentence", "tokens", "correct", "log_prob", "perplexity"]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[2][1] == "1"  # an empty line is its end symbol
    assert sum(int(row[1]) for row in rows) == result["tokens"]
    assert result["accuracy"] == pytest.approx(sum(int(row[2]) for row in rows) / result["tokens"])
    assert result["loss"] == pytest.approx(-sum(float(row[3]) for row in rows) / result["tokens"], abs=1e-5)
    assert (result["dataset"], result["direction"], result["seed"]) == ("demo", "xa-xb", "1")
    (record,) = read_journal(files / "j.jsonl")
    assert record.name == "demo · xa-xb · transformer · s1 · force"
    assert record.latest["loss"] == pytest.approx(result["loss"])
    capsys.readouterr()
    assert call(folder, "force", *text, "--batch-tokens", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(result["loss"], abs=1e-5)


def test_bleu_is_a_step_with_interval_file_and_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "hypothesis").write_text("the dog sees the cat\nthe cat sleeps now\n\na dog or a cat\nthe man\n")
    arguments = ["bleu", "--hypothesis", "hypothesis", "--reference", "target", "--tokenize", "none"]
    assert main([*arguments, "--out", "bleu.json", "--journal", "j.jsonl", "--about", ABOUT]) == 0
    assert capsys.readouterr().out == ""
    result = json.loads((files / "bleu.json").read_text())
    assert result["interval"]["low"] <= result["bleu"] <= result["interval"]["high"]
    assert "tok:none" in result["signature"]
    (record,) = read_journal(files / "j.jsonl")
    assert record.name == "demo · xa-xb · transformer · s1 · bleu"
    assert record.latest["bleu"] == pytest.approx(result["bleu"])
    assert main([*arguments, "--samples", "0"]) == 0
    assert capsys.readouterr().out.startswith(f"BLEU {result['bleu']:.2f}  nrefs:1")


def test_what_the_user_can_fix_is_one_line_and_exit_code_two(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def failed_with(model: Path, verb: str, *arguments: str) -> str:
        assert call(model, verb, *arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return captured.err

    (files / "long").write_text("der hund\n" + "katze " * 50 + "\n")
    fconv = write_folder(files / "fconv", "fconv")
    assert "long:2: " in failed_with(fconv, "translate", "--source", "long", "--out", "x")
    (files / "two").write_text("der hund\ndie katze\n")
    assert "long:2: " in failed_with(fconv, "force", "--source", "two", "--target", "long")
    assert not (files / "x").exists()
    assert "nowhere: no such file" in failed_with(folder, "translate", "--source", "nowhere")
    assert "not a model folder" in failed_with(files, "translate", "--source", "source")
    assert "The folder has: best, weights" in failed_with(folder, "translate", "--source", "source", "--weights", "x")
    assert "n_best: 7" in failed_with(folder, "translate", "--source", "source", "--n-best", "7")
    assert "belongs to beam search" in failed_with(
        folder, "translate", "--source", "source", "--n-best", "2", "--samples", "2"
    )
    assert "--json needs --out" in failed_with(folder, "translate", "--source", "source", "--json")
    (files / "short").write_text("the dog\n")
    assert "short:2: 1 lines" in failed_with(folder, "force", "--source", "source", "--target", "short")


@pytest.mark.parametrize("verb", ["translate", "force", "bleu"])
def test_help_and_wrong_options_do_not_wait_for_the_tensor_library(verb: str) -> None:
    code = f"import sys, alignlens.cli.{verb}\nassert not {{'torch', 'sacrebleu'}} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_line_that_is_no_sentence_is_refused_at_once(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "endless").write_text("der hund\n" + "katze " * 100_000 + "\n")
    assert main(["translate", "--model", str(folder), "--source", "endless", "--out", "x"]) == 2
    assert "endless:2: 100,000 pieces; a line may have at most 10,000." in capsys.readouterr().err
    assert not (files / "x").exists()
