"""Marian models as ``transformers`` has them, and as we read them: the same numbers, pieces and translations."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
from marian_folder import LINES, configured, run, spoken, without, write_folder
from transformers import MarianMTModel, MarianTokenizer

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse_all
from alignlens.corpora.symbols import BEGIN_ID
from alignlens.decoding.given import Given
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import TrainedModel, translate
from alignlens.errors import AlignlensError, ConfigError, InputError
from alignlens.models.families.folder import Imported, Languages
from alignlens.models.families.marian import load
from alignlens.subwords.spans import word_of_piece

LENGTHS = (7, 4)


def load_marian(folder: Path) -> Imported:
    return load(folder, Languages())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("marian") / "opus-mt-xa-xb"
    write_folder(place)
    return place


@pytest.fixture(scope="module")
def theirs(folder: Path) -> MarianMTModel:
    return MarianMTModel.from_pretrained(folder, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def ours(folder: Path) -> TrainedModel:
    return TrainedModel.load(folder)


def batch(model: MarianMTModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns Marian's ids of a padded source, its mask, and of a prefix that begins with padding."""
    torch.manual_seed(1)
    config = model.config
    source, prefix = torch.randint(2, config.vocab_size - 1, (2, 7)), torch.randint(2, config.vocab_size - 1, (2, 5))
    mask = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
    source[~mask], prefix[:, 0] = config.pad_token_id, config.decoder_start_token_id
    return source, mask, prefix


def own_ids(rows: tuple[int, ...], ids: torch.Tensor) -> torch.Tensor:
    """Returns our ids of Marian's; what begins a prefix has two, and the second, for padding, is as good."""
    number = {row: place for place, row in enumerate(rows)}
    return torch.tensor([[number[int(each)] for each in row] for row in ids])


@pytest.mark.parametrize("changes", [{}, {"activation_function": "relu"}, {"activation_function": "gelu"}])
@pytest.mark.parametrize("pickled", [False, True])
def test_logits_and_attention_are_those_of_transformers(tmp_path: Path, changes: dict[str, Any], pickled: bool) -> None:
    model = write_folder(tmp_path, pickled, **changes)
    model.set_attn_implementation("eager")
    found = load_marian(tmp_path)
    source, mask, prefix = batch(model)
    read, begun = own_ids(found.source.rows, source), own_ids(found.target.rows, prefix)
    begun[:, 0] = BEGIN_ID
    with torch.no_grad():
        given = {"input_ids": source, "attention_mask": mask, "decoder_input_ids": prefix}
        expected = model(**given, output_attentions=True)
        memory = found.model.encode(found.model.embed_source(read), mask)
        decoded = found.model.decode(memory, found.model.embed_target(begun), trace=True)
        logits = found.model.logits(decoded.states)
    # The row of padding, which begins a prefix, has two ids; the first is never predicted, so probabilities agree.
    order = [found.target.rows.index(row, 2) for row in range(model.config.vocab_size) if row != 1]
    rows = [row for row in range(model.config.vocab_size) if row != 1]
    torch.testing.assert_close(logits[..., order], expected.logits[..., rows], rtol=0, atol=1e-5)
    torch.testing.assert_close(
        logits.log_softmax(-1)[..., order], expected.logits.log_softmax(-1)[..., rows], rtol=0, atol=1e-5
    )
    for layer, weights in zip(decoded.cross, expected.cross_attentions, strict=True):
        torch.testing.assert_close(layer.weights, weights, rtol=0, atol=1e-5)


def test_gradients_are_those_of_autograd_through_transformers(ours: TrainedModel, theirs: MarianMTModel) -> None:
    source, target = "ba du the cat", "Le chat dort ."
    read, written = ours.source.segment(source).ids, ours.target.segment(target).ids
    (_, found), *_ = attribute(ours.model, [read], [written], parse_all(["grad_input"]))
    rows = load_marian(ours.folder).source.rows
    end, scale = theirs.config.eos_token_id, theirs.config.d_model**0.5
    vectors = theirs.model.shared(torch.tensor([[*(rows[each] for each in read), end]])).detach() * scale
    vectors.requires_grad_()
    labels = [*(rows[each] for each in written), end]
    prefix = torch.tensor([[theirs.config.decoder_start_token_id, *labels[:-1]]])
    for step, label in enumerate(labels):
        logits = theirs(inputs_embeds=vectors, decoder_input_ids=prefix).logits
        log_p = logits[0, step].log_softmax(-1)[label]
        (gradient,) = torch.autograd.grad(log_p, vectors)
        expected = (gradient * vectors).sum(-1)[0].detach().numpy()
        np.testing.assert_allclose(found["grad_input"][step], expected, atol=1e-4)


