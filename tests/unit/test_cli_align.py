"""``alignlens attribute`` and ``alignlens align``, called as a user calls them, on a small untrained model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_folder import SOURCE, TARGET, write_folder, write_masks

from alignlens.alignment.pharaoh import read_links
from alignlens.attribution import corpus
from alignlens.attribution.registry import METHODS, parse
from alignlens.cli import pairs
from alignlens.cli.main import main
from alignlens.io.matrices import Matrices
from alignlens.subwords.spans import Segmenter
from alignlens.tracking.records import read_journal

ABOUT = {"preset": "p", "dataset": "demo", "direction": "xa-xb", "model": "transformer", "seed": "1"}
SMOOTH = "ding_smoothgrad,n=3"
# The empty pair in the middle has nothing but the end symbols.
SOURCES, TARGETS = [*SOURCE[:2], "", *SOURCE[2:]], [*TARGET[:2], "", *TARGET[2:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, verb: str, *arguments: str) -> int:
    return main([verb, "--model", str(folder), "--threads", "1", *arguments])


TEXT = ["--source", "source", "--target", "target"]
SHORT = ["--max-ratio", "0", "--max-offset", "7"]


def attribute(folder: Path, out: str, *more: str) -> Matrices:
    assert call(folder, "attribute", *TEXT, "--methods", "attention", "grad", SMOOTH, "--out", out, *more) == 0
    return Matrices.open(Path(out))


def test_attribute_writes_a_distribution_for_every_target_piece(folder: Path, files: Path) -> None:
    scores = attribute(folder, "scores", "--about", json.dumps({**ABOUT, "decoding": "forced"}), "--journal", "j.jsonl")
    assert scores.names == scores.facts["methods"] == ["attention", "ding_grad", SMOOTH]
    assert (scores.facts["decoding"], scores.facts["source_begin"]) == ("forced", False)
    assert scores.facts["model"]["dataset"] == "demo"
    segmenters = [Segmenter.load(folder / f"{side}.model") for side in ("source", "target")]
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        columns, rows = (
            len(each.segment(line).ids) + 1 for each, line in zip(segmenters, (source, target), strict=True)
        )
        assert scores.shape(number) == (rows, columns)
        for name in scores.names:
            np.testing.assert_allclose(scores.matrix(name, number).sum(axis=1), 1, atol=1e-5)
    assert scores.shape(2) == (1, 1)
    (record,) = read_journal(files / "j.jsonl")
    assert record.name == "demo · xa-xb · transformer · s1 · attribute · forced"
    assert (record.status, record.latest["sentences"]) == ("FINISHED", 5)
    assert record.latest["target_pieces"] == scores.shapes[:, 0].sum()
    assert record.latest["rows"] > 0


def test_without_a_target_attribute_explains_the_models_own_translation(folder: Path, files: Path) -> None:
    own = ["--source", "source", *SHORT, "--beam", "2"]
    assert call(folder, "attribute", *own, "--methods", "attention", "lrp", "--out", "own") == 0
    assert call(folder, "translate", *own, "--out", "text", "--tokens", "tokens") == 0
    given = ["--source", "source", "--target", "tokens"]
    assert call(folder, "attribute", *given, "--methods", "attention", "lrp", "--out", "given") == 0
    scores, expected = Matrices.open("own"), Matrices.open("given")
    assert (scores.facts["decoding"], expected.facts["decoding"]) == ("free", "forced")
    for number in range(len(SOURCES)):
        for name in ("attention", "lrp", "lrp@prefix"):
            np.testing.assert_array_equal(scores.matrix(name, number), expected.matrix(name, number))


def test_a_long_run_tells_how_far_it_is(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "PORTION", 2)
    monkeypatch.setattr("alignlens.cli.attribute._MEASURE_EVERY_SECONDS", 0.0)
    attribute(folder, "scores", "--journal", "j.jsonl")
    events = [json.loads(line) for line in (files / "j.jsonl").read_text().splitlines()]
    told = [(event["step"], event["values"]) for event in events if "sentences_done" in event.get("values", {})]
    done = [step for step, _ in told]
    assert told == [(step, {"sentences_done": step}) for step in done]
    assert done == sorted(set(done))
    assert {1, 3, 5} <= set(done) <= set(range(1, 6))  # the ends of portions, and what was done between them


def test_adaptive_sampling_draws_fewer_copies_and_says_so(folder: Path, files: Path) -> None:
    text = [*TEXT, "--methods", "smoothgrad,n=40,sigma=0.01", "--out", "scores", "--journal", "j.jsonl"]
    assert call(folder, "attribute", *text, "--adaptive", "0.05") == 0
    scores = Matrices.open("scores")
    assert scores.facts["adaptive"] == 0.05
    (record,) = read_journal(files / "j.jsonl")
    assert 0 < record.latest["copies"] < 40 * record.latest["target_pieces"]


def test_parts_together_are_the_bytes_of_one_run(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "PORTION", 2)
    about = ["--about", json.dumps({**ABOUT, "decoding": "free"})]
    attribute(folder, "whole", *about)
    for part in ("1", "2", "3"):
        mine = ["--about", json.dumps({**ABOUT, "decoding": "free", "shard": part})]
        scores = attribute(folder, f"part{part}", "--shard", f"{part}/3", *mine)
        assert 0 < len(scores) < len(SOURCES)
    parts = ["part3", "part1", "part2"]
    assert main(["attribute", "--gather", *parts, "--out", "gathered", "--journal", "j.jsonl", *about]) == 0
    for name in sorted(path.name for path in (files / "whole").iterdir()):
        assert (files / "gathered" / name).read_bytes() == (files / "whole" / name).read_bytes(), name
    (record,) = read_journal(files / "j.jsonl")
    assert (record.latest["sentences"], record.latest["parts"]) == (5, 3)


@pytest.mark.parametrize("method", [name if "smooth" not in name else f"{name},n=2" for name in METHODS])
def test_align_gives_a_line_for_a_line_by_every_method(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    if not parse(method).spec.supports("transformer"):
        folder = write_folder(files / "lstm", "lstm")
    more = ["--masks", str(write_masks(files / "masks", folder))] if parse(method).spec.needs_masks else []
    assert call(folder, "align", *TEXT, "--method", method, *more) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 6
    assert lines[2] == lines[5] == ""
    # Every target word has a link (extraction "ding"), and no link leaves its sentence.
    (files / "links").write_text("\n".join(lines))
    lengths = [[len(line.split()) for line in side] for side in (SOURCES, TARGETS)]
    links = read_links("links", 0, *lengths)
    assert len(set(zip(links.sentence.tolist(), links.target.tolist(), strict=True))) == sum(lengths[1])


def test_align_agrees_with_the_pipeline_for_any_window(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute(folder, "scores")
    for side in ("source", "target"):
        segment = ["--model", str(folder / f"{side}.model"), "--input", side, "--out", f"{side}.pieces"]
        assert main(["subwords", "segment", *segment]) == 0
    pieces = ["--source-pieces", "source.pieces", "--target-pieces", "target.pieces"]
    assert main(["extract", "--matrices", "scores", *pieces, "--out-dir", "links"]) == 0
    for extraction in ("ding", "kobayashi"):
        expected = (files / "links" / f"{SMOOTH}.{extraction}.pharaoh").read_text()
        for window in (1000, 2):
            monkeypatch.setattr(pairs, "_WINDOW", window)
            capsys.readouterr()
            assert call(folder, "align", *TEXT, "--method", SMOOTH, "--extraction", extraction) == 0
            assert capsys.readouterr().out == expected


def test_scores_are_written_with_the_links(folder: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "align", *TEXT, "--method", "attention", "--scores", "--out", "scored", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    scored = read_links("scored")
    assert (result["sentences"], result["links"], result["method"]) == (5, len(scored.keys), "attention")
    assert scored.scores is not None
    assert ((scored.scores > 0) & (scored.scores <= 1)).all()
    assert call(folder, "align", *TEXT, "--method", "attention", "--out", "plain") == 0
    assert (read_links("plain").keys == scored.keys).all()


def test_without_a_target_the_model_translates_first(folder: Path, files: Path) -> None:
    mine = ["--source", "source", "--method", "grad", "--translation-out", "mine", *SHORT]
    assert call(folder, "align", *mine, "--out", "links") == 0
    assert call(folder, "translate", "--source", "source", "--out", "translation", *SHORT) == 0
    assert (files / "mine").read_bytes() == (files / "translation").read_bytes()
    lengths = [[len(line.split()) for line in (files / name).read_text().splitlines()] for name in ("source", "mine")]
    links = read_links("links", 0, *lengths)
    assert len(set(zip(links.sentence.tolist(), links.target.tolist(), strict=True))) == sum(lengths[1])


def test_standard_input_and_output(folder: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "alignlens", "align", "--model", str(folder), "--method", "grad", "--threads", "1"]
    text = (files / "source").read_text(encoding="utf-8")
    arguments = [*command, "--source", "-", "--target", "target"]
    answer = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, encoding="utf-8")
    assert call(folder, "align", *TEXT, "--method", "grad") == 0
    assert answer.stdout == capsys.readouterr().out
    # A stream cannot be counted before; that it is too short is found out on the way.
    cut = subprocess.run(arguments, input="der hund\n", capture_output=True, text=True, check=False, encoding="utf-8")
    assert cut.returncode == 2
    assert "/dev/stdin:1: ends after 1 lines, but target has more." in cut.stderr


def test_the_list_has_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["align", "--list"]) == 0
    told = capsys.readouterr().out
    for name, spec in METHODS.items():
        assert f"{name}: {spec.summary}" in told
        assert spec.cost in told
        assert spec.paper in told
        assert spec.equation in told
    assert "sigma=0.15" in told


def test_what_the_user_can_fix_is_one_line_and_exit_code_two(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed_with(model: Path, verb: str, *arguments: str) -> str:
        assert call(model, verb, *arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return captured.err

    grad = ["--method", "grad", "--out", "x"]
    scores = ["--methods", "grad", "--out", "x"]
    assert "did you mean smoothgrad" in failed_with(folder, "align", *TEXT, "--method", "smothgrad")
    assert "unknown method 'atention'" in failed_with(folder, "attribute", *TEXT, "--methods", "atention", "--out", "x")
    assert "n=0: must be" in failed_with(folder, "align", *TEXT, "--method", "smoothgrad,n=0")
    assert "--method missing" in failed_with(folder, "align", *TEXT)
    assert "--methods missing" in failed_with(folder, "attribute", *TEXT, "--out", "x")
    (files / "shorter").write_text("the dog\n")
    unequal = ["--source", "source", "--target", "shorter"]
    assert "shorter:2: 1 lines" in failed_with(folder, "align", *unequal, *grad)
    assert "shorter:2: 1 lines" in failed_with(folder, "attribute", *unequal, *scores)
    fconv = write_folder(files / "fconv", "fconv")
    (files / "long").write_text("der hund\ndie katze\n" + "katze " * 50 + "\n")
    (files / "three").write_text("der hund\ndie katze\nder mann\n")
    # The line is that of the file, whatever window it lies in.
    monkeypatch.setattr(pairs, "_WINDOW", 2)
    assert "long:3: " in failed_with(fconv, "align", "--source", "long", "--target", "three", *grad)
    assert "long:3: " in failed_with(fconv, "align", "--source", "three", "--target", "long", *grad)
    assert "long:3: " in failed_with(fconv, "align", "--source", "long", *grad)
    assert "long:3: " in failed_with(fconv, "attribute", "--source", "three", "--target", "long", *scores)
    assert "nowhere: no such file" in failed_with(folder, "align", "--source", "nowhere", *grad)
    assert "only one of" in failed_with(folder, "align", "--source", "-", "--target", "-", *grad)
    assert "leave out --target" in failed_with(folder, "align", *TEXT, *grad, "--translation-out", "y")
    assert "write the same file" in failed_with(folder, "align", "--source", "source", *grad, "--translation-out", "x")
    assert "--json needs --out" in failed_with(folder, "align", *TEXT, "--method", "grad", "--json")
    assert "--shard 3/2: " in failed_with(folder, "attribute", *TEXT, *scores, "--shard", "3/2")
    assert "leave out --model" in failed_with(folder, "attribute", "--gather", "a", "--out", "x")
    assert not (files / "x").exists()


@pytest.mark.parametrize("verb", ["align", "attribute"])
def test_help_and_wrong_options_do_not_wait_for_the_tensor_library(verb: str) -> None:
    code = f"import sys, alignlens.cli.{verb}\nassert not {{'torch', 'numpy'}} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", code], check=True)
