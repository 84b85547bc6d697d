"""Value zeroing in the attention to the source: against models whose values are really zeros, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mixing_cases import SETTINGS, assert_the_same_however_computed, model_of, text, traced
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import METHODS, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import END_ID
from alignlens.models.transformer import DecoderLayer, Transformer

TRIED = parse_all(["value_zeroing", "value_zeroing,layer=0", "value_zeroing,layer=-1,step=in"])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@torch.no_grad()
def slow(model: Transformer, source: list[int], target: list[int]) -> list[Tensor]:
    """Returns (target, source) by layer: the whole layer again for every position, its values set to zeros."""
    _, decoded = traced(model, source, target)
    found = []
    for number, attention in enumerate(decoded.cross):
        layer = model.decoder[number]
        assert isinstance(layer, DecoderLayer)
        assert attention.stream is not None
        rows = []
        for step in range(len(target) + 1):
            stream = attention.stream[0, step]
            states = []
            for gap in [None, *range(len(source) + 1)]:
                added = attention.bias.clone() if attention.bias is not None else torch.zeros_like(stream)
                for head in range(attention.weights.shape[1]):
                    for place in range(len(source) + 1):
                        value = torch.zeros_like(attention.values[0, head, place])
                        if place != gap:
                            value = attention.values[0, head, place]
                        added += attention.weights[0, head, step, place] * (value @ attention.projection[head])
                summed = stream + added
                if not layer.cross_branch.norm_first:
                    summed = layer.cross_branch.norm(summed)
                read = layer.feed_forward_branch.norm(summed) if layer.feed_forward_branch.norm_first else summed
                fed = layer.feed_forward.narrow(layer.feed_forward.widen(read).clamp(min=0))
                left = summed + fed
                states.append(left if layer.feed_forward_branch.norm_first else layer.feed_forward_branch.norm(left))
            distances = [1 - torch.cosine_similarity(states[0].double(), state.double(), dim=0) for state in states[1:]]
            row = torch.stack(distances)
            rows.append(row / row.sum())
        found.append(torch.stack(rows))
    # The layer without gaps is the model's: what leaves the last one is what it decodes.
    last = states[0] if isinstance(model.decoder_norm, torch.nn.Identity) else model.decoder_norm(states[0])
    torch.testing.assert_close(last, decoded.states[0, -1], atol=1e-5, rtol=1e-4)
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_every_sentence_equals_the_slow_loop(name: str) -> None:
    model, (sources, targets) = model_of(name), text()
    found = dict(attribute(model, sources, targets, TRIED))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        by_layer = slow(model, source, target)
        np.testing.assert_allclose(found[number]["value_zeroing"], torch.stack(by_layer).mean(0), atol=1e-5)
        np.testing.assert_allclose(found[number]["value_zeroing,layer=0"], by_layer[0], atol=1e-5)
        later = torch.cat((by_layer[-1][1:], by_layer[-1][-1:]))
        np.testing.assert_allclose(found[number]["value_zeroing,layer=-1,step=in"], later, atol=1e-5)


def test_where_nothing_follows_attention_it_is_the_cosine_of_a_sum_without_one_summand() -> None:
    model = model_of("pre")
    with torch.no_grad():
        for layer in model.decoder:
            assert isinstance(layer, DecoderLayer)
            layer.feed_forward.narrow.weight.zero_()
            layer.feed_forward.narrow.bias.zero_()
    source, target = [5, 9, 4], [7, 4]
    ((_, found),) = attribute(model, [source], [target], TRIED)
    _, decoded = traced(model, source, target)
    expected = []
    for attention in decoded.cross:
        assert attention.stream is not None
        assert attention.output is not None
        state = (attention.stream + attention.output)[0].double()  # (target, dim)
        added = torch.einsum("hti,hie,hed->tid", attention.weights[0], attention.values[0], attention.projection)
        cosines = torch.cosine_similarity(state[:, None], state[:, None] - added, dim=-1)
        expected.append(((1 - cosines) / (1 - cosines).sum(-1, keepdim=True)).detach())
    np.testing.assert_allclose(found["value_zeroing"], torch.stack(expected).mean(0), atol=1e-5)


def test_a_position_without_values_has_no_share() -> None:
    """Value projections that read nothing but what one source word has: all shares are its own."""
    model = model_of("one_layer")
    memory, _ = traced(model, [5, 9, 4], [7, 4])
    states = memory.states[0]
    layer = model.decoder[0]
    assert isinstance(layer, DecoderLayer)
    others = torch.linalg.qr(states[[0, 2, 3]].T)[0]
    direction = states[1] - others @ (others.T @ states[1])  # at right angles to all but the second
    with torch.no_grad():
        dim = len(direction)
        layer.cross.project.bias[dim:] = 0
        layer.cross.project.weight[dim:] = torch.outer(torch.randn(dim, generator=torch.manual_seed(1)), direction)
    ((_, found),) = attribute(model, [[5, 9, 4]], [[7, 4]], TRIED)
    assert traced(model, [5, 9, 4], [7, 4])[0].states.shape[1] == len([5, 9, 4, END_ID])
    np.testing.assert_allclose(found["value_zeroing"], [[0, 1, 0, 0]] * 3, atol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_neither_padding_nor_batches_nor_threads_change_it(name: str) -> None:
    assert_the_same_however_computed(name, TRIED, atol=1e-5)


def test_it_is_one_pass_and_for_transformers_only() -> None:
    sources, targets = text()
    statistics = Statistics()
    list(attribute(model_of("post"), sources, targets, TRIED[:1], statistics=statistics))
    assert (statistics.forward_passes, statistics.backward_passes) == (len(sources), 0)
    assert statistics.rows_without_positive == 0
    spec = METHODS["value_zeroing"]
    assert [name for name in ("transformer", "calibrated", "lstm", "fconv") if spec.supports(name)] == [
        "transformer",
        "calibrated",
    ]
