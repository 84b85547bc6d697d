"""Folders of other families: what the name of a model says, what a folder must have, and what is told of a bad one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
pytest.importorskip("tokenizers", reason="the library of Hugging Face tokenizers is not installed")
from foreign_folders import WRITERS, bart, nllb, subwords
from marian_folder import LINES, configured, run, without
from transformers import AutoTokenizer

from alignlens.decoding.translate import TrainedModel
from alignlens.errors import AlignlensError
from alignlens.models.hub import SUPPORTED, load_foreign


@pytest.mark.parametrize("family", ["nllb", "bart"])
def test_verbs_take_the_name(family: str, tmp_path: Path) -> None:
    (tmp_path / family).mkdir()
    name = f"{tmp_path / family}{WRITERS[family](tmp_path / family).name}"
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("ba du\nthe cat 漢\n"), target.write_text("Le chat\ndort .\n")
    links = run("align", "--model", name, "--method", "attention", "--source", source, "--target", target)
    assert links.returncode == 0, links.stderr
    for line in links.stdout.splitlines():
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        assert pairs
        assert max(max(pair) for pair in pairs) <= 2
    translated = run("translate", "--model", name, "--source", source, "--max-ratio", "1")
    assert translated.returncode == 0, translated.stderr
    assert len(translated.stdout.splitlines()) == 2


def of_another_model(place: Path) -> None:
    """Puts the subwords of another text there."""
    subwords(place / "sentencepiece.bpe.model", lines=[f"{word} zzyx qqvw" for word in ("xkcd", "wvut", "yzqx")] * 40)


def nothing(place: Path) -> None:
    """Leaves a folder as it is."""


@pytest.mark.parametrize(
    ("family", "name", "damage", "told"),
    [
        ("nllb", "", nothing, "the language of the source is not known"),
        ("nllb", "#eng-fra_Latn", nothing, "codes: eng_Latn"),
        ("nllb", "#eng_Latn-fra_Latn", without("sentencepiece.bpe.model"), "no such SentencePiece model"),
        ("nllb", "#eng_Latn-fra_Latn", without("model.safetensors"), "has no weights"),
        ("nllb", "#eng_Latn-fra_Latn", configured(vocab_size=999), "expected"),
        ("m2m100", "#de-qq", nothing, "no language 'qq' for the target"),
        ("m2m100", "#de-fr", configured(decoder_ffn_dim=25), "not supported"),
        ("mbart", "#en_XX-sv_SE", nothing, "no language 'sv_SE' for the target; the closest of its 25"),
        ("mbart", "#en_XX-ro_RO", configured(max_position_embeddings=9), "source_entry.positions.table"),
        ("mbart_50", "#en_XX-sv_SE", configured(encoder_layers=1), "encoder.layers.1"),
        ("bart", "#en-fr", nothing, "BART models have no language codes"),
        ("bart", "", without("merges.txt"), "neither vocab.json with merges.txt nor tokenizer.json"),
        ("bart", "", lambda place: (place / "vocab.json").write_text('{"a": 0}'), "'<unk>' is missing"),
        ("bart", "", lambda place: (place / "merges.txt").write_text("no merge\n"), "damaged, or not byte-level BPE"),
        ("bart", "", configured(normalize_before=True), "BART models with norms before the layers are not supported"),
        ("bart", "", configured(model_type="mbart"), "no such SentencePiece model"),
        ("t5", "#en-fr", nothing, "T5 models have no language codes"),
        ("t5", "", without("spiece.model"), "no such SentencePiece model"),
        ("t5", "", lambda place: (place / "spiece.model").write_bytes(b"no model"), "spiece.model"),
        ("t5", "", configured(feed_forward_proj="gated-mish"), "feed_forward_proj 'gated-mish' is not supported"),
        ("t5", "", configured(feed_forward_proj="gated-gelu"), "wi_0.weight' is missing"),
        ("t5", "", configured(num_layers=1), "encoder.block.1 is beyond the layers"),
        ("t5", "", configured(vocab_size=100), "leave no row free"),
        ("t5_gated", "", configured(d_kv=7), "expected"),
        ("m2m100", "#de-fr", of_another_model, "most of its pieces are not in the vocabulary of this model"),
        ("nllb", "#eng_Latn-fra_Latn", configured(vocab_size=200), "they belong to another model"),
        ("mbart", "#en_XX-ro_RO", configured(vocab_size=2000), "they belong to another model"),
        ("t5", "", configured(vocab_size=5000), "they belong to another model"),
        ("bart", "", configured(vocab_size=300), "they belong to another model"),
        ("bart", "", configured(model_type="pegasus"), f"supported are: {', '.join(SUPPORTED)}"),
    ],
)
def test_a_bad_folder_is_one_line(family: str, name: str, damage: Any, told: str, tmp_path: Path) -> None:
    WRITERS[family](tmp_path)
    damage(tmp_path)
    with pytest.raises(AlignlensError) as caught:
        TrainedModel.load(f"{tmp_path}{name}")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_name_ends_a_verb_with_two(tmp_path: Path) -> None:
    nllb(tmp_path)
    (tmp_path / "text").write_text("ba\n")
    done = run("translate", "--model", f"{tmp_path}#eng_Latn-frr", "--source", tmp_path / "text")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_the_folder_may_say_which_languages(tmp_path: Path) -> None:
    nllb(tmp_path)
    told = TrainedModel.load(f"{tmp_path}#deu_Latn-ron_Latn")
    config = {"tokenizer_class": "NllbTokenizer", "src_lang": "deu_Latn"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    row = load_foreign(f"{tmp_path}#deu_Latn-ron_Latn")[0].target.rows[told.model.frame.target[-1]]
    (tmp_path / "generation_config.json").write_text(json.dumps({"forced_bos_token_id": row}))
    found = TrainedModel.load(tmp_path)
    assert found.model.frame == told.model.frame
    assert found.checksum == told.checksum
    assert TrainedModel.load(f"{tmp_path}#deu_Latn-fra_Latn").checksum != told.checksum


def test_tokenizer_json_says_the_same(tmp_path: Path) -> None:
    bart(tmp_path)
    expected = TrainedModel.load(tmp_path).source
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path / "saved")
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "saved" / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    found = TrainedModel.load(tmp_path).source
    assert found.checksum == expected.checksum
    assert [found.segment(line) for line in LINES] == [expected.segment(line) for line in LINES]


def test_loading_does_not_import_transformers(tmp_path: Path) -> None:
    name = f"{tmp_path}{nllb(tmp_path).name}"
    code = (
        "import sys; from alignlens.decoding.translate import TrainedModel; "
        f"TrainedModel.load({name!r}); assert 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search("Traceback", done.stderr)
