"""Norms of what attention adds up: closed forms, and what they must have in common with weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_cases import SETTINGS, model_of, scores, text

from alignlens.attribution.corpus import attribute
from alignlens.attribution.methods import attention, norms
from alignlens.attribution.registry import parse_all
from alignlens.errors import ConfigError
from alignlens.models.contract import Attention


def layer_of(heads: int, seed: int = 0, keys: int = 5) -> Attention:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(2, heads, 4, keys, generator=generator)
    values = torch.randn(2, heads, keys, 3, generator=generator)
    projection = torch.randn(heads, 3, 6, generator=generator)
    return Attention(weights / weights.sum(-1, keepdim=True), values, projection, None)


def added(layer: Attention) -> torch.Tensor:
    """Returns what every head adds for every pair, (batch, head, query, key, dim)."""
    return torch.einsum("bhqk,bhkd,hde->bhqke", layer.weights, layer.values, layer.projection)


def test_by_hand() -> None:
    # One query, two keys, two heads of one dimension that write to the same output.
    weights = torch.tensor([[[[0.25, 0.75]], [[0.5, 0.5]]]])
    values = torch.tensor([[[[4.0], [2.0]], [[1.0], [-3.0]]]])
    layer = Attention(weights, values, torch.ones(2, 1, 1), torch.tensor([100.0]))
    torch.testing.assert_close(norms.of_heads(layer)[0, :, 0], torch.tensor([[1.0, 1.5], [0.5, 1.5]]))
    # 0.25 * 4 + 0.5 * 1, and 0.75 * 2 - 0.5 * 3: heads cancel, and the output bias has no part in it.
    torch.testing.assert_close(norms.of_layer(layer)[0, 0], torch.tensor([1.5, 0.0]))


@pytest.mark.parametrize("heads", [1, 4])
def test_of_a_layer_it_is_the_norm_of_the_sum(heads: int) -> None:
    layer = layer_of(heads)
    torch.testing.assert_close(norms.of_layer(layer), added(layer).sum(1).norm(dim=-1), rtol=0, atol=1e-6)
    torch.testing.assert_close(norms.of_heads(layer), added(layer).norm(dim=-1), rtol=0, atol=1e-6)
    if heads > 1:
        assert (norms.of_layer(layer) < norms.of_heads(layer).sum(1) - 1e-3).all()
    else:
        torch.testing.assert_close(norms.of_layer(layer), norms.of_heads(layer)[:, 0], rtol=0, atol=1e-6)


def test_heads_that_cancel_leave_nothing() -> None:
    layer = layer_of(2)
    opposite = Attention(
        layer.weights[:, :1].repeat(1, 2, 1, 1),
        layer.values[:, :1].repeat(1, 2, 1, 1) * torch.tensor([1.0, -1.0])[:, None, None],
        layer.projection[:1].repeat(2, 1, 1),
        None,
    )
    assert norms.of_layer(opposite).abs().max() < 1e-6


def test_equal_norms_rank_as_the_weights() -> None:
    layer = layer_of(1, keys=7)
    equal = Attention(
        layer.weights, torch.nn.functional.normalize(layer.values, dim=-1), torch.eye(3)[None], layer.bias
    )
    ranks = [scores.argsort(-1) for scores in (norms.of_layer(equal), attention.of_layer(layer, 0))]
    assert torch.equal(*ranks)
    assert not torch.equal(norms.of_layer(layer).argsort(-1), ranks[1])


def test_one_step_later_awo_is_awi() -> None:
    methods = parse_all([f"{kind},layer=1,step={step}" for kind in ("norms", "attention") for step in ("out", "in")])
    for found in scores(model_of("transformer"), methods).values():
        for out, into in (methods[:2], methods[2:]):
            # The row that reads piece j is the next one; the end symbol, which nothing reads, keeps its own.
            assert np.array_equal(found[out.text][1:], found[into.text][:-1])
            assert np.array_equal(found[out.text][-1], found[into.text][-1])


@pytest.mark.parametrize("name", SETTINGS)
def test_padding_batches_and_shards_change_nothing(name: str) -> None:
    model = model_of(name)
    methods = parse_all(["norms", "norms,layer=0,head=0,step=in"])
    together = scores(model, methods)
    shards = dict(pair for which in (0, 1) for pair in attribute(model, *text(), methods, shard=(which, 2)))
    for number, pair in enumerate(zip(*text(), strict=True)):
        alone = dict(attribute(model, [pair[0]], [pair[1]], methods))[0]
        for method in methods:
            np.testing.assert_allclose(together[number][method.text], alone[method.text], rtol=0, atol=1e-6)
            assert np.array_equal(together[number][method.text], shards[number][method.text])


def test_they_do_not_sum_to_one() -> None:
    found = scores(model_of("transformer"), parse_all(["norms"]))
    assert max(abs(each["norms"].sum(1) - 1).max() for each in found.values()) > 0.01


@pytest.mark.parametrize(("method", "told"), [("norms,layer=2", "no layer 2: it has 2"), ("norms,head=4", "no head 4")])
def test_layers_and_heads_that_are_not_there(method: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scores(model_of("transformer"), parse_all([method]))
