"""Families of translation models as ``transformers`` has them, and as we read them: one test for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
pytest.importorskip("tokenizers", reason="the library of Hugging Face tokenizers is not installed")
from foreign_folders import WRITERS, Written, nllb
from marian_folder import LINES, run, spoken
from transformers import AutoTokenizer

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.registry import parse_all
from alignlens.decoding.exchange import export_model, import_model
from alignlens.decoding.forced import force_all
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.decoding.translate import TrainedModel, decode, translate
from alignlens.errors import AlignlensError
from alignlens.models.hub import load_foreign
from alignlens.models.transformer import Transformer
from alignlens.subwords.spans import join, word_of_piece

SOURCES, TARGETS = ["ba du ge lo the cat", "Le chat dort ."], ["Le chat", "the cat sleeps on the mat ."]
#: As a corpus is attributed, two sentences of different lengths side by side.
EVERY = ["norms", "probe", "rollout", "occlusion", "ding_smoothgrad,n=2"]


class Case:
    """A family's folder: the model of ``transformers``, and ours."""

    def __init__(self, folder: Path, write: Callable[..., Written]) -> None:
        folder.mkdir()
        self.folder = folder
        self.theirs = write(folder)
        self.theirs.model.set_attn_implementation("eager")
        self.name = f"{folder}{self.theirs.name}"
        self.imported, _ = load_foreign(self.name)
        self.ours = TrainedModel.load(self.name)

    def read(self, lines: list[str]) -> list[list[int]]:
        return [self.ours.source.segment(line).ids for line in lines]

    def written(self, lines: list[str]) -> list[list[int]]:
        return [self.ours.target.segment(line).ids for line in lines]

    def source_rows(self, ids: list[int]) -> list[int]:
        """Returns what their encoder reads."""
        return [*self.theirs.before, *(self.imported.source.rows[each] for each in ids), *self.theirs.after]

    def labels(self, ids: list[int]) -> list[int]:
        """Returns what their decoder is to predict."""
        end = self.imported.target.rows[2]
        return [*(self.imported.target.rows[each] for each in ids), end]

    def prefix_rows(self, ids: list[int]) -> list[int]:
        return [*self.theirs.start, *self.labels(ids)[:-1]]

    def outputs(self, read: list[int], written: list[int], **more: Any) -> Any:
        """Returns what they compute of one pair."""
        prefix = torch.tensor([self.prefix_rows(written)])
        return self.theirs.model(torch.tensor([self.source_rows(read)]), decoder_input_ids=prefix, **more)

    @property
    def lead(self) -> int:
        return len(self.theirs.start) - 1

    def columns(self, matrix: torch.Tensor) -> torch.Tensor:
        """Returns scores (..., their source) with what stands around the pieces where ours have it."""
        return matrix.roll(1, -1) if len(self.theirs.after) == 2 else matrix


@pytest.fixture(scope="module", params=WRITERS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("family") / request.param, WRITERS[request.param])


def test_forced_scores_are_those_of_transformers(case: Case) -> None:
    read, written = case.read(SOURCES), case.written(TARGETS)
    found = force_all(
        case.ours.model,
        read,
        written,
        vocabulary=case.ours.spec.target_vocab,
        source_begin=case.ours.spec.source_begin,
    )
    for place, ids in enumerate(written):
        with torch.no_grad():
            logits = case.outputs(read[place], ids).logits[0, case.lead :]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(case.labels(ids))[:, None])[:, 0]
        np.testing.assert_allclose(found.log_probs[place], expected.numpy(), atol=1e-4)


def test_logits_are_those_of_transformers(case: Case) -> None:
    from alignlens.corpora.batches import make_batch
    from alignlens.decoding.sentences import stored

    read, written = case.read(SOURCES), case.written(TARGETS)
    batch = make_batch(stored(read), stored(written), np.arange(2), case.ours.spec.source_begin)
    batch = batch.framed(case.ours.model.frame)
    model = case.ours.model
    with torch.no_grad():
        arrays = (torch.from_numpy(each) for each in (batch.source, batch.source_mask, batch.prefix))
        logits = model(*arrays)
    order = list(case.imported.target.rows)
    for place, ids in enumerate(written):
        with torch.no_grad():
            expected = case.outputs(read[place], ids).logits[0][:, order]
        torch.testing.assert_close(logits[place, : len(expected)], expected, rtol=0, atol=1e-4)


