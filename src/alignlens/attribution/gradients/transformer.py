"""Source gradients of a Transformer.

Backward passes start at several target positions of several rows together; gradients are (row, position, start, dim),
where a start is one of those target positions. In the decoder a pass goes through its own position alone until
self-attention spreads it over the ones before, and it ends at the attention of the lowest layer to the source, below
which nothing depends on the source. What reaches keys and queries is combined from vectors that are made ready once for
all starts, as long as there are few positions; of an attention layer only the output and value projections are then
left as large products.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alignlens.attribution.gradients.contract import Gradients, Products, SourceGradients
from alignlens.attribution.gradients.transformer_forward import TransformerForward, cut, run
from alignlens.attribution.gradients.transformer_layers import (
    Spread,
    after_branch,
    before_branch,
    cross_backward,
    cross_spread,
    feed_backward,
    made_ready,
    norm_backward,
    norm_forward,
    own_backward,
    own_forward,
    own_spread,
)
from alignlens.attribution.room import room
from alignlens.models.transformer import DecoderLayer, EncoderLayer, Transformer

_NUMBERS = 2**18  # of a gradient tensor: what a processor's own cache holds
# Starts that go back together: with few, small products are inefficient; with many, decoder positions that only the
# last one needs are gone through for all. The wider the model, the more the latter costs.
_FEWEST_STARTS, _WIDTH_OF_STARTS = 4, 512
_WASTE = 1.25  # how many pairs of row and start may be computed for one that is wanted


class _Below(NamedTuple):
    """What a layer sends back to the one below it from positions that are alone."""

    own: Spread  # to the position itself and those before it
    query: Tensor  # (row, position, dim): to the position itself, through its query
    into: Tensor  # (row, position, dim): to the position itself, beside the layer


class _Top(NamedTuple):
    """Backward passes from all positions as far as each of them is alone: through the decoder's top layer."""

    cross: Spread  # to the source
    below: _Below | None  # None if the top layer is the only one


