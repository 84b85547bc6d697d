"""Source gradients of a Transformer.

A backward pass starts at one target position of all rows. In the decoder it goes through that position alone until
self-attention spreads it over the ones before, and it ends at the attention of the lowest layer to the source, below
which nothing depends on the source. What reaches keys and queries is combined from vectors that the forward pass made
ready, as long as there are few positions; of an attention layer only the output and value projections are then left as
large products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from alignlens.attribution.gradients.contract import Gradients, SourceGradients
from alignlens.attribution.gradients.transformer_forward import (
    Attended,
    DecoderKept,
    EncoderKept,
    Normed,
    TransformerForward,
    by_head,
    joined,
    run,
    through_heads,
)
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.transformer import Branch, DecoderLayer, EncoderLayer, FeedForward, Transformer

_FEW = 0.6  # below this share of rows, copying the wanted ones is cheaper than taking all of them along


class TransformerGradients(SourceGradients[TransformerForward]):
    """Backward passes through ``alignlens.models.transformer``."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._encoder = list(cast("list[EncoderLayer]", model.encoder))
        self._decoder = list(cast("list[DecoderLayer]", model.decoder))

    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> TransformerForward:
        """Returns a forward pass, with what every step backwards needs."""
        return run(self._model, vectors, mask, prefix)

    def backward(self, forward: TransformerForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of one target position after the other."""
        for position in range(wanted.shape[1]):
            rows = wanted[:, position].nonzero()[:, 0]
            if not len(rows):
                continue
            stop = int(rows[-1]) + 1
            copied = len(rows) < _FEW * stop
            kept = forward if stop == len(wanted) and not copied else forward.cut(rows if copied else stop)
            start = cotangents[rows if copied else slice(stop), position]
            vectors = self._encoder_backward(kept, self._decoder_backward(kept, start, position)).transpose(0, 1)
            if not copied and len(rows) < stop:
                vectors = vectors[rows]
            yield Gradients(rows, torch.full_like(rows, position), vectors)

    def _decoder_backward(self, kept: TransformerForward, cotangents: Tensor, position: int) -> Tensor:
        """Returns the gradient (source, row, dim) of the encoder output."""
        at, upto = slice(position, position + 1), slice(position + 1)
        grad = cotangents[None]
        if kept.decoder_norm is not None:
            grad = _norm_backward(self._model.decoder_norm, kept.decoder_norm, grad, at)
        memory = torch.zeros_like(kept.decoder[0].cross.keys)
        layers = list(zip(self._decoder, kept.decoder, strict=True))
        for number in range(len(layers) - 1, -1, -1):
            layer, own = layers[number]
            grad = _feed_backward(layer.feed_forward, layer.feed_forward_branch, own, grad, at)
            into = _before_branch(layer.cross_branch, own.cross_norm, grad, at)
            query = _cross_backward(layer.cross, own.cross, into, at, memory, number > 0)
            if query is None:
                break
            grad = _after_branch(layer.cross_branch, own.cross_norm, into, query, at)
            into = _before_branch(layer.own_branch, own.own_norm, grad, at)
            grad = _own_backward(layer.own, own.own, into, at, upto)
            if layer.own_branch.norm_first:
                grad = _norm_backward(layer.own_branch.norm, own.own_norm, grad, upto)
            grad[at] += into
            at = upto
        return memory

    def _encoder_backward(self, kept: TransformerForward, grad: Tensor) -> Tensor:
        """Returns the gradient (source, row, dim) of the source vectors."""
        everywhere = slice(None)
        if kept.encoder_norm is not None:
            grad = _norm_backward(self._model.encoder_norm, kept.encoder_norm, grad, everywhere)
        for layer, own in zip(reversed(self._encoder), reversed(kept.encoder), strict=True):
            grad = _feed_backward(layer.feed_forward, layer.feed_forward_branch, own, grad, everywhere)
            into = _before_branch(layer.own_branch, own.own_norm, grad, everywhere)
            grad = _own_backward(layer.own, own.own, into, everywhere, everywhere)
            grad = _after_branch(layer.own_branch, own.own_norm, into, grad, everywhere)
        return grad


def _norm_backward(norm: nn.Module, kept: Normed, grad: Tensor, at: slice) -> Tensor:
    layer = cast("nn.LayerNorm", norm)
    # The kernel reads the statistics as if they were contiguous, whatever they are.
    found = torch.ops.aten.native_layer_norm_backward(
        grad,
        kept.inputs[at],
        layer.normalized_shape,
        kept.mean[at].contiguous(),
        kept.scale[at].contiguous(),
        layer.weight,
        layer.bias,
        (True, False, False),
    )
    return cast("Tensor", found[0])


def _before_branch(branch: Branch, norm: Normed, grad: Tensor, at: slice) -> Tensor:
    """Returns the gradient of the sum of states and branch output."""
    return grad if branch.norm_first else _norm_backward(branch.norm, norm, grad, at)


def _after_branch(branch: Branch, norm: Normed, into: Tensor, found: Tensor, at: slice) -> Tensor:
    """Returns the gradient of the states before the branch, of those of the sum and of what the branch read."""
    if branch.norm_first:
        found = _norm_backward(branch.norm, norm, found, at)
    return found.add_(into)


def _feed_backward(
    layer: FeedForward, branch: Branch, kept: EncoderKept | DecoderKept, grad: Tensor, at: slice
) -> Tensor:
    into = _before_branch(branch, kept.feed_norm, grad, at)
    widened = torch.ops.aten.threshold_backward(into @ layer.narrow.weight, kept.hidden[at], 0)
    if branch.norm_first:
        return into + _norm_backward(branch.norm, kept.feed_norm, widened @ layer.widen.weight, at)
    return torch.addmm(into.flatten(0, 1), widened.flatten(0, 1), layer.widen.weight).view(into.shape)


def _cross_backward(
    layer: CrossAttention, kept: Attended, into: Tensor, at: slice, memory: Tensor, want_query: bool
) -> Tensor | None:
    """Adds to the gradient of the encoder output; returns that of what the queries were made of, if wanted."""
    heads = layer.heads
    keys, values = layer.project.weight.chunk(2)
    sent = into @ layer.output.weight
    mixed = by_head(sent, heads)
    weights = kept.weights[:, at]
    scores = _softmax_backward(torch.bmm(mixed, by_head(kept.values, heads).transpose(1, 2)), weights)
    if kept.query_back is None:
        _add_product(memory, joined(torch.bmm(scores.transpose(1, 2), by_head(kept.queries[at], heads)), heads), keys)
        _add_product(memory, joined(torch.bmm(weights.transpose(1, 2), mixed), heads), values)
    elif len(into) == 1:
        ready = torch.cat((kept.query_back[:, at], through_heads(sent, values, heads)), 1)
        memory += _spread((scores, weights), ready, heads)
    else:
        memory += _spread((scores,), kept.query_back[:, at], heads)
        _add_product(memory, joined(torch.bmm(weights.transpose(1, 2), mixed), heads), values)
    return _to_queries(kept, scores, layer.query.weight, heads) if want_query else None


def _own_backward(layer: SelfAttention, kept: Attended, into: Tensor, at: slice, upto: slice) -> Tensor:
    """Returns the gradient of what the layer read at the positions ``upto``, for queries ``at``."""
    heads = layer.heads
    to_query, to_keys, to_values = layer.project.weight.chunk(3)
    sent = into @ layer.output.weight
    mixed = by_head(sent, heads)
    weights = kept.weights[:, at, upto]
    scores = _softmax_backward(torch.bmm(mixed, by_head(kept.values[upto], heads).transpose(1, 2)), weights)
    if kept.query_back is None:
        grad = joined(torch.bmm(weights.transpose(1, 2), mixed), heads) @ to_values
        queries = by_head(kept.queries[at], heads)
        _add_product(grad, joined(torch.bmm(scores.transpose(1, 2), queries), heads), to_keys)
    elif len(into) == 1:
        ready = torch.cat((kept.query_back[:, at], through_heads(sent, to_values, heads)), 1)
        grad = _spread((scores, weights), ready, heads).contiguous()
    else:
        grad = joined(torch.bmm(weights.transpose(1, 2), mixed), heads) @ to_values
        grad += _spread((scores,), kept.query_back[:, at], heads)
    grad[at] += _to_queries(kept, scores, to_query, heads)
    return grad


def _to_queries(kept: Attended, scores: Tensor, weight: Tensor, heads: int) -> Tensor:
    """Returns (query, row, dim): what changes of scores (row * head, query, key) send back through the queries."""
    count = scores.shape[-1]
    if kept.key_back is None:
        dim = kept.keys.shape[-1]
        parts = torch.bmm(scores, by_head(kept.keys[:count], heads))
        return joined(parts, heads).mul_((dim // heads) ** -0.5) @ weight
    return _spread((scores.transpose(1, 2),), kept.key_back[:, :count], heads)


def _spread(shares: tuple[Tensor, ...], ready: Tensor, heads: int) -> Tensor:
    """Returns (position, row, dim): ready vectors (row, other, head, dim) in shares (row * head, other, position)."""
    by_row = [share.view(-1, heads, *share.shape[1:]).transpose(1, 2) for share in shares]
    together = by_row[0] if len(by_row) == 1 else torch.cat(by_row, 1)
    return torch.bmm(together.flatten(1, 2).transpose(1, 2), ready.flatten(1, 2)).transpose(0, 1)


def _softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    return cast("Tensor", torch.ops.aten._softmax_backward_data(grad, weights, -1, grad.dtype))


def _add_product(base: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds ``left @ right`` in place."""
    base.view(-1, base.shape[-1]).addmm_(left.flatten(0, 1), right)
