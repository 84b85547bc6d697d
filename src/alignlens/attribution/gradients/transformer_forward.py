"""The forward pass of a Transformer that keeps what backward passes need.

Tensors are laid out (position, row, dim): the positions up to a target position are then one block of memory, and
(row, head) pairs are equally spaced, so that neither products nor slices copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.attribution.gradients.contract import Forward
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.transformer import Branch, DecoderLayer, EncoderLayer, FeedForward, Transformer


@dataclass(frozen=True)
class Kept:
    """Tensors of a forward pass that can be restricted to some rows."""

    def cut(self, rows: Tensor | int) -> Self:
        """Returns the first rows, as views, or copies of the given ones."""
        return replace(self, **{field.name: _cut(getattr(self, field.name), rows) for field in fields(self)})


def _cut(value: Any, rows: Tensor | int) -> Any:
    if isinstance(value, Tensor):  # (position, row, dim)
        return value[:, :rows] if isinstance(rows, int) else value.index_select(1, rows)
    if isinstance(value, tuple):
        return tuple(_cut(item, rows) for item in value)
    return value.cut(rows) if isinstance(value, Kept) else value


def _cut_first(tensor: Tensor, rows: Tensor | int) -> Tensor:
    return tensor[:rows] if isinstance(rows, int) else tensor.index_select(0, rows)


@dataclass(frozen=True)
class Normed(Kept):
    """A layer norm: what it read, and the statistics of that."""

    inputs: Tensor
    mean: Tensor
    scale: Tensor


@dataclass(frozen=True)
class Attended(Kept):
    """An attention layer.

    ``queries`` are scaled. ``query_back`` and ``key_back`` are queries and keys of each head after the transposed key
    and query projection: what a change of one score sends back to the vectors that keys and queries were made of. They
    are kept where sentences are so short that this is the cheaper way (``_few_positions``), else None.
    """

    heads: int
    weights: Tensor  # (row * head, query, key)
    queries: Tensor  # (position, row, dim), as the next two
    keys: Tensor
    values: Tensor
    query_back: Tensor | None  # (row, query, head, dim)
    key_back: Tensor | None  # (row, key, head, dim)

    def cut(self, rows: Tensor | int) -> Self:
        """Returns the first rows, or copies of the given ones."""
        weights = _cut_first(self.weights.view(-1, self.heads, *self.weights.shape[1:]), rows).flatten(0, 1)
        others = (_cut(tensor, rows) for tensor in (self.queries, self.keys, self.values))
        backs = (None if back is None else _cut_first(back, rows) for back in (self.query_back, self.key_back))
        return type(self)(self.heads, weights, *others, *backs)


@dataclass(frozen=True)
class EncoderKept(Kept):
    """One encoder layer; ``hidden`` (position, row, ffn) is after the ReLU."""

    own: Attended
    own_norm: Normed
    hidden: Tensor
    feed_norm: Normed


@dataclass(frozen=True)
class DecoderKept(Kept):
    """One decoder layer."""

    own: Attended
    own_norm: Normed
    cross: Attended
    cross_norm: Normed
    hidden: Tensor
    feed_norm: Normed


@dataclass(frozen=True)
class TransformerForward(Forward):
    """A whole forward pass; final norms exist where norms come before the branches."""

    encoder: tuple[EncoderKept, ...]
    decoder: tuple[DecoderKept, ...]
    encoder_norm: Normed | None
    decoder_norm: Normed | None

    def cut(self, rows: Tensor | int) -> TransformerForward:
        """Returns what backward passes of the first rows, or of copies of the given ones, need."""
        parts = (self.encoder, self.decoder, self.encoder_norm, self.decoder_norm)
        return TransformerForward(self.states, self.cross, *(_cut(part, rows) for part in parts))


def run(model: Transformer, vectors: Tensor, mask: Tensor, prefix: Tensor) -> TransformerForward:
    """Returns the forward pass of source vectors (row, source, dim) and prefix vectors (row, target, dim)."""
    layers = list(cast("Iterable[DecoderLayer]", model.decoder))
    rows, length, heads = len(vectors), prefix.shape[1], layers[0].cross.heads
    hidden = (~mask).repeat_interleave(heads, 0)[:, None]  # (row * head, 1, source)
    ahead = torch.ones(length, length, dtype=torch.bool, device=prefix.device).triu(1)
    x, encoder = _placed(model, vectors), []
    for layer in cast("Iterable[EncoderLayer]", model.encoder):
        entered, before = _enter(layer.own_branch, x)
        found, own = _attend_own(layer.own, entered, hidden)
        x, own_norm = _leave(layer.own_branch, x, found, before)
        x, widened = _feed(layer.feed_forward, layer.feed_forward_branch, x)
        encoder.append(EncoderKept(own, own_norm, *widened))
    memory, encoder_norm = _final(model.encoder_norm, x)
    y, decoder = _placed(model, prefix), []
    for layer_ in layers:
        entered, before = _enter(layer_.own_branch, y)
        found, own = _attend_own(layer_.own, entered, ahead)
        y, own_norm = _leave(layer_.own_branch, y, found, before)
        entered, before = _enter(layer_.cross_branch, y)
        found, cross = _attend_cross(layer_.cross, entered, memory, hidden)
        y, cross_norm = _leave(layer_.cross_branch, y, found, before)
        y, widened = _feed(layer_.feed_forward, layer_.feed_forward_branch, y)
        decoder.append(DecoderKept(own, own_norm, cross, cross_norm, *widened))
    states, decoder_norm = _final(model.decoder_norm, y)
    weights = tuple(kept.cross.weights.view(rows, heads, length, -1) for kept in decoder)
    return TransformerForward(
        states.transpose(0, 1), weights, tuple(encoder), tuple(decoder), encoder_norm, decoder_norm
    )


def by_head(vectors: Tensor, heads: int) -> Tensor:
    """Returns (row * head, position, head_dim) of (position, row, dim), a view."""
    positions, rows, dim = vectors.shape
    return vectors.view(positions, rows, heads, dim // heads).flatten(1, 2).transpose(0, 1)


def joined(parts: Tensor, heads: int) -> Tensor:
    """Returns (position, row, dim) of (row * head, position, head_dim)."""
    return parts.transpose(0, 1).reshape(parts.shape[1], -1, heads * parts.shape[2])


def through_heads(vectors: Tensor, weight: Tensor, heads: int) -> Tensor:
    """Returns (row, position, head, dim): the part of each head of (position, row, dim) times its rows of a weight."""
    positions, rows, dim = vectors.shape
    parts = vectors.view(positions, rows, heads, dim // heads).permute(2, 1, 0, 3).reshape(heads, -1, dim // heads)
    found = torch.empty(rows, positions, heads, weight.shape[-1], dtype=vectors.dtype, device=vectors.device)
    for head, (part, its_weight) in enumerate(zip(parts, weight.view(heads, dim // heads, -1), strict=True)):
        torch.mm(part, its_weight, out=found.view(rows * positions, heads, -1)[:, head])
    return found


def _placed(model: Transformer, vectors: Tensor) -> Tensor:
    """Returns token vectors with their positions, (position, row, dim)."""
    positions: Tensor = model.positions(0, vectors.shape[1])
    return vectors.transpose(0, 1) + positions[:, None]


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


def _feed(layer: FeedForward, branch: Branch, states: Tensor) -> tuple[Tensor, tuple[Tensor, Normed]]:
    entered, before = _enter(branch, states)
    hidden = functional.linear(entered, layer.widen.weight, layer.widen.bias).relu_()
    found = functional.linear(hidden, layer.narrow.weight, layer.narrow.bias)
    states, norm = _leave(branch, states, found, before)
    return states, (hidden, norm)


def _attend_own(layer: SelfAttention, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Attended]:
    weights = layer.project.weight.chunk(3)
    parts = zip(weights, layer.project.bias.chunk(3), strict=True)
    queries, keys, values = (functional.linear(inputs, weight, bias) for weight, bias in parts)
    return _attend(layer, queries, keys, values, hidden, weights[:2])


def _attend_cross(layer: CrossAttention, inputs: Tensor, memory: Tensor, hidden: Tensor) -> tuple[Tensor, Attended]:
    queries = functional.linear(inputs, layer.query.weight, layer.query.bias)
    weights = layer.project.weight.chunk(2)
    parts = zip(weights, layer.project.bias.chunk(2), strict=True)
    keys, values = (functional.linear(memory, weight, bias) for weight, bias in parts)
    return _attend(layer, queries, keys, values, hidden, (layer.query.weight, weights[0]))


def _attend(
    layer: SelfAttention | CrossAttention,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    hidden: Tensor,
    projections: tuple[Tensor, ...],
) -> tuple[Tensor, Attended]:
    """Returns the output (query, row, dim) of attention that may not look where ``hidden``."""
    heads, dim = layer.heads, queries.shape[-1]
    scale = (dim // heads) ** -0.5
    queries = queries.mul_(scale)
    scores = torch.bmm(by_head(queries, heads), by_head(keys, heads).transpose(1, 2))
    weights = torch.softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min), -1)
    if hidden.shape[-2] == 1:
        weights.masked_fill_(hidden, 0.0)
    mixed = joined(torch.bmm(weights, by_head(values, heads)), heads)
    output = functional.linear(mixed, layer.output.weight, layer.output.bias)
    backs: tuple[Tensor | None, Tensor | None] = (None, None)
    if _few_positions(len(queries), len(keys), heads, dim):
        to_query, to_keys = projections
        query_back = through_heads(queries, to_keys, heads)
        key_back = through_heads(keys, to_query, heads).mul_(scale)
        backs = query_back, key_back
    return output, Attended(heads, weights, queries, keys, values, *backs)


def _few_positions(queries: int, keys: int, heads: int, dim: int) -> bool:
    """Returns whether combining ready vectors, one per position and head, is cheaper than a product with a matrix."""
    return heads * max(queries, keys) <= dim // 2
