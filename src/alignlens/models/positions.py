"""Where token vectors enter a stack of layers: each position adds a vector, and the sum may be normed."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from alignlens.models.dropout import dropout
from alignlens.models.settings import TransformerSettings

_FIRST_OF_FAIRSEQ = 2  # of its sinusoids: it counts positions from behind padding, whose id is 1


class Sinusoids(nn.Module):
    """Sine and cosine of each position at wavelengths from 2 pi to 10000 * 2 pi (Vaswani et al., section 3.5)."""

    table: Tensor

    def __init__(self, dim: int, layout: str, at_first: int = 1024) -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("table", _sinusoids(at_first, dim, layout), persistent=False)

    def forward(self, start: int, stop: int) -> Tensor:
        """Returns vectors (stop - start, dim); the table is a cache and grows as needed."""
        if stop > len(self.table):
            longer = _sinusoids(max(stop, 2 * len(self.table)), self.table.shape[1], self.layout)
            self.table = longer.to(self.table)
        return self.table[start:stop]


class LearnedPositions(nn.Module):
    """A trained vector for each position."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(count, dim))
        nn.init.normal_(self.table, std=dim**-0.5)

    def forward(self, start: int, stop: int) -> Tensor:
        """Returns vectors (stop - start, dim)."""
        return self.table[start:stop]


class Entry(nn.Module):
    """The entry of token vectors into encoder or decoder."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.positions: nn.Module = (
            Sinusoids(settings.dim, settings.sinusoids)
            if settings.max_positions is None
            else LearnedPositions(settings.max_positions, settings.dim)
        )
        self.norm = nn.LayerNorm(settings.dim) if settings.norm_embeddings else nn.Identity()
        self.dropout = settings.dropout

    def placed(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Returns token vectors (batch, position, dim) with their positions added; ``norm`` reads them."""
        return vectors + cast("Tensor", self.positions(start, start + vectors.shape[1]))

    def forward(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Returns what the first layer reads."""
        return dropout(self.norm(self.placed(vectors, start)), self.dropout, self.training)


def _sinusoids(length: int, dim: int, layout: str) -> Tensor:
    # fairseq's longest wavelength is exactly 10000 times the shortest one, that of the paper a step below it.
    steps = dim if layout != "fairseq" else max(dim - 2, 1)
    first = _FIRST_OF_FAIRSEQ if layout == "fairseq" else 0
    frequency = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10000.0) / steps))
    angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * frequency
    by_turns = -1 if layout == "interleaved" else 1
    return torch.stack((angle.sin(), angle.cos()), dim=by_turns).flatten(1).to(torch.get_default_dtype())
