"""The calibrated Transformer: closed forms, every fusion against slow loops, decoding, saving, attribution."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.registry import METHODS, parse, parse_all
from alignlens.attribution.relevance.choice import relevance_of
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import translate
from alignlens.errors import ConfigError
from alignlens.models.calibrated import Anneal, Calibrated, CalibratedAttention
from alignlens.models.checkpoint import average, load_tensors, put_weights, save_tensors, weights_of
from alignlens.models.contract import Attention, Decoded, length_mask, parameter_count
from alignlens.models.dropout import dropout
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, ModelSpec, TransformerSettings
from alignlens.models.transformer import Transformer

SOURCE_VOCAB, TARGET_VOCAB = 11, 13
SETTINGS = CalibratedSettings(dim=6, ffn=7, heads=3, encoder_layers=1, decoder_layers=2, dropout=0.0)
LENGTHS = torch.tensor([5, 3, 1])
FUSIONS = ("fixed", "anneal", "gate")
VARIANTS = [
    replace(SETTINGS, fusion=fusion, rows=rows, mask_input=mask_input, gate=gate, anneal_updates=40)
    for fusion, rows, mask_input in product(FUSIONS, ("raw", "renorm"), ("released", "printed"))
    for gate in (("released", "printed") if fusion == "gate" else ("released",))
]
UPDATES = 30


def name_of(settings: CalibratedSettings) -> str:
    return f"{settings.fusion}-{settings.rows}-{settings.mask_input}-{settings.gate}"


@pytest.fixture(params=VARIANTS, ids=name_of)
def settings(request: pytest.FixtureRequest) -> CalibratedSettings:
    found: CalibratedSettings = request.param
    return found


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def filled(settings: CalibratedSettings, seed: int = 0, std: float = 0.5) -> Calibrated:
    """A double precision model whose every parameter is random, after some updates."""
    torch.manual_seed(seed)
    model = Calibrated(settings, SOURCE_VOCAB, TARGET_VOCAB).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    model.at_update(UPDATES)
    return model


def with_masks_of(model: Calibrated, value: float) -> Calibrated:
    """The same model with logits of all masks far below or above zero."""
    for layer in model.decoder:
        layer.cross.mask_net.query.weight.data.zero_()
        layer.cross.mask_net.key.weight.data.zero_()
        layer.cross.mask_net.query.bias.data.fill_(100.0)
        layer.cross.mask_net.key.bias.data.fill_(100.0 if value else -100.0)
    return model


def ids(rows: int = 3, target: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    source = torch.randint(4, SOURCE_VOCAB, (rows, int(LENGTHS.max())), generator=generator)
    return source, length_mask(LENGTHS[:rows], 5), torch.randint(4, TARGET_VOCAB, (rows, target), generator=generator)


def decoded(model: Transformer, trace: bool = True) -> Decoded:
    source, mask, prefix = ids()
    return model.decode(model.encode(model.embed_source(source), mask), model.embed_target(prefix), trace)


def plain_twin(model: Calibrated, settings: CalibratedSettings) -> Transformer:
    """The Transformer without masks that has all the other weights."""
    shared = {key: getattr(settings, key) for key in TransformerSettings.__dataclass_fields__}
    twin = Transformer(TransformerSettings(**shared), SOURCE_VOCAB, TARGET_VOCAB).double().eval()
    own = {name: tensor for name, tensor in model.state_dict().items() if "mask_net" not in name}
    twin.load_state_dict({name: tensor for name, tensor in own.items() if "fusion" not in name})
    return twin


# ---- closed forms


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_masks_of_one_leave_the_plain_transformer(fusion: str, rows: str) -> None:
    settings = replace(SETTINGS, fusion=fusion, rows=rows)
    model = with_masks_of(filled(settings), 1.0)
    found, expected = decoded(model), decoded(plain_twin(model, settings))
    for layer in found.cross:
        factor = 1 + settings.fixed_weight if (fusion, rows) == ("fixed", "raw") else 1.0
        torch.testing.assert_close(layer.weights, factor * layer.original, rtol=0, atol=1e-15)
    first, plain = found.cross[0], expected.cross[0]
    assert torch.equal(first.original, plain.weights)
    if (fusion, rows) == ("fixed", "raw"):
        assert not torch.allclose(found.states, expected.states)
    elif rows == "raw":
        assert torch.equal(found.states, expected.states)
    else:
        torch.testing.assert_close(found.states, expected.states, rtol=0, atol=1e-13)
    with model.perturbed():
        assert torch.equal(decoded(model).states, expected.states)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_masks_of_zero_perturb_to_equal_weights_and_calibrate_by_e(fusion: str) -> None:
    settings = replace(SETTINGS, fusion=fusion, anneal_updates=UPDATES)
    model = with_masks_of(filled(settings), 0.0)
    for layer, attended in zip(model.decoder, decoded(model).cross, strict=True):
        added: Any = {"fixed": 0.1, "anneal": 1 - math.exp(-1)}.get(fusion)
        if fusion == "gate":
            added = 1 - gate_of(layer.cross, settings, attended, model)
        kept = 1.0 if fusion == "fixed" else 1 - added
        torch.testing.assert_close(attended.weights, attended.original * (kept + added * math.e), rtol=1e-6, atol=0)
    with model.perturbed():
        attended = decoded(model).cross
    for layer_seen in attended:
        for row, length in enumerate(LENGTHS.tolist()):
            assert (layer_seen.weights[row, :, :, :length] == 1 / length).all()
            assert (layer_seen.weights[row, :, :, length:] == 0).all()


def gate_of(cross: CalibratedAttention, settings: CalibratedSettings, seen: Attention, model: Calibrated) -> Tensor:
    """The gate (batch, head, query, 1), from the inputs that the layer is given once more."""
    inputs: list[Tensor] = []
    hook = cross.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    decoded(model)
    hook.remove()
    width = settings.dim // settings.heads
    query = cross.query(inputs[0]).unflatten(-1, (settings.heads, width)).transpose(1, 2)
    gate = torch.empty(*seen.weights.shape[:3], 1, dtype=torch.float64)
    for head in range(settings.heads):
        one = head if settings.gate == "printed" else 0
        scale = 1.0 if settings.gate == "printed" else 1 / math.sqrt(width)
        logit = (query[:, head] * scale * cross.fusion.weight[one]).sum(-1) + cross.fusion.bias[one]
        gate[:, head, :, 0] = 1 / (1 + torch.exp(-logit))
    return gate


@pytest.mark.parametrize("rows", ["raw", "renorm"])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_sums_of_rows(fusion: str, rows: str) -> None:
    attended = decoded(filled(replace(SETTINGS, fusion=fusion, rows=rows))).cross
    sums = torch.stack([layer.weights.sum(-1) for layer in attended])
    if rows == "renorm":
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)
    else:
        low, high = (1.1, 1 + 0.1 * math.e) if fusion == "fixed" else (1.0, math.e)
        assert ((sums > low) & (sums < high)).all()
    for layer in attended:
        torch.testing.assert_close(layer.shares.sum(-1), torch.ones(sums.shape[1:]).double(), rtol=0, atol=1e-12)
        assert (layer.weights[1, :, :, 3:] == 0).all()
        assert (layer.mask[1, :, :, 3:] == 0).all()


# ---- a slow loop by hand


def slow_layer(
    cross: CalibratedAttention, settings: CalibratedSettings, states: Tensor, source: Tensor, perturbs: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output (query, dim), weights, softmax and mask (head, query, key) of one sentence, a number at a time."""
    dim, heads = settings.dim, settings.heads
    width, keys, queries = dim // heads, len(source), len(states)
    query = states @ cross.query.weight.T + cross.query.bias
    key, value = (
        source @ cross.project.weight[start : start + dim].T + cross.project.bias[start : start + dim]
        for start in (0, dim)
    )
    net = cross.mask_net
    original, mask, weights = (torch.zeros(heads, queries, keys).double() for _ in range(3))
    mixed = torch.zeros(queries, dim).double()
    for head, t in product(range(heads), range(queries)):
        part = slice(head * width, (head + 1) * width)
        scores = [float(query[t, part] @ key[i, part]) / math.sqrt(width) for i in range(keys)]
        for i in range(keys):
            original[head, t, i] = math.exp(scores[i]) / sum(map(math.exp, scores))
            if settings.mask_input == "released":
                one = (states[t] @ net.query.weight.T + net.query.bias)[part]
                other = (source[i] @ net.key.weight.T + net.key.bias)[part]
            else:
                one, other = query[t, part] @ net.query.weight[head], key[i, part] @ net.key.weight[head]
            mask[head, t, i] = 1 / (1 + math.exp(-float(one @ other) / math.sqrt(width)))
        for i in range(keys):
            a, m = float(original[head, t, i]), float(mask[head, t, i])
            if perturbs:
                weights[head, t, i] = m * a + (1 - m) / keys
                continue
            calibrated = a * math.exp(1 - m)
            if settings.fusion == "fixed":
                weights[head, t, i] = a + settings.fixed_weight * calibrated
            else:
                if settings.fusion == "anneal":
                    share = math.exp(-UPDATES / settings.anneal_updates)
                else:
                    by_itself = settings.gate == "printed"
                    vector, bias = (each[head if by_itself else 0] for each in (cross.fusion.weight, cross.fusion.bias))
                    logit = float(query[t, part] @ vector) / (1 if by_itself else math.sqrt(width)) + float(bias)
                    share = 1 / (1 + math.exp(-logit))
                weights[head, t, i] = share * a + (1 - share) * calibrated
        if settings.rows == "renorm" and not perturbs:
            weights[head, t] /= weights[head, t].sum()
        for i in range(keys):
            mixed[t, part] += weights[head, t, i] * value[i, part]
    return mixed @ cross.output.weight.T + cross.output.bias, weights, original, mask