def test_attention_is_that_of_transformers(case: Case) -> None:
    places = [(layer, head) for layer in range(3) for head in range(2)]
    methods = parse_all([f"attention,layer={layer},head={head}" for layer, head in places])
    read, written = case.read(SOURCES), case.written(TARGETS)
    begin = case.ours.spec.source_begin
    for place, found in attribute(case.ours.model, read, written, methods, source_begin=begin):
        with torch.no_grad():
            layers = case.outputs(read[place], written[place], output_attentions=True).cross_attentions
        for method, (layer, head) in zip(methods, places, strict=True):
            weights = layers[layer][0, head, case.lead :]
            np.testing.assert_allclose(found[method.text], case.columns(weights).numpy(), atol=1e-5)


def test_gradients_are_those_of_autograd_through_transformers(case: Case) -> None:
    read, written = case.read(SOURCES), case.written(TARGETS)
    model, begin = case.theirs.model, case.ours.spec.source_begin
    for place, found in attribute(case.ours.model, read, written, parse_all(["grad_input"]), source_begin=begin):
        embedded = model.get_encoder().embed_tokens(torch.tensor([case.source_rows(read[place])]))
        vectors = embedded.detach().requires_grad_()
        prefix = torch.tensor([case.prefix_rows(written[place])])
        logits = model(inputs_embeds=vectors, decoder_input_ids=prefix).logits[0, case.lead :]
        for step, label in enumerate(case.labels(written[place])):
            log_p = logits[step].log_softmax(-1)[label]
            (gradient,) = torch.autograd.grad(log_p, vectors, retain_graph=True)
            expected = case.columns((gradient * vectors).sum(-1)[0].detach())
            np.testing.assert_allclose(found["grad_input"][step], expected.numpy(), rtol=1e-4, atol=1e-4)


def test_the_engine_is_the_fast_one_for_what_became_a_transformer(case: Case) -> None:
    is_ours = type(case.ours.model) is Transformer
    assert isinstance(source_gradients(case.ours.model), AutogradGradients) != is_ours


def test_every_method_gives_scores_of_pieces_and_end(case: Case) -> None:
    names = [*EVERY, "alti", "value_zeroing", *(["lrp"] if isinstance(case.ours.model, Transformer) else [])]
    methods = parse_all(names)
    read, written = case.read(SOURCES), case.written(TARGETS)
    begin = case.ours.spec.source_begin
    for place, found in attribute(case.ours.model, read, written, methods, source_begin=begin):
        rows, columns = len(written[place]) + 1, len(read[place]) + 1 + begin
        for method in methods:
            assert found[method.text].shape == (rows, columns)
            assert np.isfinite(found[method.text]).all()
            if len(method.matrices) == 2:
                prefix = found[method.matrices[1]]
                assert prefix.shape == (rows, rows)
                np.testing.assert_allclose(found[method.text].sum(1) + prefix.sum(1), 1, atol=1e-4)


def test_pieces_are_those_of_the_tokenizer(case: Case) -> None:
    tokenizer = AutoTokenizer.from_pretrained(case.folder)
    around = len(case.theirs.before), len(case.theirs.after)
    for line in spoken(1, 50):
        expected = tokenizer(line).input_ids
        expected = expected[around[0] : len(expected) - around[1]]
        assert [case.imported.source.rows[each] for each in case.ours.source.segment(line).ids] == expected


@pytest.mark.parametrize(
    "line",
    ["½ ﬁx … ", "a▁b c", "▁ x ▁▁", "漢字 ba 漢 du", "<unk> </s> <pad> ba <s>", "\u00a0 a\u00a0b", "it 's don't 12a"],
)
def test_every_word_has_pieces_of_its_own(case: Case, line: str) -> None:
    words = [word for word in line.split(" ") if word]
    found = case.ours.source.segment(line)
    assert found.word_of_piece == word_of_piece(case.ours.source.pieces_of(found.ids))
    assert sorted(set(found.word_of_piece)) == list(range(len(words)))
    assert not {1, 2, 3} & set(found.ids)
    if "bart" in case.folder.name and "mbart" not in case.folder.name:
        assert join(found.pieces) == " ".join(words)