class _Block(NamedTuple):
    """Rows and starts that go back together."""

    rows: Tensor  # (some,)
    positions: Tensor  # (some, start): -1 where a row does not want the start
    kept: TransformerForward
    top: _Top
    starts: Tensor  # (start,): target positions
    first: bool  # of these rows
    starts_in_all: int  # of all blocks of these rows


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
        """Yields the gradients of a few target positions of some rows at a time."""
        for block in self._blocks(forward, cotangents, wanted):
            memory = self._decoder_backward(block.kept, block.top, block.starts)
            vectors = self._encoder_backward(block.kept, memory, 0)
            if block.kept.source_entry is not None:
                vectors = norm_backward(self._model.source_entry.norm, block.kept.source_entry, vectors)
            yield Gradients(block.rows, block.positions, vectors.transpose(1, 2))

    def products(
        self, forward: TransformerForward, cotangents: Tensor, wanted: Tensor, along: Tensor
    ) -> Iterator[Products]:
        """Yields gradients times ``along``; the lowest self-attention is gone through forwards, once for all starts."""
        along = self._entered(forward, along)
        lowest, changes = self._encoder[0], along
        for block in self._blocks(forward, cotangents, wanted):
            kept = block.kept
            memory = self._decoder_backward(kept, block.top, block.starts)
            if 2 * block.starts_in_all < along.shape[1]:  # too few for that way to pay
                vectors = self._encoder_backward(kept, memory, 0)
                values = (vectors * along[block.rows, :, None]).sum(-1).transpose(1, 2)
            else:
                if block.first:
                    found = kept.encoder[0].own
                    changes = own_forward(lowest.own, lowest.own_branch, found, along[block.rows])
                grad = self._encoder_backward(kept, memory, 1)
                grad = feed_backward(lowest.feed_forward, lowest.feed_forward_branch, kept.encoder[0].feed, grad)
                into = before_branch(lowest.own_branch, kept.encoder[0].own.norm, grad)
                values = torch.matmul(into, changes.transpose(2, 3)).sum(1)
            yield Products(block.rows, block.positions, values)

    def _entered(self, forward: TransformerForward, along: Tensor) -> Tensor:
        """Returns how what the lowest layer reads changes if the vectors move along."""
        if forward.source_entry is None:
            return along
        return norm_forward(self._model.source_entry.norm, forward.source_entry, along)

    def _blocks(self, forward: TransformerForward, cotangents: Tensor, wanted: Tensor) -> Iterator[_Block]:
        """Yields rows and starts that go back together."""
        source, dim = forward.cross[0].weights.shape[-1], cotangents.shape[-1]
        forward = self._made_ready(forward)
        most = max(_FEWEST_STARTS, _WIDTH_OF_STARTS // dim)
        numbers = torch.arange(len(wanted), device=wanted.device)
        top = self._top_backward(forward, cotangents)
        for rows, places in _groups(wanted, max(1, room(_NUMBERS, wanted) // (most * source * dim))):
            kept, its_top = cut((forward, top), rows) if len(numbers[rows]) < len(numbers) else (forward, top)
            for number, starts in enumerate(torch.split(places, most)):
                positions = starts.where(wanted[rows][:, starts], -1)
                yield _Block(numbers[rows], positions, kept, its_top, starts, number == 0, len(places))

    def _made_ready(self, forward: TransformerForward) -> TransformerForward:
        encoder = tuple(
            kept._replace(own=made_ready(layer.own, kept.own))
            for layer, kept in zip(self._encoder, forward.encoder, strict=True)
        )
        decoder = tuple(
            kept._replace(own=made_ready(layer.own, kept.own), cross=made_ready(layer.cross, kept.cross))
            for layer, kept in zip(self._decoder, forward.decoder, strict=True)
        )
        return replace(forward, encoder=encoder, decoder=decoder)

    def _top_backward(self, kept: TransformerForward, cotangents: Tensor) -> _Top:
        """Goes back from all positions together; being alone, each is a position with one start."""
        layer, found = self._decoder[-1], kept.decoder[-1]
        grad = cotangents[:, :, None]
        if kept.decoder_norm is not None:
            grad = norm_backward(self._model.decoder_norm, kept.decoder_norm, grad)
        grad = feed_backward(layer.feed_forward, layer.feed_forward_branch, found.feed, grad)
        into = before_branch(layer.cross_branch, found.cross.norm, grad)
        cross, query = cross_spread(layer.cross, found.cross, into)
        if len(self._decoder) == 1:
            return _Top(cross, None)
        grad = after_branch(layer.cross_branch, found.cross.norm, into, query)
        into = before_branch(layer.own_branch, found.own.norm, grad)
        own, query = own_spread(layer.own, found.own, into)
        return _Top(cross, _Below(own, query[:, :, 0], into[:, :, 0]))

    def _decoder_backward(self, kept: TransformerForward, top: _Top, starts: Tensor) -> Tensor:
        """Returns the gradient (row, source, start, dim) of the encoder output."""
        everywhere, upto = slice(None), slice(int(starts[-1]) + 1)
        memory = top.cross.at(starts, everywhere)
        below = top.below
        if below is None:
            return memory
        branch, places = self._decoder[-1].own_branch, torch.arange(len(starts), device=starts.device)
        grad = below.own.at(starts, upto)
        grad[:, starts, places] += below.query[:, starts]
        if branch.norm_first:
            grad = norm_backward(branch.norm, kept.decoder[-1].own.norm.at(upto), grad)
        grad[:, starts, places] += below.into[:, starts]
        lower = list(zip(self._decoder, kept.decoder, strict=True))[:-1]
        while True:
            layer, found = lower.pop()
            grad = feed_backward(layer.feed_forward, layer.feed_forward_branch, found.feed.at(upto), grad)
            cross = found.cross.at(upto)
            into = before_branch(layer.cross_branch, cross.norm, grad)
            query = cross_backward(layer.cross, cross, into, memory, want_query=bool(lower))
            if query is None:
                return memory
            grad = after_branch(layer.cross_branch, cross.norm, into, query)
            grad = own_backward(layer.own, layer.own_branch, found.own.at(upto, upto), grad)

    def _encoder_backward(self, kept: TransformerForward, grad: Tensor, down_to: int) -> Tensor:
        """Returns the gradient (row, source, start, dim) of what an encoder layer read."""
        if kept.encoder_norm is not None:
            grad = norm_backward(self._model.encoder_norm, kept.encoder_norm, grad)
        for layer, found in list(zip(self._encoder, kept.encoder, strict=True))[down_to:][::-1]:
            grad = feed_backward(layer.feed_forward, layer.feed_forward_branch, found.feed, grad)
            grad = own_backward(layer.own, layer.own_branch, found.own, grad)
        return grad


def _groups(wanted: Tensor, most: int) -> Iterator[tuple[slice, Tensor]]:
    """Yields neighbouring rows, at most so many, and the positions that they want.

    Rows that want other positions than those before join only as long as these are few.
    """
    table: NDArray[np.bool_] = wanted.cpu().numpy()
    changes = [0, *(np.flatnonzero((table[1:] != table[:-1]).any(1)) + 1).tolist(), len(table)]
    start = 0
    for stop, after in zip(changes[1:], [*changes[2:], None], strict=True):
        union, pairs = table[start:stop].any(0), table[start:stop].sum()
        if after is not None and after - start <= most // 4:
            joined = union | table[stop]
            more = pairs + (after - stop) * table[stop].sum()
            if (after - start) * joined.sum() <= _WASTE * more:
                continue
        if pairs:
            places = torch.from_numpy(np.flatnonzero(union)).to(wanted.device)
            pieces = -(-(stop - start) // most)
            cuts = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
            yield from ((slice(*ends), places) for ends in itertools.pairwise(cuts))
        start = stop