@pytest.mark.parametrize("perturbs", [False, True])
def test_a_layer_computes_what_slow_loops_compute(settings: CalibratedSettings, perturbs: bool) -> None:
    cross = filled(settings).decoder[1].cross
    cross.perturbs = perturbs
    torch.manual_seed(2)
    states, source = torch.randn(3, 4, 6).double(), torch.randn(3, 5, 6).double()
    visible = length_mask(LENGTHS, 5)[:, None, None]
    with torch.no_grad():
        output, seen = cross(states, cross.read(source), visible, trace=True)
        untraced, _ = cross(states, cross.read(source), visible)
        torch.testing.assert_close(untraced, output, rtol=0, atol=1e-12)
        for row, length in enumerate(LENGTHS.tolist()):
            expected = slow_layer(cross, settings, states[row], source[row, :length], perturbs)
            named = (seen.weights[row, ..., :length], seen.original[row, ..., :length], seen.mask[row, ..., :length])
            for one, other in zip((output[row], *named), expected, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    made = torch.einsum("bhqk,bhkd,hde->bqe", seen.weights, seen.values, seen.projection) + seen.bias
    torch.testing.assert_close(made, output, rtol=0, atol=1e-12)


def test_every_setting_changes_what_is_computed() -> None:
    outputs = [decoded(filled(each, std=0.8)).states for each in VARIANTS]
    for one, other in product(range(len(outputs)), repeat=2):
        assert (one == other) == torch.allclose(outputs[one], outputs[other], atol=1e-7)


# ---- annealing


def test_the_share_of_the_original_weights_falls_along_the_training() -> None:
    settings = replace(SETTINGS, fusion="anneal")
    model = Calibrated(settings, SOURCE_VOCAB, TARGET_VOCAB)
    fusion = model.decoder[0].cross.fusion
    assert float(fusion.added()) == 0.0
    for update in (1, 50_000, 100_000):
        model.at_update(update)
        assert float(fusion.added()) == pytest.approx(1 - math.exp(-update / 1e5), rel=1e-6)
        assert [float(layer.cross.fusion.updates) for layer in model.decoder] == [update] * 2
    assert "decoder.1.cross.fusion.updates" in weights_of(model)
    assert not any(parameter.requires_grad for name, parameter in model.named_parameters() if "updates" in name)


def test_outside_of_training_it_may_stay_where_the_released_code_has_it() -> None:
    frozen = Anneal(replace(SETTINGS, fusion="anneal", inference_updates=150_000))
    frozen.at_update(2000)
    assert float(frozen.train().added()) == pytest.approx(1 - math.exp(-0.02), rel=1e-5)
    assert float(frozen.eval().added()) == pytest.approx(1 - math.exp(-1.5), rel=1e-6)


def test_weights_keep_the_number_of_updates_and_an_average_their_mean(tmp_path: Path) -> None:
    settings = replace(SETTINGS, fusion="anneal")
    paths = []
    for update in (1000, 4000):
        model = Calibrated(settings, SOURCE_VOCAB, TARGET_VOCAB)
        model.at_update(update)
        paths.append(tmp_path / f"{update}.safetensors")
        save_tensors(paths[-1], weights_of(model), {})
    fresh = Calibrated(settings, SOURCE_VOCAB, TARGET_VOCAB)
    put_weights(fresh, load_tensors(paths[1])[0], paths[1])
    assert float(fresh.decoder[1].cross.fusion.updates) == 4000
    assert float(average(paths)["decoder.0.cross.fusion.updates"]) == 2500


def test_a_saved_model_is_the_same_model(settings: CalibratedSettings, tmp_path: Path) -> None:
    model = filled(settings).float()
    save_tensors(tmp_path / "weights.safetensors", weights_of(model), {})
    other = build(ModelSpec("calibrated", settings, SOURCE_VOCAB, TARGET_VOCAB), seed=9).eval()
    assert not torch.equal(decoded(model).states, decoded(other).states)
    put_weights(other, load_tensors(tmp_path / "weights.safetensors")[0], tmp_path)
    assert torch.equal(decoded(model).states, decoded(other).states)


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
    assert supported == set(METHODS) - {"optimal_attention", "lrp", "lrp_epsilon"}
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


def test_relevance_propagation_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="does not know models of class Calibrated") as error:
        relevance_of(filled(SETTINGS))
    assert "\n" not in str(error.value)
