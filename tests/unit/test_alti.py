"""ALTI+: a literal version of every block, parts whose shares are known, and what results must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mixing_cases import SETTINGS, SMALL, model_of, rolled_out, text, traced
from torch import Tensor, nn

from alignlens.attribution.corpus import attribute
from alignlens.attribution.nearness import cross_shares, own_shares
from alignlens.attribution.registry import METHODS, parse
from alignlens.attribution.statistics import Statistics
from alignlens.errors import ToolError
from alignlens.models.contract import Attention
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Branch, DecoderLayer, EncoderLayer, Transformer

ALTI = parse("alti")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# ---- a slow version


def linear_norm(norm: nn.LayerNorm, summed: Tensor) -> Tensor:
    """Returns the matrix (dim, dim) that a norm is, if it divides by the deviation of ``summed`` (dim)."""
    dim = len(summed)
    centre = torch.eye(dim) - torch.full((dim, dim), 1 / dim)
    return torch.diag(norm.weight) @ centre / (summed.var(unbiased=False) + norm.eps).sqrt()


def shares(branch: Branch, stream: Tensor, attention: Attention, query: int, own: bool) -> Tensor:
    """Returns the share of every part of one output: of all keys, and of the stream unless it belongs to a key."""
    weights, values, projection = attention.weights[0], attention.values[0], attention.projection
    heads, _, keys = weights.shape
    parts = []
    for key in range(keys):
        part = torch.zeros_like(stream)
        for head in range(heads):
            part += weights[head, query, key] * (values[head, key] @ projection[head])
        parts.append(part)
    if own:
        parts[query] = parts[query] + stream
    else:
        parts.append(stream)
    bias = torch.zeros_like(stream) if attention.bias is None else attention.bias
    summed = torch.stack(parts).sum(0) + bias
    whole = summed
    if not branch.norm_first:
        matrix = linear_norm(branch.norm, summed)
        parts = [matrix @ part for part in parts]
        whole = torch.stack(parts).sum(0) + matrix @ bias + branch.norm.bias
        torch.testing.assert_close(whole, branch.norm(summed), atol=1e-4, rtol=1e-4)
    near = torch.stack([(whole.abs().sum() - (whole - part).abs().sum()).clamp(min=0) for part in parts])
    return near / near.sum()


@torch.no_grad()
def slow(model: Transformer, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Returns the shares of source and prefix of one sentence pair, part by part."""
    memory, decoded = traced(model, source, target)

    def stream_of(attention: Attention, place: int) -> Tensor:
        assert attention.stream is not None
        return attention.stream[0, place]

    encoder, decoder = [], []
    for layer, seen in zip(model.encoder, memory.attention, strict=True):
        assert isinstance(layer, EncoderLayer)
        rows = [shares(layer.own_branch, stream_of(seen, i), seen, i, own=True) for i in range(len(source) + 1)]
        encoder.append(torch.stack(rows))
    for layer, own, cross in zip(model.decoder, decoded.own, decoded.cross, strict=True):
        assert isinstance(layer, DecoderLayer)
        steps = range(len(target) + 1)
        mixed = torch.stack([shares(layer.own_branch, stream_of(own, j), own, j, own=True) for j in steps])
        both = torch.stack([shares(layer.cross_branch, stream_of(cross, j), cross, j, own=False) for j in steps])
        decoder.append((mixed, both[:, :-1], both[:, -1]))
    return rolled_out(encoder, decoder)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_sentence_equals_the_slow_version(name: str) -> None:
    model, (sources, targets) = model_of(name), text()
    found = dict(attribute(model, sources, targets, [ALTI]))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for matrix, expected in zip(ALTI.matrices, slow(model, source, target), strict=True):
            np.testing.assert_allclose(found[number][matrix], expected, atol=2e-5)


# ---- parts whose shares are known


def branch_of(norm: str) -> Branch:
    return Branch(TransformerSettings(**{**SMALL, "dim": 8, "dropout": 0.0}, norm=norm)).eval()


def planted(weights: list[list[float]], sizes: list[float], stream: list[float]) -> Attention:
    """Attention of one head whose value j is nothing but its own dimension j; the stream has dimensions from 4."""
    given, dim = torch.tensor(weights)[None, None], 8
    values = torch.diag_embed(torch.tensor(sizes))
    values = nn.functional.pad(values, (0, dim - values.shape[-1]))[None, None]
    past = torch.zeros(1, len(stream), dim)
    for query, size in enumerate(stream):
        past[0, query, 4 + query] = size
    return Attention(given, values, torch.eye(dim)[None], None, output=(given @ values)[0], stream=past)


