"""Source gradients of a Transformer as in ``transformer``, by the compiled steps of ``kernels/transformer.c``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from ctypes import CDLL, byref, c_int, c_long, c_void_p
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from alignlens.attribution.gradients import compiled
from alignlens.attribution.gradients.contract import Gradients, Products
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.gradients.transformer_forward import Attended, Fed, Normed, TransformerForward
from alignlens.attribution.gradients.transformer_layers import norm_forward
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.transformer import Branch, EncoderLayer, FeedForward, Transformer

_NUMBERS = 2**18  # of a gradient tensor: what the second cache of a core holds beside weights


class _FeedWeights:
    """The weights of a feed-forward branch, unit by unit."""

    def __init__(self, layer: FeedForward, branch: Branch) -> None:
        self.branch = branch
        self.widen, self.narrow = layer.widen.weight.contiguous(), layer.narrow.weight.t().contiguous()


class _AttentionWeights:
    """The weights of an attention branch as products read them."""

    def __init__(self, layer: SelfAttention | CrossAttention, branch: Branch) -> None:
        self.branch, self.heads = branch, layer.heads
        if isinstance(layer, SelfAttention):
            to_query, to_key, to_value = layer.project.weight.chunk(3)
        else:
            to_query, (to_key, to_value) = layer.query.weight, layer.project.weight.chunk(2)
        scaled = to_query * (len(to_query) // layer.heads) ** -0.5
        self.output, self.to_value = compiled.packed(layer.output.weight), compiled.packed(to_value)
        self.to_key, self.to_query = compiled.packed(to_key), compiled.packed(scaled)
        self.value_rows, self.key_rows, self.query_rows = to_value.contiguous(), to_key.contiguous(), scaled
        self._layer = layer

    @cached_property
    def project(self) -> Tensor:
        """The projection forwards, which only the lowest layer needs."""
        return compiled.packed(torch.cat((self.query_rows, self.key_rows, self.value_rows)).t())

    @cached_property
    def output_forward(self) -> Tensor:
        """The output projection forwards."""
        return compiled.packed(self._layer.output.weight.t())


class _EncoderWeights(NamedTuple):
    own: _AttentionWeights
    feed: _FeedWeights


class _DecoderWeights(NamedTuple):
    own: _AttentionWeights
    cross: _AttentionWeights
    feed: _FeedWeights


class _Block(NamedTuple):
    """Rows that follow each other and want the same target positions."""

    rows: slice
    places: Tensor  # (start,)
    struct: compiled.Block

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Returns the rows (some,) and their target positions (some, start)."""
        rows = torch.arange(self.rows.start, self.rows.stop)
        return rows, self.places.expand(len(rows), -1)


def can_compute(model: Transformer) -> bool:
    """Returns whether the compiled steps were built and can handle this model on its device."""
    weight = model.output.weight
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.shape[1] % (compiled.LANES * cast("EncoderLayer", model.encoder[0]).own.heads) == 0
        and compiled.library() is not None  # asked last, since it logs a warning if not
    )


