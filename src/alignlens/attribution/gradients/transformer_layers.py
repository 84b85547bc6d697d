"""Steps backwards through the parts of a Transformer; gradients are (row, position, start, dim).

Whatever the forward pass kept serves all starts of a row. An attention layer is gone through in three ways: from all
positions; from queries that are one position with one start each, as at the top of the decoder; and forwards.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from alignlens.attribution.gradients.transformer_forward import Attended, Fed, Normed
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.transformer import Branch, FeedForward


def made_ready(layer: SelfAttention | CrossAttention, kept: Attended) -> Attended:
    """Returns an attention layer with the vectors that keys and queries send back, if combining them is cheaper.

    That is, one for each position and head: cheaper than a product with the projection while sentences are short.
    """
    heads, queries, keys = kept.weights.shape[1:]
    dim = heads * kept.keys.shape[-1]
    if heads * max(queries, keys) > dim:
        return kept
    if isinstance(layer, SelfAttention):
        to_query, to_keys, _ = layer.project.weight.chunk(3)
    else:
        to_query, to_keys = layer.query.weight, layer.project.weight.chunk(2)[0]
    key_back = _through_heads(kept.keys, to_query).mul_(kept.keys.shape[-1] ** -0.5)
    return kept._replace(query_back=_through_heads(kept.queries, to_keys), key_back=key_back)


def norm_backward(norm: nn.Module, kept: Normed, grad: Tensor) -> Tensor:
    """Returns the gradient of what a layer norm read."""
    layer = cast("nn.LayerNorm", norm)
    starts = grad.shape[2]
    # The kernel reads the statistics as if they were contiguous, whatever they are.
    inputs, mean, scale = (
        part[:, :, None].expand(-1, -1, starts, -1).contiguous() for part in (kept.inputs, kept.mean, kept.scale)
    )
    found = torch.ops.aten.native_layer_norm_backward(
        grad, inputs, layer.normalized_shape, mean, scale, layer.weight, layer.bias, (True, False, False)
    )
    return cast("Tensor", found[0])


def before_branch(branch: Branch, norm: Normed, grad: Tensor) -> Tensor:
    """Returns the gradient of the sum of states and branch output."""
    return grad if branch.norm_first else norm_backward(branch.norm, norm, grad)


def after_branch(branch: Branch, norm: Normed, into: Tensor, found: Tensor) -> Tensor:
    """Returns the gradient of the states before the branch, of that of the sum and that of what the branch read."""
    if branch.norm_first:
        found = norm_backward(branch.norm, norm, found)
    return found.add_(into)


def feed_backward(layer: FeedForward, branch: Branch, kept: Fed, grad: Tensor) -> Tensor:
    """Returns the gradient of the states before a feed-forward branch."""
    into = before_branch(branch, kept.norm, grad)
    widened = torch.matmul(into, layer.narrow.weight).mul_(kept.slopes[:, :, None])
    if branch.norm_first:
        return norm_backward(branch.norm, kept.norm, torch.matmul(widened, layer.widen.weight)).add_(into)
    return _add_product(into, widened, layer.widen.weight)


def own_backward(layer: SelfAttention, branch: Branch, kept: Attended, grad: Tensor) -> Tensor:
    """Returns the gradient of the states before a self-attention branch."""
    into = before_branch(branch, kept.norm, grad)
    to_query, to_keys, to_values = layer.project.weight.chunk(3)
    scores, mixed = _through_attention(layer, kept, into)
    found = torch.matmul(mixed, to_values)
    _add_to_keys(found, kept, scores, to_keys)
    _add_to_queries(found, kept, scores, to_query)
    return after_branch(branch, kept.norm, into, found)


def cross_backward(
    layer: CrossAttention, kept: Attended, into: Tensor, memory: Tensor, want_query: bool
) -> Tensor | None:
    """Adds to the gradient (row, source, start, dim) of the memory; returns that of what queries were made of."""
    to_keys, to_values = layer.project.weight.chunk(2)
    scores, mixed = _through_attention(layer, kept, into)
    _add_product(memory, mixed, to_values)
    _add_to_keys(memory, kept, scores, to_keys)
    if not want_query:
        return None
    found = torch.zeros_like(into)
    _add_to_queries(found, kept, scores, layer.query.weight)
    return found


class Spread(NamedTuple):
    """What queries, each one position with one start, send back to keys: vectors, and the share of each key in them."""

    shares: Tensor  # (row, query, 2 * head, key)
    vectors: Tensor  # (row, query, 2 * head, dim)

    def at(self, starts: Tensor, keys: slice) -> Tensor:
        """Returns the gradient (row, key, start, dim) of what keys and values were made of, of some queries."""
        shares, vectors = self.shares[:, starts, :, keys], self.vectors[:, starts]
        found = torch.bmm(shares.flatten(0, 1).transpose(1, 2), vectors.flatten(0, 1))
        return found.view(*shares.shape[:2], *found.shape[1:]).transpose(1, 2).contiguous()


def cross_spread(layer: CrossAttention, kept: Attended, into: Tensor) -> tuple[Spread, Tensor]:
    """Returns what (row, query, 1, dim) send back to the memory, and the gradient of what queries were made of."""
    return _spread(layer, kept, into, (layer.query.weight, *layer.project.weight.chunk(2)))


def own_spread(layer: SelfAttention, kept: Attended, into: Tensor) -> tuple[Spread, Tensor]:
    """Returns what (row, query, 1, dim) send back to all positions, and to their own one through the query."""
    return _spread(layer, kept, into, layer.project.weight.chunk(3))


def own_forward(layer: SelfAttention, branch: Branch, kept: Attended, along: Tensor) -> Tensor:
    """Returns (row, position, source, dim): how the sum of states and branch output changes at every position.

    That is, if the states at one ``source`` position, and no others, move along (row, source, dim).
    """
    heads, scale = layer.heads, (along.shape[-1] // layer.heads) ** -0.5
    read = norm_forward(branch.norm, kept.norm, along) if branch.norm_first else along
    moved = torch.matmul(read, layer.project.weight.t()).view(*read.shape[:2], 3, heads, -1)
    query, key, value = moved.permute(2, 0, 3, 1, 4).contiguous().unbind()
    by_key = kept.weights * torch.matmul(kept.queries, key.transpose(2, 3))  # (row, head, position, source)
    by_query = kept.weights * torch.matmul(query.mul_(scale), kept.keys.transpose(2, 3))
    mixed = torch.matmul(kept.weights, kept.values)
    own = torch.matmul(by_query, kept.values) - by_query.sum(-1, keepdim=True) * mixed
    changes = kept.weights[..., None] * value[:, :, None]  # (row, head, position, source, head_dim)
    changes += by_key[..., None] * (kept.values[:, :, None] - mixed[:, :, :, None])
    torch.diagonal(changes, dim1=2, dim2=3).add_(own.transpose(2, 3))
    found = torch.matmul(changes.permute(0, 2, 3, 1, 4).flatten(3), layer.output.weight.t())
    torch.diagonal(found, dim1=1, dim2=2).add_(along.transpose(1, 2))
    return found


def norm_forward(norm: nn.Module, kept: Normed, along: Tensor) -> Tensor:
    """Returns how the output of a layer norm changes if what it read moves along."""
    layer = cast("nn.LayerNorm", norm)
    unit = (kept.inputs - kept.mean) * kept.scale
    moved = along - along.mean(-1, keepdim=True) - unit * (unit * along).mean(-1, keepdim=True)
    return moved * kept.scale * layer.weight


def _through_attention(layer: SelfAttention | CrossAttention, kept: Attended, into: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of scores (row, head, query, start, key) and of values (row, key, start, dim)."""
    rows, queries, starts, dim = into.shape
    heads, keys = layer.heads, kept.values.shape[2]
    sent = torch.matmul(into, layer.output.weight).view(rows, queries, starts, heads, dim // heads)
    sent = sent.permute(0, 3, 1, 2, 4).contiguous().view(rows * heads, queries * starts, dim // heads)
    weights = kept.weights.flatten(0, 1)
    scores = torch.bmm(sent, kept.values.flatten(0, 1).transpose(1, 2)).view(-1, queries, starts, keys)
    scores = _softmax_backward(scores, weights[:, :, None].expand_as(scores).contiguous())
    mixed = torch.bmm(weights.transpose(1, 2), sent.view(rows * heads, queries, -1))
    mixed = mixed.view(rows, heads, keys, starts, dim // heads).permute(0, 2, 3, 1, 4).reshape(rows, keys, starts, dim)
    return scores.view(rows, heads, queries, starts, keys), mixed


def _spread(
    layer: SelfAttention | CrossAttention, kept: Attended, into: Tensor, weights: tuple[Tensor, ...]
) -> tuple[Spread, Tensor]:
    to_query, to_keys, to_values = weights
    rows, queries = into.shape[:2]
    sent = torch.matmul(into, layer.output.weight).view(rows, queries, layer.heads, -1).transpose(1, 2)
    scores = _softmax_backward(torch.matmul(sent, kept.values.transpose(2, 3)), kept.weights)
    query_back = _through_heads(kept.queries, to_keys) if kept.query_back is None else kept.query_back
    shares = torch.cat((scores, kept.weights), 1).transpose(1, 2)
    vectors = torch.cat((query_back, _through_heads(sent, to_values)), 1).transpose(1, 2)
    query = torch.zeros_like(into)
    _add_to_queries(query, kept, scores[:, :, :, None], to_query)
    return Spread(shares, vectors), query


def _add_to_keys(base: Tensor, kept: Attended, scores: Tensor, weight: Tensor) -> None:
    """Adds to (row, key, start, dim) what changes of scores (row, head, query, start, key) send back through keys."""
    rows, heads, queries, starts, keys = scores.shape
    if kept.query_back is not None:
        shares = scores.permute(0, 4, 3, 1, 2).reshape(rows, keys * starts, heads * queries)
        base.view(rows, keys * starts, -1).baddbmm_(shares, kept.query_back.flatten(1, 2))
        return
    by_query = scores.view(rows * heads, queries, starts * keys)
    parts = torch.bmm(by_query.transpose(1, 2), kept.queries.flatten(0, 1)).view(rows, heads, starts, keys, -1)
    _add_product(base, parts.permute(0, 3, 2, 1, 4).reshape(base.shape), weight)


def _add_to_queries(base: Tensor, kept: Attended, scores: Tensor, weight: Tensor) -> None:
    """Adds to (row, query, start, dim) what changes of scores (row, head, query, start, key) send back through them."""
    rows, heads, queries, starts, keys = scores.shape
    if kept.key_back is not None:
        shares = scores.permute(0, 2, 3, 1, 4).reshape(rows, queries * starts, heads * keys)
        base.view(rows, queries * starts, -1).baddbmm_(shares, kept.key_back.flatten(1, 2))
        return
    parts = torch.bmm(scores.reshape(rows * heads, queries * starts, keys), kept.keys.flatten(0, 1))
    parts = parts.mul_(parts.shape[-1] ** -0.5).view(rows, heads, queries, starts, -1)
    _add_product(base, parts.permute(0, 2, 3, 1, 4).reshape(base.shape), weight)


def _softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    return cast("Tensor", torch.ops.aten._softmax_backward_data(grad, weights, -1, grad.dtype))


def _add_product(base: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Adds ``left @ right`` in place."""
    base.view(-1, base.shape[-1]).addmm_(left.reshape(-1, left.shape[-1]), right)
    return base


def _through_heads(parts: Tensor, weight: Tensor) -> Tensor:
    """Returns (row, head, position, dim): of (row, head, position, head_dim), each head times its rows of a weight."""
    rows, heads, positions, head_dim = parts.shape
    found = parts.new_empty(heads, rows * positions, weight.shape[-1])
    by_head = parts.transpose(0, 1).reshape(heads, rows * positions, head_dim)
    torch.bmm(by_head, weight.view(heads, head_dim, -1), out=found)
    return found.view(heads, rows, positions, -1).transpose(0, 1).contiguous()
