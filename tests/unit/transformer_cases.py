"""Small Transformers, inputs and choices of target positions for tests of backward passes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alignlens.attribution.gradients.contract import SourceGradients
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

ROWS, SOURCE, TARGET = 7, 6, 5
LENGTHS = (6, 3, 5, 6, 1, 2, 6)

#: Ways of token vectors into the model that BART and M2M100 have.
ENTRIES: list[dict[str, Any]] = [
    {"norm_embeddings": True, "max_positions": 9, "scale_embeddings": False, "activation": "gelu"},
    {"norm_embeddings": True},
    {"sinusoids": "fairseq"},
]


def model_of(
    norm: str = "post", layers: tuple[int, int] = (2, 3), dim: int = 16, heads: int = 4, **changes: Any
) -> Transformer:
    torch.manual_seed(0)
    encoder_layers, decoder_layers = layers
    settings = TransformerSettings(
        dim=dim, ffn=24, heads=heads, encoder_layers=encoder_layers, decoder_layers=decoder_layers, norm=norm, **changes
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


def collected(
    passes: SourceGradients[Any],
    wanted: Tensor,
    dim: int,
    along: Tensor | None = None,
    dtype: torch.dtype = torch.double,
) -> dict[tuple[int, int], Tensor]:
    """Returns the gradient of every (row, position), times ``along`` if that is given."""
    vectors, mask, prefix, cotangents = (part.to(dtype) if part.is_floating_point() else part for part in inputs(dim))
    with torch.no_grad():
        forward = passes.forward(vectors, mask, prefix)
        if along is None:
            found = [(each, each.vectors) for each in passes.backward(forward, cotangents, wanted)]
        else:
            products = passes.products(forward, cotangents, wanted, along.to(dtype))
            found = [(each, each.values) for each in products]
    pairs = {
        (int(row), int(position)): value
        for each, values_of_rows in found
        for row, positions, values in zip(each.rows, each.positions, values_of_rows, strict=True)
        for position, value in zip(positions, values, strict=True)
        if position >= 0
    }
    assert len(pairs) == sum(int((each.positions >= 0).sum()) for each, _ in found)
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
