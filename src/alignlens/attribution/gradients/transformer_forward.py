"""The forward pass of a Transformer that keeps what backward passes need, row by row (row, position, dim)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.attribution.gradients.contract import Forward
from alignlens.models.attention import CrossAttention, SelfAttention, projection_by_head
from alignlens.models.contract import Attention
from alignlens.models.transformer import Branch, DecoderLayer, EncoderLayer, FeedForward, Transformer


class Normed(NamedTuple):
    """A layer norm: what it read, and the statistics of that."""

    inputs: Tensor  # (row, position, dim)
    mean: Tensor  # (row, position, 1)
    scale: Tensor

    def at(self, positions: slice) -> Normed:
        """Returns some positions."""
        return Normed(self.inputs[:, positions], self.mean[:, positions], self.scale[:, positions])


class Fed(NamedTuple):
    """A feed-forward net: the slopes of its activation, of a ReLU 1 where it let something through, else 0."""

    slopes: Tensor  # (row, position, ffn)
    norm: Normed

    def at(self, positions: slice) -> Fed:
        """Returns some positions."""
        return Fed(self.slopes[:, positions], self.norm.at(positions))


class Attended(NamedTuple):
    """An attention layer, by head.

    ``query_back`` and ``key_back`` are queries and keys after the transposed key and query projection: what a change
    of one score sends back to the vectors that keys and queries were made of (``transformer_layers.made_ready``).
    """

    weights: Tensor  # (row, head, query, key)
    queries: Tensor  # (row, head, query, head_dim), scaled
    keys: Tensor  # (row, head, key, head_dim), as the values
    values: Tensor
    norm: Normed
    query_back: Tensor | None = None  # (row, head, query, dim)
    key_back: Tensor | None = None  # (row, head, key, dim)

    def at(self, queries: slice, keys: slice = slice(None)) -> Attended:
        """Returns some queries and keys."""
        return Attended(
            self.weights[:, :, queries, keys],
            self.queries[:, :, queries],
            self.keys[:, :, keys],
            self.values[:, :, keys],
            self.norm.at(queries),
            None if self.query_back is None else self.query_back[:, :, queries],
            None if self.key_back is None else self.key_back[:, :, keys],
        )


class EncoderKept(NamedTuple):
    """One encoder layer."""

    own: Attended
    feed: Fed


class DecoderKept(NamedTuple):
    """One decoder layer."""

    own: Attended
    cross: Attended
    feed: Fed


@dataclass(frozen=True)
class TransformerForward(Forward):
    """A whole forward pass; final norms exist where norms come before the branches, the entry's if it has one."""

    encoder: tuple[EncoderKept, ...]
    decoder: tuple[DecoderKept, ...]
    encoder_norm: Normed | None
    decoder_norm: Normed | None
    source_entry: Normed | None  # of the source; nothing goes back to the prefix