class CompiledTransformerGradients(TransformerGradients):
    """Backward passes through ``alignlens.models.transformer``, each on one core."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model)
        self._encoder_weights = [
            _EncoderWeights(
                _AttentionWeights(layer.own, layer.own_branch),
                _FeedWeights(layer.feed_forward, layer.feed_forward_branch),
            )
            for layer in self._encoder
        ]
        self._decoder_weights = [
            _DecoderWeights(
                _AttentionWeights(layer.own, layer.own_branch),
                _AttentionWeights(layer.cross, layer.cross_branch),
                _FeedWeights(layer.feed_forward, layer.feed_forward_branch),
            )
            for layer in self._decoder
        ]

    def backward(self, forward: TransformerForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of some rows at a time."""
        steps = self._steps(forward, cotangents)
        for block in _blocks(wanted, steps.numbers_of_start):
            grad = steps.through_decoder(block)
            steps.through_encoder(block, grad)
            steps.through_entry(block, grad)
            yield Gradients(*block.pairs(), grad.transpose(1, 2))

    def products(
        self, forward: TransformerForward, cotangents: Tensor, wanted: Tensor, along: Tensor
    ) -> Iterator[Products]:
        """Yields gradients times ``along``; the lowest self-attention is gone through forwards if that is cheaper."""
        steps, branch = self._steps(forward, cotangents), self._encoder[0].own_branch
        along = self._entered(forward, along).contiguous()
        read = norm_forward(branch.norm, forward.encoder[0].own.norm, along) if branch.norm_first else along
        for block in _blocks(wanted, steps.numbers_of_start):
            grad, some = steps.through_decoder(block), along[block.rows]
            if 2 * len(block.places) < along.shape[1]:
                steps.through_encoder(block, grad)
                values = steps.times(block, grad, some)
            else:
                steps.through_encoder(block, grad, but_lowest_attention=True)
                values = steps.times(block, grad, steps.changes(block, some, read[block.rows]))
            yield Products(*block.pairs(), values)

    def _steps(self, forward: TransformerForward, cotangents: Tensor) -> _Steps:
        return _Steps(self._model, self._encoder_weights, self._decoder_weights, forward, cotangents)