def test_translations_are_those_of_transformers(case: Case) -> None:
    (read,) = case.read(SOURCES[:1])
    never = [[case.imported.target.rows[each]] for each in (0, 1, 3)]
    words = case.theirs.model.generate(
        torch.tensor([case.source_rows(read)]),
        decoder_input_ids=torch.tensor([case.theirs.start]),
        decoder_start_token_id=case.theirs.start[0],
        num_beams=1,
        do_sample=False,
        max_new_tokens=10,
        bad_words_ids=never,
        forced_bos_token_id=None,
        forced_eos_token_id=None,
        use_cache=False,  # T5 cannot cache with a decoder deeper than its encoder
    )[0].tolist()
    begin = case.ours.spec.source_begin
    (found,) = translate(case.ours.model, [read], BeamSettings(beam=1, max_ratio=1.0, max_offset=8), source_begin=begin)
    expected = [each for each in words[len(case.theirs.start) :] if each != case.imported.target.rows[2]]
    assert min(len(expected), len(found.ids)) > 3
    assert [case.imported.target.rows[each] for each in found.ids][: len(expected)] == expected[: len(found.ids)]
    (draws,) = decode(case.ours.model, [read], SamplingSettings(samples=2, max_offset=3), source_begin=begin)
    for draw in draws:
        forced = force_all(
            case.ours.model, [read], [list(draw.ids)], vocabulary=case.ours.spec.target_vocab, source_begin=begin
        )
        assert draw.log_prob == pytest.approx(float(forced.log_probs[0].sum()), abs=1e-3)


def test_an_imported_folder_is_a_model_of_ours(case: Case, tmp_path: Path) -> None:
    import_model(case.ours, tmp_path / "ours")
    again = TrainedModel.load(tmp_path / "ours")
    assert again.spec == case.ours.spec
    assert again.model.frame == case.ours.model.frame
    for line in [*LINES, "漢字 ba▁ </s>"]:
        assert again.source.segment(line) == case.ours.source.segment(line)
    read, written = case.read(SOURCES), case.written(TARGETS)
    methods = parse_all(["attention", "grad_input"])
    begin = case.ours.spec.source_begin
    expected = dict(attribute(case.ours.model, read, written, methods, source_begin=begin))
    for place, found in attribute(again.model, read, written, methods, source_begin=begin):
        for name, matrix in found.items():
            np.testing.assert_array_equal(matrix, expected[place][name])
    with pytest.raises(AlignlensError, match=r"[Mm]arian"):
        export_model(again, tmp_path / "back")


def test_an_early_tokenizer_of_nllb_has_the_code_behind_the_source(tmp_path: Path) -> None:
    (tmp_path / "nllb").mkdir()
    case = Case(tmp_path / "early", lambda folder: nllb(folder, legacy=True))
    assert case.ours.model.frame.source_last
    test_forced_scores_are_those_of_transformers(case)
    test_attention_is_that_of_transformers(case)


@pytest.mark.parametrize("family", ["m2m100", "mbart", "bart"])
def test_mask_nets_are_trained_for_an_imported_model(family: str, tmp_path: Path) -> None:
    case = Case(tmp_path / family, WRITERS[family])
    import_model(case.ours, tmp_path / "model")
    lines = spoken(1, 40)
    for side in ("source", "target"):
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    text = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    places = ["--work", tmp_path / "work", "--out", tmp_path / "masks"]
    done = run("masks", "--model", tmp_path / "model", *text, *places, "--settings", '{"updates": 3}')
    assert done.returncode == 0, done.stderr
    links = run("align", "--model", tmp_path / "model", "--method", "mask", *text, "--masks", tmp_path / "masks")
    assert links.returncode == 0, links.stderr
    assert len(links.stdout.splitlines()) == len(lines)
    # What was trained computes what the model does: as often as it was told, and with its frame.
    curves = (tmp_path / "masks" / "curves.csv").read_text().splitlines()
    last = dict(zip(curves[0].split(","), curves[-1].split(","), strict=True))
    held_out = lines[-(len(lines) // 10) :]
    ids = case.read(held_out), case.written(held_out)
    forced = force_all(
        case.ours.model, *ids, vocabulary=case.ours.spec.target_vocab, source_begin=case.ours.spec.source_begin
    )
    assert float(last["dev_loss"]) == pytest.approx(forced.summary()["loss"], abs=1e-4)