def cut(value: Any, rows: slice) -> Any:
    """Returns some rows of all tensors in something kept, as views."""
    if isinstance(value, Tensor):
        return value[rows]
    if isinstance(value, Attention):
        return replace(value, weights=value.weights[rows], values=value.values[rows])
    if isinstance(value, TransformerForward):
        return TransformerForward(*(cut(getattr(value, field.name), rows) for field in fields(value)))
    if isinstance(value, tuple):
        parts = (cut(part, rows) for part in value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def run(model: Transformer, vectors: Tensor, mask: Tensor, prefix: Tensor) -> TransformerForward:
    """Returns the forward pass of source vectors (row, source, dim) and prefix vectors (row, target, dim)."""
    hidden = ~mask[:, None, None]
    length = prefix.shape[1]
    ahead = torch.ones(length, length, dtype=torch.bool, device=prefix.device).triu(1)
    x, source_entry = _final(model.source_entry.norm, model.source_entry.placed(vectors))
    encoder = []
    for layer in cast("Iterable[EncoderLayer]", model.encoder):
        x, own = _attend_own(layer.own, layer.own_branch, x, hidden)
        x, fed = _feed(layer.feed_forward, layer.feed_forward_branch, x)
        encoder.append(EncoderKept(own, fed))
    memory, encoder_norm = _final(model.encoder_norm, x)
    y, _ = _final(model.target_entry.norm, model.target_entry.placed(prefix))
    decoder = list[DecoderKept]()
    for layer_ in cast("Iterable[DecoderLayer]", model.decoder):
        y, own = _attend_own(layer_.own, layer_.own_branch, y, ahead)
        y, cross = _attend_cross(layer_.cross, layer_.cross_branch, y, memory, hidden)
        y, fed = _feed(layer_.feed_forward, layer_.feed_forward_branch, y)
        decoder.append(DecoderKept(own, cross, fed))
    states, decoder_norm = _final(model.decoder_norm, y)
    layers = cast("Iterable[DecoderLayer]", model.decoder)
    seen = tuple(_named(layer.cross, kept.cross) for layer, kept in zip(layers, decoder, strict=True))
    return TransformerForward(states, seen, tuple(encoder), tuple(decoder), encoder_norm, decoder_norm, source_entry)


def _named(layer: CrossAttention, kept: Attended) -> Attention:
    return Attention(kept.weights, kept.values, projection_by_head(layer), layer.output.bias)


def _normed(norm: nn.LayerNorm, inputs: Tensor) -> tuple[Tensor, Normed]:
    outputs, mean, scale = torch.native_layer_norm(inputs, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return outputs, Normed(inputs, mean, scale)


def _final(norm: nn.Module, states: Tensor) -> tuple[Tensor, Normed | None]:
    return _normed(norm, states) if isinstance(norm, nn.LayerNorm) else (states, None)


def _enter(branch: Branch, states: Tensor) -> tuple[Tensor, Normed | None]:
    return _normed(branch.norm, states) if branch.norm_first else (states, None)


def _leave(branch: Branch, states: Tensor, found: Tensor, before: Normed | None) -> tuple[Tensor, Normed]:
    """Returns the states with the branch's output added, and the branch's norm, which was ``before`` or is here."""
    found += states
    return _normed(branch.norm, found) if before is None else (found, before)


def _feed(layer: FeedForward, branch: Branch, states: Tensor) -> tuple[Tensor, Fed]:
    entered, before = _enter(branch, states)
    widened = functional.linear(entered, layer.widen.weight, layer.widen.bias)
    hidden = layer.activation.of(widened)
    found = functional.linear(hidden, layer.narrow.weight, layer.narrow.bias)
    states, norm = _leave(branch, states, found, before)
    return states, Fed(layer.activation.slope(widened, hidden), norm)


def _attend_own(layer: SelfAttention, branch: Branch, states: Tensor, hidden: Tensor) -> tuple[Tensor, Attended]:
    entered, before = _enter(branch, states)
    return _attend(layer, branch, states, before, _by_head(layer.project(entered), 3, layer.heads), hidden)


def _attend_cross(
    layer: CrossAttention, branch: Branch, states: Tensor, memory: Tensor, hidden: Tensor
) -> tuple[Tensor, Attended]:
    entered, before = _enter(branch, states)
    projected = (*_by_head(layer.query(entered), 1, layer.heads), *_by_head(layer.project(memory), 2, layer.heads))
    return _attend(layer, branch, states, before, projected, hidden)


def _by_head(projected: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """Returns the parts of (row, position, parts * dim), each (row, head, position, head_dim)."""
    rows, positions = projected.shape[:2]
    return projected.view(rows, positions, parts, heads, -1).permute(2, 0, 3, 1, 4).contiguous().unbind()


def _attend(
    layer: SelfAttention | CrossAttention,
    branch: Branch,
    states: Tensor,
    before: Normed | None,
    projected: tuple[Tensor, ...],
    hidden: Tensor,
) -> tuple[Tensor, Attended]:
    """Returns the states after attention that may not look where ``hidden``, and what is kept of it."""
    queries, keys, values = projected
    queries *= queries.shape[-1] ** -0.5
    scores = torch.matmul(queries, keys.transpose(2, 3))
    weights = torch.softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min), -1)
    if hidden.shape[-2] == 1:
        weights.masked_fill_(hidden, 0.0)
    mixed = torch.matmul(weights, values).transpose(1, 2).flatten(2)
    found = functional.linear(mixed, layer.output.weight, layer.output.bias)
    states, norm = _leave(branch, states, found, before)
    return states, Attended(weights, queries, keys, values, norm)
