"""Scaled dot-product attention with several heads: a layer that looks at itself, and one that looks elsewhere.

Keys and values travel as one tensor (batch, key, 2 * dim), keys first: one matrix product makes them, and one tensor
per layer is all that step-by-step decoding has to keep.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.models.contract import Attention
from alignlens.models.dropout import dropout


class SelfAttention(nn.Module):
    """Queries, keys and values from the same vectors."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.project = _projection(dim, 3)
        self.output = _projection(dim, 1)

    def forward(self, inputs: Tensor, visible: Tensor, trace: bool) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim) for inputs of the same shape, and the layer by name if traced.

        ``visible``, broadcast to (batch, head, query, key), is True where a query may look.
        """
        query, keys_values = self._split(inputs)
        output, seen = _attend(self, query, keys_values, visible, trace)
        return output, None if seen is None else replace(seen, inputs=inputs)

    def step(self, inputs: Tensor, earlier: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the output (rows, 1, dim) for one more input, and the keys and values including it."""
        query, keys_values = self._split(inputs)
        keys_values = torch.cat((earlier, keys_values), dim=1)
        return _attend(self, query, keys_values, None, False)[0], keys_values

    def _split(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        dim = inputs.shape[-1]
        query, keys_values = self.project(inputs).split((dim, 2 * dim), dim=-1)
        return query, keys_values


class CrossAttention(nn.Module):
    """Queries from the decoder, keys and values from the encoder."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = _projection(dim, 1, gain=_FUSED_GAIN)
        self.project = _projection(dim, 2)
        self.output = _projection(dim, 1)

    def forward(
        self, inputs: Tensor, keys_values: Tensor, visible: Tensor, trace: bool = False
    ) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim), and the layer by name if traced.

        ``keys_values`` is ``project`` of the encoder states; ``visible`` is as in ``SelfAttention``.
        """
        return _attend(self, self.query(inputs), keys_values, visible, trace)


def _attend(
    layer: SelfAttention | CrossAttention, query: Tensor, keys_values: Tensor, visible: Tensor | None, trace: bool
) -> tuple[Tensor, Attention | None]:
    keys, values = keys_values.chunk(2, dim=-1)
    query, keys, values = (_by_head(part, layer.heads) for part in (query, keys, values))
    rate = layer.dropout if layer.training else 0.0
    weights: Tensor | None = None
    # On a CPU the fused kernel is the faster one only without dropout; and it never tells its weights.
    if trace or (rate and query.device.type == "cpu"):
        weights = _weights(query, keys, visible, exact_zeros=trace)
        mixed = dropout(weights, rate, layer.training) @ values
    else:
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=visible, dropout_p=rate)
    output = layer.output(mixed.transpose(1, 2).flatten(2))
    if not trace or weights is None:
        return output, None
    projection = projection_by_head(layer)
    return output, Attention(weights, values, projection, layer.output.bias, output=output)


def projection_by_head(layer: SelfAttention | CrossAttention) -> Tensor:
    """Returns the output projection (head, head_dim, dim)."""
    # The matrix is stored (output, input); the input axis is the concatenation of the heads.
    return layer.output.weight.t().view(layer.heads, -1, layer.output.out_features)


def _weights(query: Tensor, keys: Tensor, visible: Tensor | None, exact_zeros: bool) -> Tensor:
    """Returns weights (batch, head, query, key).

    With ``exact_zeros`` a query that may look nowhere has none, as in the fused kernel; else equal ones.
    """
    scores: Tensor = (query * query.shape[-1] ** -0.5) @ keys.transpose(-2, -1)
    if visible is None:
        return functional.softmax(scores, -1)
    hidden = ~visible
    weights = functional.softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min), -1)
    return weights.masked_fill(hidden, 0.0) if exact_zeros else weights


def _by_head(vectors: Tensor, heads: int) -> Tensor:
    batch, length, dim = vectors.shape
    return vectors.view(batch, length, heads, dim // heads).transpose(1, 2)


#: Xavier's bound for one (3 dim, dim) matrix, whatever the number of projections that are really stacked.
_FUSED_GAIN = math.sqrt(0.5)


def _projection(dim: int, stacked: int, gain: float | None = None) -> nn.Linear:
    linear = nn.Linear(dim, stacked * dim)
    for block in linear.weight.detach().chunk(stacked):
        nn.init.xavier_uniform_(block, gain=gain or (1.0 if stacked == 1 else _FUSED_GAIN))
    nn.init.zeros_(linear.bias)
    return linear
