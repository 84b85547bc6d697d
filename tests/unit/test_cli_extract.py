"""From scores to metrics.json by the verbs: extract, symmetrize (folders), reference, score-methods."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from alignlens.attribution.registry import parse
from alignlens.cli import symmetrize
from alignlens.cli.main import main
from alignlens.io.matrices import MatrixWriter
from alignlens.metrics.aer import Counts
from alignlens.metrics.links_folder import sentence_entropies
from alignlens.metrics.sentences import read_sentences, row_name
from alignlens.tracking.records import read_journal

SMOOTH = "ding_smoothgrad,sigma=0.05"
ABOUT = {"preset": "p", "dataset": "toy", "pair": ["de", "en"], "model": "transformer", "architecture": "transformer"}
ABOUT |= {"seed": "2", "decoding": "forced", "study": "ding2019"}
# Sentence 0: two words of two pieces and one; sentence 1: nothing read; sentence 2: a mark without a word.
SOURCE = ["▁ab c ▁d", "", "▁x"]
TARGET = ["▁u ▁v w", "▁u", "▁"]


def rows(*values: list[float]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


# Target rows u, v, w, END; source columns ab, c, d, END.
GRAD = [rows([0.1, 0.3, 0.4, 0.2], [1, 0, 0, 0], [0, 0, 0.1, 0.9], [0, 0, 0, 1]), rows([1], [1]), rows([1, 0], [0, 1])]
FLAT = [np.full(matrix.shape, 1 / matrix.shape[1], dtype=np.float32) for matrix in GRAD]


def failed_with(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns the one line on stderr of a call that must exit with 2 and print nothing else."""
    capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def write_scores(folder: Path, matrices: dict[str, list[NDArray[np.float32]]], **facts: Any) -> None:
    shapes = np.array([matrix.shape for matrix in next(iter(matrices.values()))])
    with MatrixWriter(folder, list(matrices), shapes, {"source_begin": False, **facts}) as writer:
        for number in range(len(shapes)):
            writer.write(number, {name: column[number] for name, column in matrices.items()})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "source").write_text("\n".join(SOURCE) + "\n", encoding="utf-8")
    (tmp_path / "target").write_text("\n".join(TARGET) + "\n", encoding="utf-8")
    write_scores(tmp_path / "scores", {"ding_grad": GRAD, SMOOTH: FLAT})
    (tmp_path / "gold").write_text("1-0 0-1\n\n\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def extract(*more: str, scores: str = "scores") -> list[str]:
    return ["extract", "--matrices", scores, "--source-pieces", "source", "--target-pieces", "target", *more]


def test_extract_writes_links_of_every_method_and_its_entropy(files: Path) -> None:
    assert main(extract("--out-dir", "links", "--journal", "j", "--about", json.dumps(ABOUT))) == 0
    written = {path.name: path.read_text() for path in (files / "links").iterdir() if path.suffix != ".npz"}
    entropies = json.loads(written.pop("entropy.json"))
    assert json.loads(written.pop("lengths.json")) == {"source": [2, 0, 1], "target": [2, 1, 0]}
    assert json.loads(written.pop("seal.json"))["kind"] == "folder of links"
    assert written == {
        # u takes d; v takes ab and w takes d, though END has more.
        "ding_grad.ding.pharaoh": "0-1 1-0 1-1\n\n\n",
        # u: ab and c together have as much as d, and come first; v and w: 0.5 for word 0, 0.05 for d, 0.45 for END.
        "ding_grad.kobayashi.pharaoh": "0-0 0-1\n\n\n",
        f"{SMOOTH}.ding.pharaoh": "0-0 0-1\n\n\n",
        f"{SMOOTH}.kobayashi.pharaoh": "0-0 0-1\n\n\n",
    }
    assert list(entropies) == ["ding_grad", SMOOTH]
    flat = entropies[SMOOTH]
    assert flat["sentence_mean"] == pytest.approx((math.log(4) + 0 + math.log(2)) / 3)
    assert flat["row_mean"] == pytest.approx((4 * math.log(4) + 2 * math.log(2)) / 8)
    assert flat["rows"] == 8
    steep, smooth, none = sentence_entropies(files / "links", ["ding_grad", SMOOTH, None])
    assert smooth is not None
    assert smooth == pytest.approx([math.log(4), 0, math.log(2)])
    assert steep is not None
    assert steep.mean() == pytest.approx(entropies["ding_grad"]["sentence_mean"])
    assert none is None
    (run,) = read_journal(files / "j")
    assert (run.experiment, run.status) == ("extract", "FINISHED")
    assert run.name == "toy · transformer · s2 · extract · forced"
    assert run.latest["methods"] == 2


def test_extract_links_signed_scores_by_their_highest_and_gives_them_no_entropy(files: Path) -> None:
    signed = [np.log(matrix + 1e-3) - 1 for matrix in GRAD]  # the same order, all of it negative
    write_scores(files / "signed", {"grad_input": signed, "probe,scale=log_p": signed, "probe": GRAD})
    assert main(extract("--out-dir", "links", scores="signed")) == 0
    entropies = json.loads((files / "links" / "entropy.json").read_text())
    assert entropies["probe"]["sentence_mean"] > 0
    for method in ("grad_input", "probe,scale=log_p"):
        assert entropies[method]["sentence_mean"] is None
        assert entropies[method]["score_mean"] < -1
        (found,) = sentence_entropies(files / "links", [method])
        assert np.isnan(found).all()
        assert (files / "links" / f"{method}.ding.pharaoh").read_text() == "0-1 1-0 1-1\n\n\n"


def test_extract_turned_round_and_with_scores(files: Path) -> None:
    assert main(extract("--out-dir", "links", "--extraction", "ding", "--transpose", "--with-scores")) == 0
    assert (files / "links/ding_grad.ding.pharaoh").read_text() == "0-1:0.4 1-0:1 1-1:0.1\n\n\n"
    assert len(list((files / "links").iterdir())) == 6
    assert json.loads((files / "links/lengths.json").read_text())["target"] == [2, 0, 1]


def test_extract_knows_the_begin_column(files: Path) -> None:
    with_begin = [np.insert(matrix, 0, 0, axis=1) for matrix in GRAD]
    write_scores(files / "begun", {"ding_grad": with_begin}, source_begin=True)
    assert main(extract("--out-dir", "one", "--extraction", "ding")) == 0
    assert main(extract("--out-dir", "two", "--extraction", "ding", scores="begun")) == 0
    name = "ding_grad.ding.pharaoh"
    assert (files / "two" / name).read_text() == (files / "one" / name).read_text()
    assert json.loads((files / "two/entropy.json").read_text())["ding_grad"]["rows"] == 8


def test_extract_refuses_what_does_not_belong_together(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out-dir", "links"]
    (files / "source").write_text("▁ab c ▁d\n\n▁x y\n")
    assert "source:3: the pieces need scores of 2 x 3, but scores has 2 x 2" in failed_with(capsys, *extract(*out))
    (files / "source").write_text("▁ab c ▁d\n\n")
    assert "target:3: 3 lines, but source has 2" in failed_with(capsys, *extract(*out))
    (files / "target").write_text("▁u ▁v w\n▁u\n")
    assert "scores of 3 sentences, but source has 2 lines" in failed_with(capsys, *extract(*out))
    for name, lines in (("source", SOURCE), ("target", ["▁u ▁v", *TARGET[1:]])):
        (files / name).write_text("\n".join(lines) + "\n")
    assert "target:1: the pieces need scores of 3 x 4, but scores has 4 x 4" in failed_with(capsys, *extract(*out))
    (files / "target").write_text("\n".join(TARGET) + "\n")
    write_scores(files / "damaged", {"attention": [matrix * 2 for matrix in GRAD]})
    told = failed_with(capsys, *extract(*out, scores="damaged"))
    assert "damaged: attention, sentence 0: row 0 is no distribution: sum 2" in told
    with MatrixWriter(files / "shard", ["x"], np.ones((1, 2)), {}, np.array([1])) as writer:
        writer.write(1, {"x": rows([1])})
    assert "one shard of several" in failed_with(capsys, *extract(*out, scores="shard"))
    assert not (files / "links").exists()
    (files / "links").mkdir()
    (files / "links/thesis.tex").touch()
    assert "links: exists with other content" in failed_with(capsys, *extract(*out))
    assert (files / "links/thesis.tex").is_file()


@pytest.mark.parametrize("at_once", [1, 100_000])
def test_symmetrize_folders(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(symmetrize, "_SENTENCES_AT_ONCE", at_once)
    for folder, links in (
        ("f", {"a.ding": "0-0 1-1\n", "b.ding": "0-0\n"}),
        ("r", {"a.ding": "0-0\n", "b.ding": "\n"}),
    ):
        (files / folder).mkdir()
        for name, text in links.items():
            (files / folder / f"{name}.pharaoh").write_text(text)
        (files / folder / "entropy.json").write_text("{}")
    both = ["symmetrize", "--forward-dir", "f", "--reverse-dir", "r", "--method", "intersection", "union"]
    for _ in range(2):  # the second time it replaces what it wrote
        assert main([*both, "--out-dir", "bidir", "--journal", "j", "--about", json.dumps(ABOUT)]) == 0
    assert {path.name: path.read_text() for path in (files / "bidir").glob("*.pharaoh")} == {
        "a.ding.intersection.pharaoh": "0-0\n",
        "a.ding.union.pharaoh": "0-0 1-1\n",
        "b.ding.intersection.pharaoh": "\n",
        "b.ding.union.pharaoh": "0-0\n",
    }
    (run,) = read_journal(files / "j")
    assert (run.name, run.latest["files"]) == ("toy · transformer · s2 · forced", 4)
    assert "folders of links need --out-dir" in failed_with(capsys, *both[:-1])
    out = ["--out-dir", "new"]
    assert "give --forward and --reverse, or" in failed_with(capsys, *both, *out, "--forward", "x")
    assert "give --forward and --reverse, or" in failed_with(capsys, *both[:3], *both[5:], *out)
    (files / "r/b.ding.pharaoh").unlink()
    assert "r/b.ding.pharaoh: no such file" in failed_with(capsys, *both, *out)
    (files / "r/b.ding.pharaoh").write_text("\n\n")
    assert "r/b.ding.pharaoh:2: 2 lines, but f/b.ding.pharaoh has 1" in failed_with(capsys, *both, *out)
    assert "nowhere: no such folder" in failed_with(capsys, *both[:4], "nowhere", *both[5:], *out)
    assert not (files / "new").exists()


def test_reference_has_sure_links_where_both_directions_agree(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "f").write_text("0-0 1-1\n\n2-0\n")
    (files / "r").write_text("0-0 1-2\n\n\n")
    call = ["reference", "--forward", "f", "--reverse", "r", "--out", "reference.gold"]
    assert main([*call, "--journal", "j", "--about", json.dumps(ABOUT)]) == 0
    assert (files / "reference.gold").read_text() == "0-0 1p1 1p2\n\n2p0\n"
    (run,) = read_journal(files / "j")
    assert (run.latest["sure"], run.latest["possible"], run.latest["sentences"]) == (1, 4, 3)
    (files / "r").write_text("0-0\n")
    assert "r:2: 1 lines, but f has 3" in failed_with(capsys, *call)


def test_a_stored_aligner_gives_the_reference_of_new_text(files: Path) -> None:
    """Words nobody has seen, empty translations, and texts without anything in common with the training text."""
    (files / "train.s").write_text("a b\nb c\nc a\na c\n\n" * 20)
    (files / "train.t").write_text("x y\ny z\nz x\nx z\n\n" * 20)
    (files / "s").write_text("a b\nunseen\nc\n\nnew words here\n")
    (files / "t").write_text("x y\nunbekannt neu\n\n\nx\n")
    for side, out in ((), "f"), (("--reverse",), "r"):
        train = ["--train-source", "train.s", "--train-target", "train.t", "--text", "online"]
        assert main(["aligner", "fast_align", *train, "--model", f"m{out}", *side]) == 0
        apply = ["--text", "online", "--model", f"m{out}", "--source", "s", "--target", "t", "--out", out]
        assert main(["aligner", "fast_align", *apply, *side]) == 0
    assert main(["reference", "--forward", "f", "--reverse", "r", "--out", "gold"]) == 0
    lines = (files / "gold").read_text().split("\n")
    assert lines[0] == "0-0 1-1"
    assert lines[2:4] == ["", ""]
    assert len(lines) == 6
    both = [(files / name).read_text().splitlines() for name in "fr"]
    for number, (words, others) in enumerate(((2, 2), (1, 2), (1, 0), (0, 0), (3, 1))):
        links = [tuple(map(int, link.split("-"))) for lines in both for link in lines[number].split()]
        assert all(i < words and j < others for i, j in links)


def score(*cells: str) -> list[str]:
    return ["score-methods", "--cell", *cells, "--samples", "50"]


@pytest.fixture
def linked(files: Path) -> Path:
    """Both directions of two methods (the same links, for brevity) and their combinations."""
    assert main(extract("--out-dir", "de-en")) == 0
    assert main(extract("--out-dir", "en-de")) == 0
    both = ["symmetrize", "--forward-dir", "de-en", "--reverse-dir", "en-de", "--out-dir", "bidir"]
    assert main([*both, "--method", "grow-diag", "grow-diag-final-lilt"]) == 0
    return files


def test_score_methods_writes_one_table_and_one_run_per_row(linked: Path) -> None:
    cells = ["de-en=de-en=gold", "en-de=en-de=gold", "bidir=bidir=gold"]
    arguments = [*score(*cells), "--out", "metrics.json", "--journal", "j", "--about", json.dumps(ABOUT)]
    assert main(arguments) == 0
    result = json.loads((linked / "metrics.json").read_text())
    assert {key: value for key, value in result.items() if key != "rows"} == {
        **ABOUT,
        "seed": 2,
        "sentences": 3,
        "interval": {"level": 95, "samples": 50, "seed": 1},
    }
    rows = {(row["method"], row["extraction"], row["links"]): row for row in result["rows"]}
    links = ("de-en", "en-de", "grow-diag", "grow-diag-final-lilt")
    methods = ("ding_grad", SMOOTH)
    assert set(rows) == {(m, e, n) for m in methods for e in ("ding", "kobayashi") for n in links}
    assert len(result["rows"]) == len(rows)
    row = rows["ding_grad", "ding", "de-en"]
    # Links 0-1 1-0 1-1, sure 1-0 0-1: AER = 1 - (2 + 2) / (3 + 2).
    expected = {"aer": 20.0, "precision": 66.6667, "recall": 100.0, "f1": 80.0, "links_count": 3, "sure": 2}
    assert {key: row[key] for key in expected} == expected
    assert (row["possible"], row["kind"], row["name"]) == (2, "direction", "ding_grad")
    assert row["aer_low"] <= row["aer"] <= row["aer_high"]
    entropies = json.loads((linked / "de-en/entropy.json").read_text())["ding_grad"]
    assert (row["entropy"], row["entropy_rows"]) == (entropies["sentence_mean"], entropies["row_mean"])
    smooth = rows[SMOOTH, "kobayashi", "grow-diag-final-lilt"]
    assert smooth["parameters"] == parse(SMOOTH).parameters
    assert smooth["parameters"]["sigma"] == 0.05
    assert (smooth["kind"], smooth["entropy"], smooth["entropy_rows"]) == ("symmetrised", None, None)
    runs = {run.name: run for run in read_journal(linked / "j")}
    assert len(runs) == 2 * 2 * 3  # methods, extractions, and two directions and their combinations
    run = runs["de-en · transformer · s2 · ding_grad · forced"]
    assert (run.experiment, run.group, run.status) == ("attribution", "toy", "FINISHED")
    assert run.tags == {
        **{key: ABOUT[key] for key in ("dataset", "model", "architecture", "seed", "decoding", "study")},
        "pair": "de-en",
        "direction": "de-en",
        "links": "de-en",
        "method": "ding_grad",
        "method_name": "ding_grad",
        "extraction": "ding",
        "kind": "direction",
    }
    axes = {"model": "transformer", "decoding": "forced", "direction": "de-en", "extraction": "ding"}
    assert run.params == {**axes, "method": "ding_grad", **parse("ding_grad").parameters}
    assert run.latest["aer"] == 20.0
    assert run.latest["entropy"] == pytest.approx(entropies["sentence_mean"])
    other = runs[f"de-en bidir · transformer · s2 · {SMOOTH} · forced · kobayashi"]
    assert (other.tags["direction"], other.tags["links"]) == ("bidir", "grow-diag-final-lilt")
    assert other.latest["aer"] == other.latest["aer grow-diag-final-lilt"] == smooth["aer"]
    assert other.latest["aer grow-diag"] == rows[SMOOTH, "kobayashi", "grow-diag"]["aer"]
    assert "entropy" not in other.latest


def test_parts_of_the_scores_are_together_the_bytes_of_one_run(
    linked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ["de-en=de-en=gold", "en-de=en-de=gold", "bidir=bidir=gold"]
    about = ["--about", json.dumps(ABOUT)]
    whole = ["--out", "whole.json", "--sentences", "whole.npz", "--journal", "whole.jsonl"]
    assert main([*score(*cells), *whole, *about]) == 0
    for parts in (3, 20):  # more parts than the 16 files: some are empty
        names = [f"{number}.json" for number in range(1, parts + 1)]
        for number, name in enumerate(names, start=1):
            part = ["--shard", f"{number}/{parts}", "--sentences", f"{number}.npz", "--journal", "j", "--about"]
            assert main([*score(*cells), "--out", name, *part, json.dumps({**ABOUT, "shard": str(number)})]) == 0
            (run,) = read_journal(linked / "j")
            assert run.name == f"toy · transformer · s2 · score-part · forced · part {number}"
        gathered = ["score-methods", "--gather", *reversed(names), "--out", "gathered.json", "--journal", "j", *about]
        gathered += ["--gather-sentences", *(name.replace("json", "npz") for name in names), "--sentences", "all.npz"]
        assert main(gathered) == 0
        assert (linked / "gathered.json").read_bytes() == (linked / "whole.json").read_bytes()
        assert (linked / "all.npz").read_bytes() == (linked / "whole.npz").read_bytes()
        assert [run.latest["aer"] for run in read_journal(linked / "j")] == [
            run.latest["aer"] for run in read_journal(linked / "whole.jsonl")
        ]
    for wrong, message in (
        (["--gather", "1.json", "2.json"], "1.json: is part 1 of 20, but 2 files were given. Give every part once."),
        (["--gather", "whole.json"], "whole.json: not a part of a table. Make it with --shard K/N."),
        (["--gather", "1.json", "--sentences", "x"], "--sentences and --gather-sentences go together"),
        (["--gather", "1.json", "--cell", cells[0]], "--gather only puts parts together; leave out --cell"),
        (["--shard", "1/2"], "--cell missing (only --gather works without)"),
        (["--cell", cells[0], "--shard", "3/2"], "--shard 3/2: not K/N with K from 1 to N"),
    ):
        capsys.readouterr()
        assert main(["score-methods", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_the_counts_of_sentences_are_those_of_the_rows(linked: Path) -> None:
    arguments = [*score("de-en=de-en=gold", "bidir=bidir=gold"), "--out", "metrics.json", "--sentences", "s.npz"]
    assert main(arguments) == 0
    rows = json.loads((linked / "metrics.json").read_text())["rows"]
    found = read_sentences(linked / "s.npz")
    assert found.names == tuple(map(row_name, rows))
    assert found.names[0] == "ding_grad.ding.de-en"
    for row, counts, entropies in zip(rows, found.counts, found.entropies, strict=True):
        assert Counts(counts).scores().aer == pytest.approx(row["aer"], abs=1e-4)
        if row["kind"] == "direction":
            assert np.nanmean(entropies) == pytest.approx(row["entropy"], abs=1e-6)
        else:
            assert np.isnan(entropies).all()
    # A verb for links of any origin writes the same.
    path = "de-en/ding_grad.ding.pharaoh"
    assert main(["score", "--gold", "gold", "--links", path, "--samples", "50", "--sentences", "alone.npz"]) == 0
    alone = read_sentences(linked / "alone.npz")
    assert (alone.names, alone.counts.tolist()) == (("ding_grad.ding",), found.counts[:1].tolist())
    (linked / "de-en/entropies.npz").unlink()
    (linked / "de-en/seal.json").unlink()
    assert main(arguments) == 2


def test_score_methods_agrees_with_score(linked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*score("de-en=de-en=gold"), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)["rows"]
    for row in table:
        path = f"de-en/{row['method']}.{row['extraction']}.pharaoh"
        assert main(["score", "--gold", "gold", "--links", path, "--samples", "50", "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        keys = ("aer", "aer_low", "aer_high", "precision", "recall", "f1", "links_count", "sure", "possible")
        assert {key: row[key] for key in keys} == {key: alone[key] for key in keys}


def test_score_methods_against_a_reference_of_its_own_per_direction(
    linked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (linked / "other").write_text("0p0 0-1\n\n\n")
    assert main([*score("de-en=de-en=gold", "en-de=en-de=other"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {(row["links"], row["sure"]) for row in rows} == {("de-en", 2), ("en-de", 1)}
    assert main(score("de-en=de-en=gold")) == 0
    shown = capsys.readouterr().out
    assert "ding_grad.ding  de-en" in shown
    assert " 20.00 " in shown


def test_score_methods_refuses_what_would_be_silently_wrong(linked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected NAME=DIR=GOLD" in failed_with(capsys, *score("de-en=gold"))
    assert "two folders have links 'de-en' of" in failed_with(capsys, *score("de-en=de-en=gold", "de-en=en-de=gold"))
    assert "nowhere: no such folder" in failed_with(capsys, *score("de-en=nowhere=gold"))
    assert "nowhere: no such file" in failed_with(capsys, *score("de-en=de-en=nowhere"))
    (linked / "short").write_text("0-0\n")
    told = failed_with(capsys, *score("de-en=de-en=short"))
    assert "de-en/ding_grad.ding.pharaoh:2: 3 lines, but short has 1" in told
    links = linked / "de-en/ding_grad.ding.pharaoh"
    whole = links.read_text()
    links.write_text("99-1\n\n\n")
    assert "ding_grad.ding.pharaoh: damaged: " in failed_with(capsys, *score("de-en=de-en=gold"))
    (linked / "de-en/seal.json").unlink()
    told = failed_with(capsys, *score("de-en=de-en=gold"))
    assert "ding_grad.ding.pharaoh:1: link 99-1 is out of range (2 source and 2 target words)" in told
    links.write_text(whole)
    (linked / "de-en/entropy.json").write_text('{"ding_grad": {}}')
    assert f"entropy.json: says nothing about {SMOOTH}" in failed_with(capsys, *score("de-en=de-en=gold"))
    (linked / "de-en/entropy.json").unlink()
    assert "de-en/entropy.json: no such file" in failed_with(capsys, *score("de-en=de-en=gold"))
    (linked / "bidir/diing_grad.ding.union.pharaoh").write_text("\n\n\n")
    told = failed_with(capsys, *score("bidir=bidir=gold"))
    assert "diing_grad.ding.union.pharaoh: was not written with this folder of links" in told
    (linked / "bidir/seal.json").unlink()
    assert "did you mean ding_grad" in failed_with(capsys, *score("bidir=bidir=gold"))
    (linked / "en-de/seal.json").unlink()
    (linked / "en-de/attention.pharaoh").write_text("\n\n\n")
    assert "attention.pharaoh: its name is not one of" in failed_with(capsys, *score("en-de=en-de=gold"))


@pytest.mark.parametrize("verb", ["extract", "reference", "score_methods", "symmetrize"])
def test_a_short_step_does_not_load_what_it_does_not_use(verb: str) -> None:
    heavy = {"torch", "mlflow", "pandas", "matplotlib", "snakemake", "thot", "sacrebleu", "sentencepiece"}
    code = f"import sys, alignlens.cli.{verb}\nassert not {heavy!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
