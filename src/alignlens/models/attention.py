"""Scaled dot-product attention with several heads: a layer that looks at itself, and one that looks elsewhere.

Keys and values travel as one tensor (batch, key, 2 * dim), keys first: one matrix product makes them, and one tensor
per layer is all that step-by-step decoding has to keep.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol, cast

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
        self.project = projection(dim, 3)
        self.output = projection(dim, 1)

    def forward(self, inputs: Tensor, visible: Tensor, trace: bool) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim) for inputs of the same shape, and the layer by name if traced.

        ``visible``, broadcast to (batch, head, query, key), is True where a query may look.
        """
        query, keys_values = self._split(inputs)
        output, seen = _attend(self, query, keys_values, visible, trace)
        return output, None if seen is None else replace(seen, inputs=inputs)

    def nothing(self, like: Tensor) -> Tensor:
        """Returns the keys and values (rows, 0, 2 * dim) before the first ``step``, of the type of another tensor."""
        return like.new_empty(len(like), 0, 2 * self.output.in_features)

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
        self.query = projection(dim, 1, gain=FUSED_GAIN)
        self.project = projection(dim, 2)
        self.output = projection(dim, 1)

    def read(self, states: Tensor) -> Tensor:
        """Returns all that the layer keeps of encoder states (batch, key, dim): its keys and values, side by side."""
        return cast("Tensor", self.project(states))

    def forward(
        self, inputs: Tensor, source: Tensor, visible: Tensor, trace: bool = False
    ) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim), and the layer by name if traced.

        ``source`` is what ``read`` gave; ``visible`` is as in ``SelfAttention``.
        """
        return _attend(self, self.query(inputs), source, visible, trace)


def _attend(
    layer: SelfAttention | CrossAttention, query: Tensor, keys_values: Tensor, visible: Tensor | None, trace: bool
) -> tuple[Tensor, Attention | None]:
    keys, values = keys_values.chunk(2, dim=-1)
    query, keys, values = (by_head(part, layer.heads) for part in (query, keys, values))
    rate = layer.dropout if layer.training else 0.0
    # On a CPU the fused kernel is the faster one only without dropout; and it never tells its weights.
    if trace or (rate and query.device.type == "cpu"):
        return mixed(layer, attention_weights(query, keys, visible, exact_zeros=trace), values, trace)
    summed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=visible, dropout_p=rate)
    return _output(layer, summed), None


def mixed(
    layer: SelfAttention | CrossAttention, weights: Tensor, values: Tensor, trace: bool
) -> tuple[Tensor, Attention | None]:
    """Returns the output (batch, query, dim) of a layer that has these weights, and the layer by name if traced.

    ``weights`` are (batch, head, query, key), ``values`` (batch, head, key, head_dim).
    """
    output = _output(layer, dropout(weights, layer.dropout, layer.training) @ values)
    if not trace:
        return output, None
    return output, Attention(weights, values, projection_by_head(layer), layer.output.bias, output=output)


def _output(layer: SelfAttention | CrossAttention, summed: Tensor) -> Tensor:
    return cast("Tensor", layer.output(summed.transpose(1, 2).flatten(2)))


class Headed(Protocol):
    """A layer whose heads stand side by side in what its last projection reads."""

    heads: int
    output: nn.Linear


def projection_by_head(layer: Headed) -> Tensor:
    """Returns the output projection (head, head_dim, dim)."""
    # The matrix is stored (output, input); the input axis is the concatenation of the heads.
    return layer.output.weight.t().view(layer.heads, -1, layer.output.out_features)


def attention_weights(query: Tensor, keys: Tensor, visible: Tensor | None, exact_zeros: bool) -> Tensor:
    """Returns weights (batch, head, query, key) of queries and keys by head.

    With ``exact_zeros`` a query that may look nowhere has none, as in the fused kernel; else equal ones.
    """
    scores = scaled_products(query, keys)
    if visible is None:
        return functional.softmax(scores, -1)
    hidden = ~visible
    weights = functional.softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min), -1)
    return weights.masked_fill(hidden, 0.0) if exact_zeros else weights


def scaled_products(query: Tensor, keys: Tensor) -> Tensor:
    """Returns (batch, head, query, key): each query times each key, divided by the root of their width."""
    scores: Tensor = (query * query.shape[-1] ** -0.5) @ keys.transpose(-2, -1)
    return scores


def by_head(vectors: Tensor, heads: int) -> Tensor:
    """Returns vectors (batch, position, dim) as (batch, head, position, head_dim)."""
    batch, length, dim = vectors.shape
    return vectors.view(batch, length, heads, dim // heads).transpose(1, 2)


#: Xavier's bound for one (3 dim, dim) matrix, whatever the number of projections that are really stacked.
FUSED_GAIN = math.sqrt(0.5)


def projection(dim: int, stacked: int, gain: float | None = None) -> nn.Linear:
    """Returns as many projections as are ``stacked``, each of width ``dim``, as one layer."""
    linear = nn.Linear(dim, stacked * dim)
    for block in linear.weight.detach().chunk(stacked):
        nn.init.xavier_uniform_(block, gain=gain or (1.0 if stacked == 1 else FUSED_GAIN))
    nn.init.zeros_(linear.bias)
    return linear
