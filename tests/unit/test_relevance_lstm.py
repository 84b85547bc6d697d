"""Relevance in the LSTM: the slow way, what is conserved, what is zero, and gradients with gates held constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from relevance_cases import (
    SETTINGS,
    VOCAB,
    assert_conserved,
    assert_nothing_beyond,
    assert_the_same_alone,
    assert_the_same_in_single_precision,
    batch,
    decoded,
    difference,
    found_in,
    prepared,
)
from relevance_oracle import Oracle
from relevance_oracle_recurrent import lstm
from torch import Tensor

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.attention import constant, taylor
from alignlens.attribution.relevance.epsilon import Epsilon
from alignlens.attribution.relevance.lstm import LstmRelevance
from alignlens.attribution.relevance.rules import Attended
from alignlens.errors import ConfigError
from alignlens.models.lstm import Lstm
from alignlens.models.settings import LstmSettings

LUONG = LstmSettings(dim=6, hidden=7, bidirectional=True, encoder_layers=2, decoder_layers=2)
TWO_LAYER = LstmSettings(dim=6, hidden=6, bidirectional=True, input_feeding=False, output="two_layer")
VARIANTS = {
    "luong": LUONG,
    "two_layer": TWO_LAYER,
    "two_layer_feeding": replace(TWO_LAYER, input_feeding=True, bidirectional=False, activation="tanh", hidden=5),
    "linear": LstmSettings(dim=6, hidden=6, bidirectional=True, output="linear"),
    "uniform": replace(TWO_LAYER, attention="uniform"),
    "deep_encoder": replace(LUONG, bidirectional=False, encoder_layers=3, hidden=6),
    "deep_decoder": replace(LUONG, input_feeding=False, encoder_layers=1, decoder_layers=3),
}
EVERY = pytest.mark.parametrize("name", VARIANTS)


def built(name: str, bias: bool = True) -> Lstm:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return prepared(Lstm(VARIANTS[name], VOCAB, VOCAB), bias=bias)


@EVERY
def test_states_are_those_that_the_model_decodes(name: str) -> None:
    model = built(name)
    some = batch(model)
    states, tokens = decoded(model, some)
    found = LstmRelevance(model, Epsilon(1e-9)).read(*some)
    torch.testing.assert_close(found.transpose(0, 1), states, rtol=0, atol=1e-12)
    slow = lstm(model, Oracle(SETTINGS[0]), some.vectors[0], some.prefix[0], int(tokens[0, -1]))[2]
    torch.testing.assert_close(slow, states[0, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", ["luong", "two_layer"])
def test_relevance_is_what_a_tape_of_the_sentence_says(name: str, settings: AlphaBetaSettings) -> None:
    assert difference(built(name), LstmRelevance, lstm, settings) < 1e-10


@pytest.mark.parametrize("settings", [SETTINGS[1], SETTINGS[5]], ids=str)
@pytest.mark.parametrize("name", ["two_layer_feeding", "linear", "uniform", "deep_encoder", "deep_decoder"])
def test_so_it_is_for_every_kind_of_model(name: str, settings: AlphaBetaSettings) -> None:
    assert difference(built(name), LstmRelevance, lstm, settings) < 1e-10


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[4]], ids=str)
@EVERY
def test_rescaled_relevance_of_source_and_prefix_is_one(name: str, settings: AlphaBetaSettings) -> None:
    model = built(name)
    assert_conserved(found_in(model, LstmRelevance(model, AlphaBeta(settings)), batch(model)))


@EVERY
def test_nothing_comes_to_later_tokens_and_to_padding(name: str) -> None:
    model = built(name)
    assert_nothing_beyond(found_in(model, LstmRelevance(model, AlphaBeta(SETTINGS[0])), batch(model)))


@EVERY
def test_rows_in_a_batch_are_what_they_are_alone(name: str) -> None:
    assert_the_same_alone(built(name), LstmRelevance)


def test_weights_of_uniform_attention_are_constants_whatever_the_rule() -> None:
    model = built("uniform")
    some = batch(model)
    by_rule = [
        found_in(model, LstmRelevance(model, AlphaBeta(AlphaBetaSettings(attention=rule))), some)
        for rule in ("taylor", "softmax", "constant")
    ]
    for other in by_rule[1:]:
        assert torch.equal(by_rule[0].source, other.source)
        assert torch.equal(by_rule[0].prefix, other.prefix)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_derivatives_at_queries_of_zero_give_values_everything(alpha: float) -> None:
    generator = torch.manual_seed(3)
    states = torch.randn(2, 1, 4, 5, generator=generator).double()
    weights = torch.full((2, 1, 1, 4), 0.25).double()
    attended = Attended(torch.zeros(2, 1, 1, 5).double(), states, states, weights)
    given = torch.rand(1, 2, 3, 5, generator=generator).double()
    rules = AlphaBeta(AlphaBetaSettings(alpha))
    for one, other in zip(
        taylor(rules, "attention", attended, given), constant(rules, "attention", attended, given), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-15)


def test_other_cells_and_several_heads_are_refused() -> None:
    for settings, what in ((replace(LUONG, cell="gru"), "GRU cells"), (replace(LUONG, heads=2), "several heads")):
        with pytest.raises(ConfigError, match=f"relevance propagation does not work with this model: it has {what}"):
            LstmRelevance(Lstm(settings, VOCAB, VOCAB), Epsilon(1e-9))


def test_single_precision_finds_the_same_at_widths_that_are_compiled() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    assert_the_same_in_single_precision(prepared(Lstm(replace(LUONG, dim=16, hidden=16), VOCAB, VOCAB)), LstmRelevance)


@pytest.mark.parametrize("name", ["luong", "two_layer", "linear"])
def test_the_epsilon_rule_is_gradient_times_input_with_gates_and_weights_held(name: str) -> None:
    model = built(name, bias=False)
    some = batch(model).row(0)
    found = found_in(model, LstmRelevance(model, Epsilon(1e-12)), some)
    states, tokens = decoded(model, some)
    source, prefix = (each[0].clone().requires_grad_() for each in (some.vectors, some.prefix))
    held = held_states(model, source, prefix)
    torch.testing.assert_close(held, states[0], rtol=0, atol=1e-12)
    for step, token in enumerate(tokens[0]):
        logit = model.logits(held[step])[token]
        of_source, of_prefix = torch.autograd.grad(logit, (source, prefix), retain_graph=True)
        close(found.source[:, 0, step], source * of_source / logit)
        close(found.prefix[:, 0, step], prefix * of_prefix / logit)
        total = found.source[:, 0, step].sum() + found.prefix[:, 0, step].sum()
        close(total, torch.ones_like(total))


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected.detach(), rtol=1e-6, atol=1e-8)


def held_states(model: Lstm, source: Tensor, prefix: Tensor) -> Tensor:
    """Returns the model's states (target, dim) as a linear function of one sentence's vectors; biases are left out."""
    settings, states = model.settings, source
    finals = []
    for number in range(settings.encoder_layers):
        found = []
        for suffix in ("", "_reverse") if settings.bidirectional else ("",):
            step, last = held_cell(model.encoder, f"l{number}{suffix}"), source.new_zeros(2, settings.hidden).unbind()
            made = []
            for vector in states.flip(0) if suffix else states:
                last = step(vector, *last)
                made.append(last[0])
            found.append((torch.stack(made[::-1] if suffix else made), last))
        states = torch.cat([made for made, _ in found], -1)
        finals.append([sum(each) / len(found) for each in zip(*(last for _, last in found), strict=True)])
    running: list[Sequence[Tensor]] = [finals[layer] for layer in model.initial_layers()]
    feed, joined = source.new_zeros(settings.dim), []
    for vector in prefix:
        read = torch.cat((vector, feed)) if settings.input_feeding else vector
        for number in range(settings.decoder_layers):
            running[number] = held_cell(model.decoder, f"l{number}")(read, *running[number])
            read = running[number][0]
        weights = torch.softmax(states @ (model.bilinear.weight @ read), 0).detach()
        context = model.from_context.weight @ (weights @ states)
        if settings.output == "linear":
            feed = read + context
        elif settings.output == "luong":
            feed = constant_slope(torch.tanh, model.inner.weight @ read + context)
        else:
            feed = torch.relu(model.inner.weight @ torch.cat((read, context)))
        joined.append(feed)
    return torch.stack(joined)


def held_cell(layers: torch.nn.LSTM, suffix: str) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Returns a step of a layer whose gates are constants."""
    from_input, from_state = (getattr(layers, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh"))

    def step(read: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        admit, keep, content, show = (from_input @ read + from_state @ hidden).chunk(4)
        admit, keep, show = (torch.sigmoid(gate).detach() for gate in (admit, keep, show))
        cell = keep * cell + admit * constant_slope(torch.tanh, content)
        return show * constant_slope(torch.tanh, cell), cell

    return step


def constant_slope(function: Callable[[Tensor], Tensor], vector: Tensor) -> Tensor:
    """Returns the same numbers as the function, as multiples of its argument."""
    return vector * (function(vector) / vector).detach()