def test_every_method_for_transformers_works(ours: TrainedModel) -> None:
    methods = parse_all(
        ["attention,layer=1,head=0,step=in", "norms", "probe", "lrp", "ding_smoothgrad,n=2", "smoothed_attention,n=2"]
    )
    read, written = ours.source.segment(LINES[1]).ids, ours.target.segment(LINES[0]).ids
    ((_, found),) = attribute(ours.model, [read], [written], methods)
    for method in methods:
        assert found[method.text].shape == (len(written) + 1, len(read) + 1)
        assert np.isfinite(found[method.text]).all()


def test_pieces_are_those_of_the_tokenizer(folder: Path, ours: TrainedModel) -> None:
    tokenizer = MarianTokenizer.from_pretrained(folder)
    rows = load_marian(folder).source.rows
    for line in spoken(1, 50):
        assert [rows[each] for each in ours.source.segment(line).ids] == tokenizer(line).input_ids[:-1]


@pytest.mark.parametrize(
    "line",
    [
        "½ ﬁx … ",
        "a▁b c",
        "▁ x ▁▁",
        "¨ ´ x",
        "漢字 ba 漢 du",
        "\u200b ba \u200b",
        "<unk> </s> <pad> ba",
        ">>xx<< ba",
        "\u00a0 a\u00a0b",
    ],
)
def test_every_word_has_pieces_of_its_own(ours: TrainedModel, line: str) -> None:
    words = [word for word in line.split(" ") if word]
    found = ours.source.segment(line)
    assert found.word_of_piece == word_of_piece(ours.source.pieces_of(found.ids))
    assert sorted(set(found.word_of_piece)) == list(range(len(words)))
    assert ours.source.pieces_of(found.ids) == found.pieces


def test_a_language_code_is_one_piece_and_one_word(tmp_path: Path) -> None:
    write_folder(tmp_path, languages=(">>xb<<",))
    segmenter = TrainedModel.load(tmp_path).source
    found = segmenter.segment(">>xb<< ba du")
    assert found.pieces[0] == ">>xb<<"
    assert found.word_of_piece == word_of_piece(found.pieces)
    assert found.word_of_piece[0] == 0
    assert found.word_of_piece[1] == 1


def test_translations_are_those_of_transformers(ours: TrainedModel, theirs: MarianMTModel, folder: Path) -> None:
    tokenizer = MarianTokenizer.from_pretrained(folder)
    line = "ba du ge the cat"
    given = tokenizer([line], return_tensors="pt")
    padding, unknown = theirs.config.pad_token_id, 1
    words = theirs.generate(
        **given, num_beams=1, do_sample=False, max_new_tokens=12, bad_words_ids=[[unknown], [padding]]
    )[0]
    rows = load_marian(folder).target.rows
    read = ours.source_ids(Given("text", [line]))
    (found,) = translate(ours.model, read, BeamSettings(beam=1, max_ratio=1.0, max_offset=40))
    expected = [int(each) for each in words[1:] if int(each) != theirs.config.eos_token_id][:11]
    assert len(expected) > 5
    assert [rows[each] for each in found.ids][: len(expected)] == expected


