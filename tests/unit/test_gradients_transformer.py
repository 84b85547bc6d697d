"""Backward passes of the Transformer against automatic differentiation, for every way they take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformer_cases import ENTRIES, ROWS, TARGET, collected, inputs, model_of, wanted_sets

from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer


@pytest.mark.parametrize("wanted", wanted_sets())
@pytest.mark.parametrize(("dim", "heads"), [(16, 4), (16, 1), (64, 2)])  # many and few positions for the width
@pytest.mark.parametrize("layers", [(1, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_equal_automatic_ones(norm: str, layers: tuple[int, int], dim: int, heads: int, wanted: str) -> None:
    model, chosen = model_of(norm, layers, dim, heads), wanted_sets()[wanted]
    found = collected(TransformerGradients(model), chosen, dim)
    expected = collected(AutogradGradients(model), chosen, dim)
    assert set(found) == set(expected) == {tuple(pair) for pair in chosen.nonzero().tolist()}
    for pair, gradient in found.items():
        torch.testing.assert_close(gradient, expected[pair], rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ["swish", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_slopes_of_other_activations(norm: str, activation: str) -> None:
    model, everything = model_of(norm, activation=activation, sinusoids="halves"), wanted_sets()["everything"]
    expected = collected(AutogradGradients(model), everything, 16)
    for pair, gradient in collected(TransformerGradients(model), everything, 16).items():
        torch.testing.assert_close(gradient, expected[pair], rtol=0, atol=1e-10)


@pytest.mark.parametrize("wanted", wanted_sets())
@pytest.mark.parametrize(("dim", "heads"), [(16, 4), (64, 2)])
@pytest.mark.parametrize("layers", [(1, 1), (3, 2)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_products_equal_gradients_times_vectors(
    norm: str, layers: tuple[int, int], dim: int, heads: int, wanted: str
) -> None:
    """The lowest layer is gone through forwards: another way, the same numbers."""
    passes, chosen = TransformerGradients(model_of(norm, layers, dim, heads)), wanted_sets()[wanted]
    along = torch.randn_like(inputs(dim)[0])
    expected, found = collected(passes, chosen, dim), collected(passes, chosen, dim, along)
    assert set(found) == set(expected)
    for (row, position), value in found.items():
        product = (expected[row, position] * along[row]).sum(-1)
        torch.testing.assert_close(value, product, rtol=0, atol=1e-10)


@pytest.mark.parametrize("wanted", ["everything", "few rows"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_other_entries_of_token_vectors(entry: dict[str, Any], norm: str, wanted: str) -> None:
    """With few starts products go all the way down, with many the lowest layer is gone through forwards."""
    model, chosen = model_of(norm, **entry), wanted_sets()[wanted]
    passes, along = TransformerGradients(model), torch.randn_like(inputs(16)[0])
    expected = collected(AutogradGradients(model), chosen, 16)
    products = collected(passes, chosen, 16, along)
    for pair, gradient in collected(passes, chosen, 16).items():
        torch.testing.assert_close(gradient, expected[pair], rtol=0, atol=1e-10)
        product = (expected[pair] * along[pair[0]]).sum(-1)
        torch.testing.assert_close(products[pair], product, rtol=0, atol=1e-10)


@pytest.mark.parametrize("entry", [{}, *ENTRIES])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_forward_pass_is_the_model_s(norm: str, entry: dict[str, Any]) -> None:
    model = model_of(norm, **entry)
    vectors, mask, prefix, _ = inputs(16)
    with torch.no_grad():
        found = TransformerGradients(model).forward(vectors, mask, prefix)
        decoded = model.decode(model.encode(vectors, mask), prefix, trace=True)
    torch.testing.assert_close(found.states, decoded.states, rtol=0, atol=1e-12)
    for weights, layer in zip((layer.weights for layer in found.cross), decoded.cross, strict=True):
        torch.testing.assert_close(weights, layer.weights, rtol=0, atol=1e-12)


def test_nothing_wanted_gives_nothing() -> None:
    assert not collected(TransformerGradients(model_of()), torch.zeros(ROWS, TARGET, dtype=torch.bool), 16)


def test_a_changed_class_is_differentiated_automatically() -> None:
    """Explicit passes know one class; a subclass may compute something else."""

    class Changed(Transformer):
        pass

    assert isinstance(source_gradients(model_of()), TransformerGradients)
    settings = TransformerSettings(dim=16, ffn=24, heads=4, encoder_layers=1, decoder_layers=1)
    assert isinstance(source_gradients(Changed(settings, 11, 13)), AutogradGradients)