def test_parts_that_do_not_overlap_have_shares_of_their_sizes() -> None:
    attention = planted([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [2.0, 1.0, 5.0], [3.0, 0.0])
    visible = torch.ones(1, 2, 3, dtype=torch.bool)
    for at_once in (1, 2, 8):
        cross, kept = cross_shares(branch_of("pre"), attention, visible, at_once)
        sizes = np.array([[1.0, 0.3, 1.0, 3.0], [0.2, 0.1, 4.0, 0.0]])
        expected = sizes / sizes.sum(1, keepdims=True)
        np.testing.assert_allclose(torch.cat((cross, kept), -1)[0], expected, atol=1e-6)


def test_in_self_attention_the_stream_belongs_to_its_position() -> None:
    attention = planted([[0.5, 0.5], [0.25, 0.75]], [2.0, 1.0], [3.0, 1.0])
    for at_once in (1, 8):
        found = own_shares(branch_of("pre"), attention, torch.ones(2, 2, dtype=torch.bool), at_once)[0]
        np.testing.assert_allclose(found, [[4 / 4.5, 0.5 / 4.5], [0.5 / 2.25, 1.75 / 2.25]], atol=1e-6)


def test_a_part_against_the_whole_has_no_share_and_one_too_large_less() -> None:
    """Of 2 + 6 - 3: the parts are 2, 6 and -3 away from nothing, and 3, 1 and 8 from the whole, which is 5."""
    attention = Attention(
        torch.ones(1, 1, 1, 2),
        torch.tensor([2.0, 6.0]).view(1, 1, 2, 1),
        torch.ones(1, 1, 1),
        None,
        output=torch.full((1, 1, 1), 8.0),
        stream=torch.full((1, 1, 1), -3.0),
    )
    branch = branch_of("pre")
    cross, kept = cross_shares(branch, attention, torch.ones(1, 1, 2, dtype=torch.bool), 8)
    np.testing.assert_allclose(torch.cat((cross, kept), -1)[0, 0], [2 / 6, 4 / 6, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["post", "pre"])
def test_a_decoder_that_adds_nothing_is_all_prefix(name: str) -> None:
    model = model_of(name)
    with torch.no_grad():
        for label, parameter in model.named_parameters():
            if label.startswith("decoder") and (".output." in label or label.endswith("branch.norm.bias")):
                parameter.zero_()
    ((_, found),) = attribute(model, [[5, 9, 4]], [[7, 4]], [ALTI])
    np.testing.assert_allclose(found["alti@prefix"], np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found["alti"], 0, atol=1e-6)


# ---- what it must not depend on


@pytest.mark.parametrize("name", SETTINGS)
def test_neither_padding_nor_batches_nor_threads_change_it_and_shares_sum_to_one(name: str) -> None:
    model, (sources, targets) = model_of(name), text(20)
    together = dict(attribute(model, sources, targets, [ALTI]))
    assert max(np.ptp(each["alti"], axis=1).max() for each in together.values()) > 0.03
    threads = dict(attribute(model, sources, targets, [ALTI], workers=3))
    few = dict(attribute(model, sources, targets, [ALTI], tokens=20))
    for number, each in together.items():
        ((_, alone),) = attribute(model, [sources[number]], [targets[number]], [ALTI])
        for matrix in ALTI.matrices:
            assert np.array_equal(threads[number][matrix], each[matrix])
            np.testing.assert_allclose(few[number][matrix], each[matrix], atol=1e-5)
            np.testing.assert_allclose(alone[matrix], each[matrix], atol=1e-5)
            assert (each[matrix] >= 0).all()
        np.testing.assert_allclose(each["alti"].sum(1) + each["alti@prefix"].sum(1), 1, atol=1e-5)
        assert not np.triu(each["alti@prefix"], 1).any(), "nobody reads what comes later"


def test_it_is_one_pass_for_transformers_only_and_a_damaged_model_is_told() -> None:
    sources, targets = text()
    statistics = Statistics()
    model = model_of("post")
    list(attribute(model, sources, targets, [ALTI], statistics=statistics))
    assert (statistics.forward_passes, statistics.backward_passes) == (len(sources), 0)
    assert [name for name in ("transformer", "calibrated", "lstm", "fconv") if METHODS["alti"].supports(name)] == [
        "transformer",
        "calibrated",
    ]
    with torch.no_grad():
        model.get_parameter("decoder.1.cross.output.weight")[0, 0] = float("nan")
    with pytest.raises(ToolError, match="not finite"):
        list(attribute(model, sources, targets, [ALTI]))
