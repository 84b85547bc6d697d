"""Backward passes of the Transformer against automatic differentiation, for every way they take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

ROWS, SOURCE, TARGET = 7, 6, 5
LENGTHS = (6, 3, 5, 6, 1, 2, 6)


def model_of(norm: str = "post", layers: tuple[int, int] = (2, 3), dim: int = 16, heads: int = 4) -> Transformer:
    torch.manual_seed(0)
    encoder_layers, decoder_layers = layers
    settings = TransformerSettings(
        dim=dim, ffn=24, heads=heads, encoder_layers=encoder_layers, decoder_layers=decoder_layers, norm=norm
    )
    model = Transformer(settings, 11, 13).double().eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # norms and biases start as ones and zeros, which would hide a missing factor
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def inputs(dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    vectors, prefix = torch.randn(ROWS, SOURCE, dim).double(), torch.randn(ROWS, TARGET, dim).double()
    mask = torch.arange(SOURCE) < torch.tensor(LENGTHS)[:, None]
    return vectors, mask, prefix, torch.randn(ROWS, TARGET, dim).double()


def collected(passes: TransformerGradients | AutogradGradients, wanted: Tensor, dim: int) -> dict[tuple, Tensor]:
    vectors, mask, prefix, cotangents = inputs(dim)
    with torch.no_grad():
        found = list(passes.backward(passes.forward(vectors, mask, prefix), cotangents, wanted))
    pairs = {
        (int(row), int(position)): gradient
        for each in found
        for row, positions, gradients in zip(each.rows, each.positions, each.vectors, strict=True)
        for position, gradient in zip(positions, gradients, strict=True)
        if position >= 0
    }
    assert len(pairs) == sum(int((each.positions >= 0).sum()) for each in found)
    return pairs


def wanted_sets() -> dict[str, Tensor]:
    everything = torch.ones(ROWS, TARGET, dtype=torch.bool)
    first = everything.clone()
    first[4:, 2:] = False
    few = torch.zeros_like(everything)
    few[5, 1] = few[1, 1] = few[6, 4] = True
    most = everything.clone()
    most[2] = False
    return {"everything": everything, "first rows": first, "few rows": few, "most rows": most}


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


@pytest.mark.parametrize("wanted", wanted_sets())
@pytest.mark.parametrize(("dim", "heads"), [(16, 4), (64, 2)])
@pytest.mark.parametrize("layers", [(1, 1), (3, 2)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_products_equal_gradients_times_vectors(
    norm: str, layers: tuple[int, int], dim: int, heads: int, wanted: str
) -> None:
    """The lowest layer is gone through forwards: another way, the same numbers."""
    passes, chosen = TransformerGradients(model_of(norm, layers, dim, heads)), wanted_sets()[wanted]
    vectors, mask, prefix, cotangents = inputs(dim)
    along = torch.randn_like(vectors)
    expected = collected(passes, chosen, dim)
    with torch.no_grad():
        forward = passes.forward(vectors, mask, prefix)
        found = {
            (int(row), int(position)): value
            for each in passes.products(forward, cotangents, chosen, along)
            for row, positions, values in zip(each.rows, each.positions, each.values, strict=True)
            for position, value in zip(positions, values, strict=True)
            if position >= 0
        }
    assert set(found) == set(expected)
    for (row, position), value in found.items():
        product = (expected[row, position] * along[row]).sum(-1)
        torch.testing.assert_close(value, product, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_forward_pass_is_the_model_s(norm: str) -> None:
    model = model_of(norm)
    vectors, mask, prefix, _ = inputs(16)
    with torch.no_grad():
        found = TransformerGradients(model).forward(vectors, mask, prefix)
        decoded = model.decode(model.encode(vectors, mask), prefix, trace=True)
    torch.testing.assert_close(found.states, decoded.states, rtol=0, atol=1e-12)
    for weights, layer in zip(found.cross, decoded.cross, strict=True):
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
