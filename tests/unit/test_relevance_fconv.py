"""Relevance in the FConv: the slow way, what is conserved, what is zero, and gradients with gates held constant."""

from __future__ import annotations

import math
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
from relevance_oracle_recurrent import fconv
from torch import Tensor
from torch.nn import functional

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.epsilon import Epsilon
from alignlens.attribution.relevance.fconv import FconvRelevance
from alignlens.errors import ConfigError
from alignlens.models.fconv import Fconv, windows
from alignlens.models.settings import FconvSettings

HALF = math.sqrt(0.5)
PLAIN = FconvSettings(dim=6, hidden=7, encoder_layers=2, decoder_layers=2, max_positions=9)
VARIANTS = {
    "width_3": PLAIN,
    "width_2": replace(PLAIN, width=2, dim=5, embeddings="shared_tied", scale_encoder_gradient=False),
    "width_5": replace(PLAIN, width=5, decoder_layers=3),
    "width_9": replace(PLAIN, width=9, encoder_layers=1, decoder_layers=1),
}
EVERY = pytest.mark.parametrize("name", VARIANTS)


def built(name: str, bias: bool = True) -> Fconv:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return prepared(Fconv(VARIANTS[name], VOCAB, VOCAB), bias=bias)


@EVERY
def test_states_are_those_that_the_model_decodes(name: str) -> None:
    model = built(name)
    some = batch(model)
    states, tokens = decoded(model, some)
    found = FconvRelevance(model, Epsilon(1e-9)).read(*some)
    torch.testing.assert_close(found.transpose(0, 1), states, rtol=0, atol=1e-12)
    slow = fconv(model, Oracle(SETTINGS[0]), some.vectors[0], some.prefix[0], int(tokens[0, -1]))[2]
    torch.testing.assert_close(slow, states[0, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_relevance_is_what_a_tape_of_the_sentence_says(settings: AlphaBetaSettings) -> None:
    assert difference(built("width_3"), FconvRelevance, fconv, settings) < 1e-10


@pytest.mark.parametrize("settings", [SETTINGS[1], SETTINGS[5]], ids=str)
@pytest.mark.parametrize("name", ["width_2", "width_5", "width_9"])
def test_so_it_is_for_windows_of_every_width(name: str, settings: AlphaBetaSettings) -> None:
    assert difference(built(name), FconvRelevance, fconv, settings) < 1e-10


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[4]], ids=str)
@EVERY
def test_rescaled_relevance_of_source_and_prefix_is_one(name: str, settings: AlphaBetaSettings) -> None:
    model = built(name)
    assert_conserved(found_in(model, FconvRelevance(model, AlphaBeta(settings)), batch(model)))


@EVERY
def test_nothing_comes_to_later_tokens_and_to_padding(name: str) -> None:
    model = built(name)
    assert_nothing_beyond(found_in(model, FconvRelevance(model, AlphaBeta(SETTINGS[0])), batch(model)))


def test_nothing_comes_to_tokens_that_no_window_reaches() -> None:
    model = prepared(Fconv(replace(PLAIN, width=2, decoder_layers=1), VOCAB, VOCAB))
    found = found_in(model, FconvRelevance(model, AlphaBeta(SETTINGS[0])), batch(model))
    assert not found.prefix[0, :, 2].any()
    assert found.prefix[1, :, 2].any()


@EVERY
def test_rows_in_a_batch_are_what_they_are_alone(name: str) -> None:
    assert_the_same_alone(built(name), FconvRelevance)


def test_single_precision_finds_the_same_at_widths_that_are_compiled() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    assert_the_same_in_single_precision(
        prepared(Fconv(replace(PLAIN, dim=16, hidden=16), VOCAB, VOCAB)), FconvRelevance
    )


def test_sentences_beyond_the_learned_positions_are_refused() -> None:
    model = built("width_3")
    some = batch(model)
    with pytest.raises(ConfigError, match="max_positions"):
        FconvRelevance(model, Epsilon(1e-9)).read(some.vectors, some.mask, some.prefix.repeat(1, 4, 1))


@pytest.mark.parametrize("name", ["width_3", "width_2"])
def test_the_epsilon_rule_is_gradient_times_input_with_gates_and_weights_held(name: str) -> None:
    model = built(name, bias=False)
    some = batch(model).row(0)
    found = found_in(model, FconvRelevance(model, Epsilon(1e-12)), some)
    states, tokens = decoded(model, some)
    source, prefix = (
        (vectors[0] + positions[: vectors.shape[1]]).detach().requires_grad_()
        for vectors, positions in ((some.vectors, model.source_positions), (some.prefix, model.target_positions))
    )
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


def held_states(model: Fconv, source: Tensor, prefix: Tensor) -> Tensor:
    """Returns the model's states (target, dim) as a linear function of one sentence's vectors with positions."""
    width = model.settings.width
    x = model.encoder_in(source)
    for convolution in model.encoder:
        x = (held_unit(convolution, x, (width - 1) // 2, width // 2) + x) * HALF
    memory = model.encoder_out(x)
    values = (memory + source) * math.sqrt(len(source) / 2)
    x = model.decoder_in(prefix)
    for layer in model.decoder:
        convolved = held_unit(layer.convolution, x, width - 1, 0)
        weights = torch.softmax((layer.query(convolved) + prefix) * HALF @ memory.t(), -1).detach()
        x = ((convolved + layer.attended(weights @ values)) * HALF + x) * HALF
    found: Tensor = model.decoder_out(x)
    return found


def held_unit(convolution: torch.nn.Linear, x: Tensor, before: int, after: int) -> Tensor:
    """Returns what a gated convolution makes of a sentence if its gates are constants."""
    read = windows(functional.pad(x, (0, 0, before, after))[None], before + 1 + after)[0]
    content, gate = convolution(read).chunk(2, -1)
    return content * torch.sigmoid(gate).detach()
