"""The Transformer against closed forms and against a slow version written with loops over positions and heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.contract import length_mask
from alignlens.models.dropout import dropout
from alignlens.models.positions import Sinusoids
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Branch, FeedForward, Transformer

SETTINGS = TransformerSettings(dim=6, ffn=7, heads=3, encoder_layers=2, decoder_layers=2)


def filled(settings: TransformerSettings, seed: int = 0) -> Transformer:
    """A double precision model whose every parameter, biases and norms too, is random."""
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    try:
        model = Transformer(settings, 11, 13).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def slow_attention(queries: Tensor, keys: Tensor, values: Tensor, heads: int, causal: bool) -> Tensor:
    """The heads' outputs side by side (query, dim), one query and head at a time, for projected inputs."""
    size = queries.shape[1] // heads
    output = torch.zeros_like(queries)
    for query in range(len(queries)):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            last = query + 1 if causal else len(keys)
            scores = torch.stack([queries[query, part] @ keys[key, part] / math.sqrt(size) for key in range(last)])
            for key, weight in enumerate(scores.exp() / scores.exp().sum()):
                output[query, part] += weight * values[key, part]
    return output


def slow_self_attention(layer: SelfAttention, states: Tensor, causal: bool) -> Tensor:
    dim = states.shape[1]
    query, key, value = (
        states @ layer.project.weight[start : start + dim].T + layer.project.bias[start : start + dim]
        for start in (0, dim, 2 * dim)
    )
    return slow_attention(query, key, value, layer.heads, causal) @ layer.output.weight.T + layer.output.bias


def slow_cross_attention(layer: CrossAttention, states: Tensor, source: Tensor) -> Tensor:
    dim = states.shape[1]
    query = states @ layer.query.weight.T + layer.query.bias
    key, value = (
        source @ layer.project.weight[start : start + dim].T + layer.project.bias[start : start + dim]
        for start in (0, dim)
    )
    return slow_attention(query, key, value, layer.heads, False) @ layer.output.weight.T + layer.output.bias


#: Of single numbers, as their papers have them: Ramachandran et al. 2017, Hendrycks and Gimpel 2016.
SLOW_ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "swish": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}


def slow_feed_forward(layer: FeedForward, states: Tensor, activation: str) -> Tensor:
    widened = states @ layer.widen.weight.T + layer.widen.bias
    hidden = torch.tensor(
        [[SLOW_ACTIVATIONS[activation](x) for x in row] for row in widened.tolist()], dtype=torch.float64
    )
    return hidden @ layer.narrow.weight.T + layer.narrow.bias


