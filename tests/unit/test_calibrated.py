"""The calibrated Transformer: closed forms, every fusion against slow loops, annealing, saving."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from calibrated_cases import (
    EVERY,
    FUSIONS,
    LENGTHS,
    PLAIN,
    SETTINGS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    UPDATES,
    VARIANTS,
    decoded,
    filled,
    name_of,
    plain_twin,
    with_masks_of,
)
from torch import Tensor

from alignlens.models.calibrated import Anneal, Calibrated, CalibratedAttention
from alignlens.models.checkpoint import average, load_tensors, put_weights, save_tensors, weights_of
from alignlens.models.contract import Attention, length_mask
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, ModelSpec


@pytest.fixture(params=EVERY, ids=name_of)
def settings(request: pytest.FixtureRequest) -> CalibratedSettings:
    found: CalibratedSettings = request.param
    return found


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


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


@pytest.mark.parametrize("settings", PLAIN, ids=name_of)
def test_without_a_fusion_it_is_the_plain_transformer_whatever_the_masks(settings: CalibratedSettings) -> None:
    model = filled(settings)
    plain = plain_twin(model, settings)
    found, expected = decoded(model), decoded(plain)
    assert torch.equal(found.states, expected.states)
    for layer, other in zip(found.cross, expected.cross, strict=True):
        assert torch.equal(layer.weights, other.weights)
        assert torch.equal(layer.original, other.weights)
        masks = layer.mask[0]
        assert (masks.min(), masks.max()) != (masks.max(), masks.max())
    for one, other in ((model, plain), (model.train(), plain.train())):
        # Untraced, the plain one computes all of attention in one operation, in another order.
        torch.testing.assert_close(decoded(one, False).states, decoded(other, False).states, rtol=0, atol=1e-12)
    with model.perturbed():
        assert not torch.allclose(decoded(model).states, expected.states)


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
            if settings.fusion == "none":
                weights[head, t, i] = a
            elif settings.fusion == "fixed":
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
