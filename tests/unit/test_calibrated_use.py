"""The calibrated Transformer in use: dropout, padding, decoding, perturbing, its size, attribution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from calibrated_cases import (
    EVERY,
    LENGTHS,
    SETTINGS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    decoded,
    filled,
    ids,
    name_of,
    plain_twin,
)
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.registry import METHODS, parse, parse_all
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import translate
from alignlens.models.calibrated import Calibrated
from alignlens.models.contract import length_mask, parameter_count
from alignlens.models.dropout import dropout
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, ModelSpec, TransformerSettings


@pytest.fixture(params=EVERY, ids=name_of)
def settings(request: pytest.FixtureRequest) -> CalibratedSettings:
    found: CalibratedSettings = request.param
    return found


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# ---- dropout, padding, decoding


def test_attention_dropout_follows_the_fusion() -> None:
    settings = replace(SETTINGS, attention_dropout=0.5, rows="renorm")
    cross = filled(settings).decoder[0].cross.train()
    states, source = torch.randn(3, 4, 6).double(), torch.randn(3, 5, 6).double()
    visible = length_mask(LENGTHS, 5)[:, None, None]
    torch.manual_seed(5)
    output, seen = cross(states, cross.read(source), visible, trace=True)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(3, 3, 4).double())
    torch.manual_seed(5)
    # The same random numbers, on the fused weights.
    mixed = dropout(seen.weights, 0.5, True) @ seen.values
    expected = cross.output(mixed.transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize("perturbs", [False, True])
def test_neither_padding_nor_other_sentences_change_a_sentence(settings: CalibratedSettings, perturbs: bool) -> None:
    model = filled(settings)
    source, mask, prefix = ids()
    longer = torch.cat((source, torch.full((3, 4), 6)), 1)
    wider = torch.cat((mask, torch.zeros(3, 4, dtype=torch.bool)), 1)

    def asked(*given: Tensor) -> Tensor:
        if not perturbs:
            return model(*given)
        with model.perturbed():
            return model(*given)

    together = asked(source, mask, prefix)
    torch.testing.assert_close(asked(longer, wider, prefix), together, rtol=0, atol=1e-12)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = asked(source[row : row + 1, :length], mask[row : row + 1, :length], prefix[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_a_fully_padded_row_gives_no_nan(rows: str) -> None:
    model = Calibrated(replace(SETTINGS, rows=rows), SOURCE_VOCAB, TARGET_VOCAB).train()
    source, _, prefix = ids()
    mask = length_mask(torch.tensor([5, 3, 0]), 5)
    for trace in (False, True):
        memory = model.encode(model.embed_source(source), mask)
        states = model.decode(memory, model.embed_target(prefix), trace).states
        with model.perturbed():
            states = states + model.decode(memory, model.embed_target(prefix), trace).states
        model.zero_grad()
        states.sum().backward()
        assert states.isfinite().all()
        assert all(each.grad.isfinite().all() for each in model.parameters() if each.grad is not None)


def test_cached_steps_are_decoding_at_once_and_keep_the_keys_of_masks(settings: CalibratedSettings) -> None:
    model = filled(settings)
    source, mask, prefix = ids()
    memory = model.encode(model.embed_source(source), mask)
    vectors = model.embed_target(prefix)
    expected = model.decode(memory, vectors).states
    state = model.begin(memory)
    assert [tensor.shape for tensor in state.fixed] == [(3, settings.heads, 5, 3 * 2)] * settings.decoder_layers
    for position in range(prefix.shape[1]):
        found, state = model.step(state, vectors[:, position : position + 1])
        torch.testing.assert_close(found.states[:, 0], expected[:, position], rtol=0, atol=1e-12)


def test_beam_search_finds_what_a_search_without_cache_finds(settings: CalibratedSettings) -> None:
    model = filled(settings).float()
    texts = [[4, 5, 6, 7], [8], [9, 9, 10]]
    found = translate(model, texts, BeamSettings(beam=3, max_ratio=0, max_offset=6))
    one_by_one = [translate(model, [text], BeamSettings(beam=3, max_ratio=0, max_offset=6))[0] for text in texts]
    assert [each.ids for each in found] == [each.ids for each in one_by_one]
    greedy = translate(model, texts, BeamSettings(beam=1, max_ratio=0, max_offset=6))
    for text, hypothesis in zip(texts, greedy, strict=True):
        source, prefix = torch.tensor([[*text, END_ID]]), [BEGIN_ID]
        for token in (*hypothesis.ids, END_ID)[:6]:
            scores = model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([prefix]))[0, -1]
            order = scores.argsort(descending=True).tolist()
            assert next(best for best in order if best > PADDING_ID or best == END_ID) == token
            prefix.append(token)


# ---- perturbing


def test_given_masks_take_the_place_of_the_models_own_and_only_within_the_block() -> None:
    model = filled(SETTINGS)
    before = decoded(model)
    ones = [torch.ones_like(layer.mask) for layer in before.cross]
    with model.perturbed():
        own = decoded(model)
    with model.perturbed([layer.mask for layer in own.cross]):
        torch.testing.assert_close(decoded(model).states, own.states)
    with model.perturbed(ones):
        torch.testing.assert_close(decoded(model).states, decoded(plain_twin(model, SETTINGS)).states)
    with pytest.raises(RuntimeError, match="inside"), model.perturbed(ones):
        raise RuntimeError("inside")
    assert torch.equal(decoded(model).states, before.states)
    assert not torch.allclose(own.states, before.states)


def test_gradients_by_source_vectors_are_those_of_finite_differences(settings: CalibratedSettings) -> None:
    model = filled(settings, std=0.4)
    source, mask, prefix = (each[:2] for each in ids())
    vectors, target = model.embed_source(source).detach().requires_grad_(), model.embed_target(prefix).detach()

    def log_probabilities(given: Tensor) -> Tensor:
        states = model.decode(model.encode(given, mask), target).states
        return model.logits(states).log_softmax(-1)[:, :, 5].sum(0)

    assert torch.autograd.gradcheck(log_probabilities, (vectors,))


# ---- sizes


def test_the_extra_parameters_are_those_of_the_released_code_without_what_nothing_uses() -> None:
    base = {"dim": 512, "ffn": 8, "heads": 8, "encoder_layers": 1, "decoder_layers": 6}
    plain = parameter_count(build(ModelSpec("transformer", TransformerSettings(**base), 9, 9)))

    def extra(**changes: Any) -> int:
        return parameter_count(build(ModelSpec("calibrated", CalibratedSettings(**base, **changes), 9, 9))) - plain

    assert extra(fusion="fixed") == extra(fusion="anneal") == 3_151_872
    assert extra() == 3_151_872 + 390
    assert extra(gate="printed") == 3_151_872 + 8 * 390
    assert extra(fusion="fixed", mask_input="printed") == 6 * 2 * 8 * 64**2
    model = build(ModelSpec("calibrated", CalibratedSettings(**base), 9, 9))
    assert sum(each.numel() for each in model.mask_parameters()) == 3_151_872


# ---- attribution


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_every_method_that_works_with_any_model_works_with_it(rows: str) -> None:
    model = filled(replace(SETTINGS, rows=rows)).float()
    assert isinstance(source_gradients(model), AutogradGradients)
    supported = {name for name, spec in METHODS.items() if spec.supports("calibrated")}
    assert supported == set(METHODS) - {"optimal_attention"}
    methods = parse_all([*(f"{name},n=3" if "n" in METHODS[name].parameters else name for name in sorted(supported))])
    methods += parse_all(["attention,label=runner_up", "attention,layer=0,head=1,step=in", "norms,layer=0,head=1"])
    sources, targets = [[5, 6, 7], [4], [8, 9, 10, 4, 5]], [[8, 9], [5, 6, 7], [11]]
    together = dict(attribute(model, sources, targets, methods))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ((_, alone),) = attribute(model, [source], [target], methods, first=number)
        for method in methods:
            scores = together[number][method.text]
            assert scores.shape == (len(target) + 1, len(source) + 1)
            assert np.isfinite(scores).all()
            assert scores == pytest.approx(alone[method.text], abs=2e-4), method.text
            if method.spec.distribution:
                assert scores.sum(1) == pytest.approx(1, abs=1e-5)


def test_attention_as_an_alignment_is_that_of_the_weights_that_mix() -> None:
    model = filled(SETTINGS)
    source, target = [5, 6, 7], [8, 9]
    ((_, scores),) = attribute(model, [source], [target], [method := parse("attention,layer=0,head=1")])
    given = torch.tensor([[*source, END_ID]])
    memory = model.encode(model.embed_source(given), torch.ones_like(given, dtype=torch.bool))
    layer = model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])), trace=True).cross[0]
    weights = layer.weights[0, 1].detach().numpy()
    assert weights.sum(1) != pytest.approx(1, abs=1e-3)
    assert scores[method.text] == pytest.approx(weights / weights.sum(1, keepdims=True), abs=1e-6)
    assert scores[method.text] != pytest.approx(layer.original[0, 1].detach().numpy(), abs=1e-3)