def test_verbs_take_the_folder(folder: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("ba du\nthe cat 漢\n"), target.write_text("Le chat\ndort .\n")
    links = run("align", "--model", folder, "--method", "attention", "--source", source, "--target", target)
    assert links.returncode == 0, links.stderr
    assert [len(line.split()) >= 2 for line in links.stdout.splitlines()] == [True, True]
    translated = run("translate", "--model", folder, "--source", source, "--max-ratio", "1")
    assert translated.returncode == 0, translated.stderr
    assert len(translated.stdout.splitlines()) == 2


def test_a_text_in_the_pieces_of_an_imported_model_is_what_the_model_reads(folder: Path, tmp_path: Path) -> None:
    """The pipeline segments text for such a model once; every verb reads that store."""
    made, text = tmp_path / "model", tmp_path / "text"
    text.write_text("\n".join(LINES) + "\n")
    about = {"preset": "p", "dataset": "d", "direction": "xa-xb", "model": "opus", "seed": "1"}
    told = ("--journal", tmp_path / "journal.jsonl", "--about", json.dumps(about))
    assert run("model", "import", "--model", folder, "--out", made, *told).returncode == 0
    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert any(line.get("name") == "d · xa-xb · opus · s1 · import models" for line in journal)
    for side in ("source", "target"):
        stored = ("--out", tmp_path / f"{side}.pieces", "--tokens", tmp_path / side)
        done = run("subwords", "segment", "--model", made / f"{side}.model", "--input", text, *stored)
        assert done.returncode == 0, done.stderr
    forced = ["force", "--model", made, "--json", "--source"]
    by_store = run(*forced, tmp_path / "source", "--target", tmp_path / "target")
    assert by_store.returncode == 0, by_store.stderr
    assert json.loads(by_store.stdout) == json.loads(run(*forced, text, "--target", text).stdout)
    # Another model, with the same SentencePiece files and its pieces in another order, refuses the store.
    vocabulary = made / "source.vocabulary.json"
    pieces = json.loads(vocabulary.read_text())["pieces"]
    (made / "seal.json").unlink(), vocabulary.write_text(json.dumps({"pieces": [*pieces[:4], *pieces[:3:-1]]}))
    refused = run(*forced, tmp_path / "source", "--target", tmp_path / "target")
    assert (refused.returncode, "its pieces are not those of" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (without("source.spm"), "source.spm: no such SentencePiece model"),
        (without("vocab.json"), "vocab.json: no such file"),
        (without("model.safetensors"), "neither model.safetensors nor pytorch_model.bin"),
        (lambda place: (place / "source.spm").write_bytes(b"no model"), "source.spm"),
        (lambda place: (place / "model.safetensors").write_bytes(b"no weights"), "damaged, or not a file of weights"),
        (lambda place: (place / "vocab.json").write_text('{"a": 0}'), "'<unk>' is missing"),
        (configured(model_type="fsmt"), "models of type 'fsmt' are not supported; supported are: marian"),
        (configured(normalize_before=True), "norms before the layers are not supported"),
        (configured(activation_function="mish"), "activation_function 'mish' is not supported"),
        (configured(decoder_ffn_dim=25), "not supported"),
        (configured(d_model=24), "model.safetensors"),
        (configured(encoder_layers=3), "encoder.layers.2"),
    ],
)
def test_a_bad_folder_is_one_line(folder: Path, tmp_path: Path, damage: Any, told: str) -> None:
    place = tmp_path / "copy"
    shutil.copytree(folder, place)
    damage(place)
    with pytest.raises(AlignlensError) as caught:
        TrainedModel.load(place)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_and_checkpoints_that_are_not_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only one checkpoint"):
        TrainedModel.load(folder, "best")
    with pytest.raises(InputError, match="not a model folder"):
        TrainedModel.load(tmp_path)
    with pytest.raises(InputError, match="no such folder here, and it could not be fetched from the hub"):
        TrainedModel.load("nobody/nothing-of-the-kind")


def test_a_name_of_the_hub_is_read_from_its_cache_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, repository = "0" * 40, tmp_path / "models--somebody--opus-mt-xa-xb"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert TrainedModel.load("somebody/opus-mt-xa-xb").folder == repository / "snapshots" / commit


def test_markup_is_carried_over_to_translations(folder: Path, tmp_path: Path) -> None:
    source, target, tagged = tmp_path / "source.txt", tmp_path / "target.txt", tmp_path / "tagged.txt"
    source.write_text("<b>ba du</b> ge\n\nlo <x id='1'/> mu\n")
    target.write_text("Le chat\n\ndort .\n")
    asked = ["--model", folder, "--method", "attention", "--source", source, "--out", tmp_path / "links"]
    for more in (["--target", target], ["--max-ratio", "1", "--translation-out", tmp_path / "plain"]):
        done = run("align", *asked, "--tags", tagged, *more)
        assert done.returncode == 0, done.stderr
        first, second, third = tagged.read_text().splitlines()
        assert (first.count("<b>"), first.count("</b>"), second, third.count("<x id='1'/>")) == (1, 1, "", 1)
    assert [re.sub("<[^>]*>", "", line).split() for line in (first, second, third)] == [
        line.split() for line in (tmp_path / "plain").read_text().splitlines()
    ]
    source.write_text("fine\n<b>never closed\nfine\n")
    done = run("align", *asked, "--tags", tagged)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "source.txt:2: <b> is never closed" in done.stderr