class _Steps:
    """The steps backwards of one forward pass."""

    def __init__(
        self,
        model: Transformer,
        encoder: list[_EncoderWeights],
        decoder: list[_DecoderWeights],
        forward: TransformerForward,
        cotangents: Tensor,
    ) -> None:
        self._library = cast("CDLL", compiled.library())
        self._alive: list[Tensor] = []  # what structures point to
        self._target, self._dim = forward.states.shape[1:]
        self._source = forward.cross[0].weights.shape[-1]
        self._sizes = c_long(self._source), c_long(self._dim)
        self.numbers_of_start = max(self._source, self._target) * self._dim
        self._encoder_norm = None
        if forward.encoder_norm is not None:
            self._encoder_norm = self._norm(model.encoder_norm, forward.encoder_norm)
        self._source_entry = None
        if forward.source_entry is not None:
            self._source_entry = self._norm(model.source_entry.norm, forward.source_entry)
        self._encoder = [
            (self._attention(weights.own, kept.own), self._feed(weights.feed, kept.feed))
            for weights, kept in zip(encoder, forward.encoder, strict=True)
        ]
        weights, kept = encoder[0].own, forward.encoder[0].own
        kept_parts = (kept.weights, kept.queries, kept.keys, kept.values, weights.project, weights.output_forward)
        self._lowest = compiled.Lowest(self._source, self._dim, weights.heads, *map(self._address, kept_parts))
        self._decoder = [
            (
                self._attention(weights.own, kept.own, triangle=True),
                self._attention(weights.cross, kept.cross, triangle=True),
                self._feed(weights.feed, kept.feed, triangle=True),
            )
            for weights, kept in zip(decoder, forward.decoder, strict=True)
        ]
        norm = compiled.Norm()
        if forward.decoder_norm is not None:
            norm = self._norm(model.decoder_norm, forward.decoder_norm)
        own, cross, feed = self._decoder.pop()
        self._top = compiled.Top(self._address(cotangents), norm, feed, cross, own, not self._decoder)

    def through_decoder(self, block: _Block) -> Tensor:
        """Returns the gradient (row, source, start, dim) of the encoder output."""
        rows, starts = block.struct.rows, block.struct.starts
        memory = _floats(rows, self._source, starts, self._dim)
        grad = _floats(rows, self._target if self._decoder else 0, starts, self._dim)
        self._run("top_back", block, byref(self._top), _pointer(memory), _pointer(grad))
        for number, (own, cross, feed) in reversed(list(enumerate(self._decoder))):
            self._run("feed_back", block, byref(feed), _pointer(grad))
            self._run("attention_back", block, byref(cross), _pointer(grad), _pointer(memory), c_int(number > 0))
            if number:  # below the lowest attention to the source nothing depends on it
                self._run("attention_back", block, byref(own), _pointer(grad), None, c_int(1))
        return memory

    def through_encoder(self, block: _Block, grad: Tensor, but_lowest_attention: bool = False) -> None:
        """Turns the gradient of the encoder output into that of its input, or of the lowest attention's output."""
        if self._encoder_norm is not None:
            self._library.norm_back(byref(block.struct), byref(self._encoder_norm), *self._sizes, _pointer(grad))
        for number, (own, feed) in reversed(list(enumerate(self._encoder))):
            self._run("feed_back", block, byref(feed), _pointer(grad))
            if number or not but_lowest_attention:
                self._run("attention_back", block, byref(own), _pointer(grad), None, c_int(1))
            elif not own.norm_first:
                self._library.norm_back(byref(block.struct), byref(own.norm), *self._sizes, _pointer(grad))

    def through_entry(self, block: _Block, grad: Tensor) -> None:
        """Turns the gradient of what the lowest layer read into that of source vectors."""
        if self._source_entry is not None:
            self._library.norm_back(byref(block.struct), byref(self._source_entry), *self._sizes, _pointer(grad))

    def changes(self, block: _Block, along: Tensor, read: Tensor) -> Tensor:
        """Returns (row, position, source, dim), see ``transformer_layers.own_forward``."""
        found = _floats(block.struct.rows, self._source, self._source, self._dim)
        self._run("changes", block, byref(self._lowest), *map(_pointer, (along, read, found)))
        return found

    def times(self, block: _Block, grad: Tensor, along: Tensor) -> Tensor:
        """Returns (row, start, source): a gradient times (row, source, dim) or (row, position, source, dim)."""
        values = _floats(block.struct.rows, block.struct.starts, self._source)
        step = self._library.dot_all if along.dim() == 4 else self._library.dot_each
        step(byref(block.struct), *self._sizes, *map(_pointer, (grad, along, values)))
        return values

    def _run(self, name: str, block: _Block, *arguments: object) -> None:
        if getattr(self._library, name)(byref(block.struct), *arguments):
            raise MemoryError(name)

    def _address(self, tensor: Tensor) -> int:
        kept = tensor.contiguous()
        self._alive.append(kept)
        return kept.data_ptr()

    def _norm(self, norm: nn.Module, kept: Normed) -> compiled.Norm:
        return compiled.Norm(*map(self._address, (*kept, cast("nn.LayerNorm", norm).weight)))

    def _feed(self, weights: _FeedWeights, kept: Fed, triangle: bool = False) -> compiled.Feed:
        positions, units = kept.slopes.shape[1:]
        pointers = map(self._address, (kept.slopes, weights.widen, weights.narrow))
        norm = self._norm(weights.branch.norm, kept.norm)
        return compiled.Feed(positions, self._dim, units, triangle, weights.branch.norm_first, *pointers, norm)

    def _attention(self, weights: _AttentionWeights, kept: Attended, triangle: bool = False) -> compiled.Attention:
        queries, keys = kept.weights.shape[2:]
        return compiled.Attention(
            *(queries, keys, self._dim, weights.heads, triangle, weights.branch.norm_first),
            *map(self._address, (kept.weights, kept.queries, kept.keys, kept.values)),
            *map(self._address, (weights.output, weights.to_value, weights.to_key, weights.to_query)),
            *map(self._address, (weights.value_rows, weights.key_rows, weights.query_rows)),
            self._norm(weights.branch.norm, kept.norm),
        )


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32)


def _pointer(tensor: Tensor) -> c_void_p:
    return c_void_p(tensor.data_ptr())


def _blocks(wanted: Tensor, numbers_of_start: int) -> Iterator[_Block]:
    """Yields neighbouring rows that want the same positions, as many as fit the cache."""
    table = wanted.numpy()
    changes = (np.flatnonzero((table[1:] != table[:-1]).any(1)) + 1).tolist()
    for begin, end in itertools.pairwise([0, *changes, len(table)]):
        places = torch.from_numpy(np.flatnonzero(table[begin]))
        if not len(places):
            continue
        step = max(1, _NUMBERS // (numbers_of_start * len(places)))
        for row in range(begin, end, step):
            rows = slice(row, min(end, row + step))
            yield _Block(rows, places, compiled.Block(row, rows.stop - row, len(places), places.data_ptr()))
