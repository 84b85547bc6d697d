"""Relevance in a Transformer: the slow oracle, conservation, what cannot matter, padding, and what it is for."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch
from relevance_oracle import Oracle, transformer
from torch import Tensor

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.contract import Found, by_token, start
from alignlens.attribution.relevance.epsilon import Epsilon
from alignlens.attribution.relevance.transformer import TransformerRelevance
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Rules

SETTINGS = [
    AlphaBetaSettings(alpha, bias, attention, rescale)  # type: ignore[arg-type]
    for alpha, bias, attention, rescale in product(
        (1.0, 0.5), ("spread", "printed"), ("taylor", "softmax", "constant"), (True, False)
    )
]


def network(norm: str, **changes: object) -> Transformer:
    """Returns a small model in double precision, with biases that matter."""
    torch.manual_seed(3)
    sizes = {"dim": 8, "ffn": 12, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "output_bias": True}
    model = Transformer(TransformerSettings(norm=norm, **{**sizes, **changes}), 11, 13).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def found(
    model: Transformer, rules: Rules, source: Tensor, mask: Tensor, prefix: Tensor, tokens: Tensor | None = None
) -> Found:
    """Returns the relevance for the best token at every step, or for the given ones."""
    with torch.no_grad():
        vectors, read = model.embed_source(source), model.embed_target(prefix)
        relevance = TransformerRelevance(model, rules)
        states = relevance.read(vectors, mask, read)
        expected = model.decode(model.encode(vectors, mask), read).states
        torch.testing.assert_close(states.transpose(0, 1), expected)
        chosen = model.logits(expected).argmax(-1) if tokens is None else tokens
        return relevance.propagate(start(model, rules, states, chosen, torch.ones_like(chosen, dtype=torch.bool)))


SOURCE, PREFIX = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 5, 9]])
ALL = torch.ones_like(SOURCE, dtype=torch.bool)


@pytest.mark.parametrize("entry", [{}, {"norm_embeddings": True, "max_positions": 5, "scale_embeddings": False}])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_all_steps_at_once_equal_one_step_and_one_module_at_a_time(
    norm: str, settings: AlphaBetaSettings, entry: dict[str, object]
) -> None:
    model = network(norm, **entry)
    tokens = torch.tensor([[3, 7, 12]])
    together = found(model, AlphaBeta(settings), SOURCE, ALL, PREFIX, tokens)
    source, prefix = model.embed_source(SOURCE)[0].detach(), model.embed_target(PREFIX)[0].detach()
    for step in range(3):
        of_source, of_prefix = transformer(model, Oracle(settings), source, prefix[: step + 1], int(tokens[0, step]))
        torch.testing.assert_close(together.source[:, 0, step], of_source, rtol=0, atol=1e-9)
        torch.testing.assert_close(together.prefix[: step + 1, 0, step], of_prefix, rtol=0, atol=1e-9)
        assert torch.count_nonzero(together.prefix[step + 1 :, 0, step]) == 0


@pytest.mark.parametrize(("norm", "alpha", "normed"), list(product(("pre", "post"), (1.0, 0.5), (False, True))))
def test_relevance_is_conserved_and_never_negative(norm: str, alpha: float, normed: bool) -> None:
    # In very narrow heads all numbers may be negative, and then nothing is handed on.
    rules, model = AlphaBeta(AlphaBetaSettings(alpha)), network(norm, dim=32, ffn=64, norm_embeddings=normed)
    relevance = found(model, rules, SOURCE, ALL, PREFIX)
    assert min(float(side.min()) for side in relevance) >= 0
    total = sum(by_token(side).sum(-1) for side in relevance)
    torch.testing.assert_close(total, torch.ones(1, 3).double(), rtol=0, atol=1e-9)
    arrived, handed_on = rules.losses.arrived, rules.losses.handed_on
    assert set(arrived) == {"output", "layer norm", "residual sum", "linear", "attention"}
    assert all(handed_on[kind] <= arrived[kind] + 1e-12 for kind in arrived)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_neither_padding_nor_the_batch_changes_anything(norm: str) -> None:
    model, rules = network(norm), AlphaBeta(AlphaBetaSettings())
    source = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0], [3, 5, 6, 0]])
    mask, prefix = source > 0, torch.tensor([[1, 5, 9], [1, 6, 0], [1, 7, 8]])
    tokens = torch.tensor([[3, 7, 12], [2, 5, 1], [9, 9, 4]])
    together = found(model, rules, source, mask, prefix, tokens)
    for row, (length, steps) in enumerate(((4, 3), (2, 2), (3, 3))):
        one = slice(row, row + 1)
        alone = found(model, rules, source[one, :length], mask[one, :length], prefix[one, :steps], tokens[one, :steps])
        torch.testing.assert_close(together.source[:length, one, :steps], alone.source)
        torch.testing.assert_close(together.prefix[:steps, one, :steps], alone.prefix)
        assert torch.count_nonzero(together.source[length:, row]) == 0


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_source_that_nothing_is_taken_from_has_no_relevance(norm: str) -> None:
    model = network(norm)
    with torch.no_grad():
        for layer in model.decoder:
            layer.cross.output.weight.zero_()
            layer.cross.output.bias.zero_()
    relevance = found(model, AlphaBeta(AlphaBetaSettings()), SOURCE, ALL, PREFIX)
    assert float(relevance.source.sum()) < 1e-3 * float(relevance.prefix.sum())


def test_the_epsilon_rule_is_gradient_times_input_with_weights_and_deviations_held_constant() -> None:
    model = network("pre", output_bias=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    tokens = torch.tensor([[3, 7, 12]])
    relevance = found(model, Epsilon(1e-13), SOURCE, ALL, PREFIX, tokens)
    vectors = model.source_entry.placed(model.embed_source(SOURCE)).detach().requires_grad_()
    read = model.target_entry.placed(model.embed_target(PREFIX)).detach().requires_grad_()
    for step in range(3):
        score = _held(model, vectors, read[:, : step + 1])[0, step] @ model.output.weight[tokens[0, step]]
        slopes = torch.autograd.grad(score, (vectors, read))
        for side, given, slope in zip(relevance, (vectors, read), slopes, strict=True):
            torch.testing.assert_close(
                side[:, 0, step] * score.detach(), (given * slope)[0].detach(), rtol=1e-6, atol=1e-9
            )


def _held(model: Transformer, source: Tensor, prefix: Tensor) -> Tensor:
    """Returns decoder states of a model without biases whose weights and deviations have no derivative."""

    def norm(layer: torch.nn.LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return layer.weight * centred / (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt().detach()

    def attend(layer: torch.nn.Module, query: Tensor, keys: Tensor, values: Tensor, causal: bool) -> Tensor:
        query, keys, values = (
            each.view(*each.shape[:2], layer.heads, -1).transpose(1, 2) for each in (query, keys, values)
        )
        scores = query @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, float("-inf"))
        return layer.output((scores.softmax(-1).detach() @ values).transpose(1, 2).flatten(2))

    def fed(layer: torch.nn.Module, x: Tensor) -> Tensor:
        inner = norm(layer.feed_forward_branch.norm, x)
        return x + layer.feed_forward.narrow(torch.relu(layer.feed_forward.widen(inner)))

    x = source
    for layer in model.encoder:
        query, keys, values = layer.own.project(norm(layer.own_branch.norm, x)).chunk(3, -1)
        x = fed(layer, x + attend(layer.own, query, keys, values, causal=False))
    memory = norm(model.encoder_norm, x)
    x = prefix
    for layer in model.decoder:
        query, keys, values = layer.own.project(norm(layer.own_branch.norm, x)).chunk(3, -1)
        x = x + attend(layer.own, query, keys, values, causal=True)
        query, (keys, values) = (
            layer.cross.query(norm(layer.cross_branch.norm, x)),
            layer.cross.project(memory).chunk(2, -1),
        )
        x = fed(layer, x + attend(layer.cross, query, keys, values, causal=False))
    return norm(model.decoder_norm, x)