def slow_norm(norm: nn.LayerNorm, states: Tensor) -> Tensor:
    centred = states - states.mean(1, keepdim=True)
    return centred / (centred.pow(2).mean(1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def slow_logits(model: Transformer, settings: TransformerSettings, source: Tensor, prefix: Tensor) -> Tensor:
    """Logits (target, vocabulary) of one sentence pair, as the two papers on norm placement write them down."""

    def with_branch(branch: Branch, states: Tensor, layer: object) -> Tensor:
        if settings.norm == "pre":
            return states + layer(slow_norm(branch.norm, states))
        return slow_norm(branch.norm, states + layer(states))

    def placed(table: Tensor, ids: Tensor) -> Tensor:
        rows = []
        for position, token in enumerate(ids.tolist()):
            angles = [position / 10000 ** (2 * (i // 2) / settings.dim) for i in range(settings.dim)]
            wave = [math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)]
            if settings.sinusoids == "halves":
                wave = wave[::2] + wave[1::2]
            rows.append(table[token] * math.sqrt(settings.dim) + torch.tensor(wave, dtype=torch.float64))
        return torch.stack(rows)

    def fed(layer: FeedForward, states: Tensor) -> Tensor:
        return slow_feed_forward(layer, states, settings.activation)

    states = placed(model.source_table.weight, source)
    for layer in model.encoder:
        states = with_branch(layer.own_branch, states, lambda x, own=layer.own: slow_self_attention(own, x, False))
        states = with_branch(layer.feed_forward_branch, states, partial(fed, layer.feed_forward))
    memory = slow_norm(model.encoder_norm, states) if settings.norm == "pre" else states
    states = placed(model.target_table.weight, prefix)
    for layer in model.decoder:
        states = with_branch(layer.own_branch, states, lambda x, own=layer.own: slow_self_attention(own, x, True))
        states = with_branch(
            layer.cross_branch, states, lambda x, cross=layer.cross: slow_cross_attention(cross, x, memory)
        )
        states = with_branch(layer.feed_forward_branch, states, partial(fed, layer.feed_forward))
    states = slow_norm(model.decoder_norm, states) if settings.norm == "pre" else states
    return states @ model.output.weight.T + (model.output.bias if settings.output_bias else 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"output_bias": True},
        {"norm": "pre"},
        {"activation": "swish", "sinusoids": "halves", "output_bias": True},
        {"activation": "gelu", "norm": "pre"},
    ],
)
def test_it_computes_what_slow_loops_compute(changes: dict[str, Any]) -> None:
    settings = replace(SETTINGS, **changes)
    model = filled(settings)
    lengths = torch.tensor([5, 3])
    source, prefix = torch.randint(4, 11, (2, 5)), torch.randint(4, 13, (2, 7))
    with torch.no_grad():
        logits = model(source, length_mask(lengths, 5), prefix)
        for row, length in enumerate(lengths.tolist()):
            expected = slow_logits(model, settings, source[row, :length], prefix[row])
            torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-10)


def test_positions_are_the_printed_waves() -> None:
    table = Sinusoids(6, "interleaved")(0, 7)
    assert table.shape == (7, 6)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1]
    expected = [f(5 / 10000 ** (pair / 3)) for pair in range(3) for f in (math.sin, math.cos)]
    torch.testing.assert_close(table[5], torch.tensor(expected))


def test_positions_go_on_beyond_the_table() -> None:
    short, long = Sinusoids(6, "interleaved", at_first=5), Sinusoids(6, "interleaved", at_first=47)
    assert torch.equal(short(3, 43), long(3, 43))
    assert torch.equal(short(0, 5), long(0, 5))


def test_a_sentence_may_be_longer_than_the_table_and_the_table_is_not_saved() -> None:
    model = Transformer(SETTINGS, 11, 13).eval()
    length = len(model.source_entry.positions.table) + 7
    source = torch.randint(4, 11, (1, length))
    memory = model.encode(model.embed_source(source), torch.ones(1, length, dtype=torch.bool))
    assert memory.states.shape == (1, length, 6)
    assert len(model.source_entry.positions.table) >= length
    assert not [name for name in model.state_dict() if "positions" in name]


def test_attention_with_unit_weights_has_its_closed_form() -> None:
    layer = SelfAttention(2, heads=1, dropout=0.0)
    sharpness = 3.0
    with torch.no_grad():
        layer.project.weight.copy_(torch.cat([sharpness * torch.eye(2), torch.eye(2), torch.eye(2)]))
        layer.output.weight.copy_(torch.eye(2))
    output, attention = layer(torch.eye(2)[None], torch.ones(1, 1, 1, 2, dtype=torch.bool), trace=True)
    itself = 1 / (1 + math.exp(-sharpness / math.sqrt(2)))
    expected = torch.tensor([[itself, 1 - itself], [1 - itself, itself]])
    torch.testing.assert_close(output[0], expected)
    torch.testing.assert_close(attention.weights[0, 0], expected)


def test_with_uniform_cross_attention_the_decoder_follows_the_majority_of_the_source() -> None:
    """Width 2: a norm leaves only the sign of the first number minus the second, as +-(1, -1)."""
    settings = TransformerSettings(dim=2, ffn=3, heads=1, encoder_layers=1, decoder_layers=1)
    model = Transformer(settings, 7, 5).eval()
    with torch.no_grad():
        for layer in (*model.encoder, *model.decoder):
            for part in (layer.own.project, layer.feed_forward.widen):
                nn.init.zeros_(part.weight)
        cross = model.decoder[0].cross
        nn.init.zeros_(cross.query.weight)
        cross.project.weight.copy_(torch.cat([torch.eye(2), 10 * torch.eye(2)]))
        cross.output.weight.copy_(torch.eye(2))
        model.source_table.weight.copy_(torch.tensor([[0, 0], [0, 0], [0, 0], [0, 0], [9, 0], [0, 9], [9, 0]]))
    first, second = 4, 5
    source = torch.tensor([[first, second, first], [second, second, first], [second, first, PADDING_ID]])
    source[2, 2] = first  # would tip the balance if padding counted
    mask = length_mask(torch.tensor([3, 3, 2]), 3)
    prefix = torch.full((3, 1), 4)
    with torch.no_grad():
        model.target_table.weight[4] = torch.tensor([0.0, 9.0])
        states = model.decode(model.encode(model.embed_source(source), mask), model.embed_target(prefix)).states[:, 0]
        scores = model.logits(states)
    # Row 2 is a draw: the decoder's own token, of the second kind, decides.
    expected = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]])
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(scores, expected @ model.output.weight.detach().T, rtol=0, atol=1e-3)


def test_tied_and_shared_tables_are_the_same_storage() -> None:
    places = {}
    for sharing in ("separate", "shared", "tied", "shared_tied"):
        model = Transformer(replace(SETTINGS, embeddings=sharing), 13, 13)
        weights = (model.source_table.weight, model.target_table.weight, model.output.weight)
        source, target, output = (weight.data_ptr() for weight in weights)
        places[sharing] = (source == target, target == output)
    assert places == {
        "separate": (False, False),
        "shared": (True, False),
        "tied": (False, True),
        "shared_tied": (True, True),
    }


def test_token_vectors_start_with_unit_variance_and_no_padding() -> None:
    torch.manual_seed(0)
    model = Transformer(replace(SETTINGS, dim=30), 997, 13)
    ids = torch.arange(997)[None]
    vectors = model.embed_source(ids)
    assert not vectors[0, PADDING_ID].any()
    assert vectors[0, PADDING_ID + 1 :].std().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_fully_padded_row_looks_nowhere_and_gives_no_nan(dropout: float) -> None:
    torch.manual_seed(0)
    model = Transformer(replace(SETTINGS, attention_dropout=dropout), 11, 13).train()
    mask = torch.tensor([[True, True, False], [False, False, False]])
    source, prefix = torch.randint(4, 11, (2, 3)), torch.randint(4, 13, (2, 5))
    logits = model(source, mask, prefix)
    logits.logsumexp(-1).sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    memory = model.encode(model.embed_source(source), mask, trace=True)
    decoded = model.decode(memory, model.embed_target(prefix), trace=True)
    assert not any(attention.weights[1].any() for attention in (*memory.attention, *decoded.cross))


def test_each_dropout_acts_in_training_only() -> None:
    source, prefix = torch.randint(4, 11, (2, 3)), torch.randint(4, 13, (2, 5))
    mask = torch.ones(2, 3, dtype=torch.bool)
    without = replace(SETTINGS, dropout=0.0)
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        torch.manual_seed(1)
        model = Transformer(replace(without, **{name: 0.5}), 11, 13)
        plain = model.eval()(source, mask, prefix)
        assert not torch.allclose(plain, model.train()(source, mask, prefix))
    model = Transformer(without, 11, 13)
    torch.testing.assert_close(model.eval()(source, mask, prefix), model.train()(source, mask, prefix))


def test_dropout_keeps_the_asked_share_the_expectation_and_independence() -> None:
    torch.manual_seed(3)
    values = torch.full((1009, 997), 2.0, requires_grad=True)
    dropped = dropout(values, 0.3, training=True)
    zero = (dropped == 0).double()
    assert zero.mean().item() == pytest.approx(0.3, abs=2e-3)
    assert dropped.mean().item() == pytest.approx(2, abs=1e-2)
    assert len(dropped.unique()) == 2
    for shift in range(1, 9):  # neighbours share a random number, but not its bits
        assert (zero.flatten()[shift:] * zero.flatten()[:-shift]).mean().item() == pytest.approx(0.09, abs=2e-3)
    dropped.sum().backward()
    torch.testing.assert_close(values.grad, dropped.detach() / 2)
    assert dropout(values, 0.3, training=False) is values
    assert dropout(values, 0.0, training=True) is values


def test_dropout_is_decided_by_the_seed() -> None:
    values = torch.ones(7, 11)
    first, again, other = (torch.manual_seed(seed) and dropout(values, 0.5, training=True) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
