"""Backward passes of the recurrent model, many target positions of many rows at a time.

The derivative of a step multiplies a cotangent by numbers that depend on the row only (its slopes) and by weights. So
all wanted positions of a row go backward together, each from its own start, and share the slopes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from alignlens.attribution.gradients.contract import Gradients, Products, SourceGradients
from alignlens.attribution.gradients.lstm_blocks import Block, Feeding, First, LstmForward, blocks_of
from alignlens.attribution.gradients.recurrence import (
    Steps,
    attend,
    cell_backward,
    cell_forward,
    run_over,
)
from alignlens.attribution.gradients.rows import distinct
from alignlens.models.contract import Attention
from alignlens.models.lstm import Lstm
from alignlens.models.recurrent import layers_of


class LstmGradients(SourceGradients[LstmForward]):
    """Reads the model's weights once, so the model must not be trained meanwhile. Handles LSTMs with one head."""

    @torch.no_grad()
    def __init__(self, model: Lstm) -> None:
        self._model, self._feeding = model, model.settings.input_feeding
        self._added = model.settings.output != "two_layer"  # the context, as it is, to what the state gives
        self._directions = 2 if model.settings.bidirectional else 1
        self._dim, self._hidden = model.settings.dim, model.settings.hidden
        self._encoder, self._decoder = layers_of(model.encoder), layers_of(model.decoder)
        self._from_feed = self._decoder[0].input[:, self._dim :].contiguous()
        linear = model.settings.output == "linear"
        inner = torch.eye(self._hidden).to(self._from_feed) if linear else model.inner.weight
        self._from_state = inner[:, : self._hidden].contiguous()
        self._from_attended = inner[:, self._hidden :].contiguous()  # empty where the context is added

    @torch.no_grad()
    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> LstmForward:
        """Returns the forward pass."""
        model, projection, lengths = self._model, self._model.from_context, mask.sum(1)
        rows = torch.arange(len(lengths), device=lengths.device)
        real = None if bool(mask.all()) else mask.t()[..., None].to(vectors.dtype)
        read, encoder, finals = vectors.transpose(0, 1), [], []
        for number in range(0, len(self._encoder), self._directions):
            for direction in range(self._directions):
                steps = run_over(self._encoder[number + direction], read, direction == 1, real)
                last = torch.zeros_like(lengths) if direction else lengths - 1
                finals.append((steps.hidden[last, rows], steps.cell[last, rows]))
                encoder.append(steps)
            read = torch.cat([steps.hidden for steps in encoder[number:]], -1)
        memory = read.transpose(0, 1).contiguous()
        hidden, cell = (model.initial(torch.stack(final)) for final in zip(*finals, strict=True))
        states, weights, decoder = self._decode(memory, mask, prefix, hidden, cell)
        return LstmForward(
            states,
            (Attention(weights[:, None], memory[:, None], projection.weight.t()[None], projection.bias),),
            lengths=lengths,
            memory=memory,
            queries=self._queries(decoder[-1].hidden.transpose(0, 1)),
            encoder=tuple(encoder),
            decoder=tuple(decoder),
        )

    @torch.no_grad()
    def backward(self, forward: LstmForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of all wanted positions of some rows at a time."""
        for block in blocks_of(self._model, forward, cotangents, wanted):
            first = self._decoder_backward(block)
            vectors = self._encoder_backward(block, self._upper_backward(block, first), first)
            yield Gradients(block.rows, block.positions.t(), vectors.transpose(0, 1))

    @torch.no_grad()
    def products(self, forward: LstmForward, cotangents: Tensor, wanted: Tensor, along: Tensor) -> Iterator[Products]:
        """Yields gradients times ``along``; the lowest layer is gone through forwards if that is cheaper.

        A vector changes nothing that was read before it, so that is half a pass for every source position.
        """
        starts = float(wanted.sum() / wanted.any(1).sum().clamp(min=1))
        if along.shape[1] * self._hidden > 2 * starts * (self._hidden + self._dim):
            yield from super().products(forward, cotangents, wanted, along)
            return
        clean, number = distinct(along)
        entered = [functional.linear(clean, layer.input) for layer in self._encoder[: self._directions]]
        for block in blocks_of(self._model, forward, cotangents, wanted):
            first, some = self._decoder_backward(block), number[block.rows]
            d_output = self._upper_backward(block, first)
            values = sum(
                self._encoder_forward(block, d_output, first, direction, gates.index_select(0, some))
                for direction, gates in enumerate(entered)
            )
            yield Products(block.rows, block.positions.t(), cast("Tensor", values))

    def _queries(self, recurrent: Tensor) -> Tensor:
        """Returns what encoder states are compared with, (row, target, width); nothing for uniform weights."""
        queries: Tensor = self._model.bilinear(recurrent)
        return torch.zeros_like(queries) if self._model.settings.attention == "uniform" else queries

    def _decode(
        self, memory: Tensor, mask: Tensor, prefix: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, list[Steps]]:
        """Returns states, attention weights, and the steps of all layers."""
        model, bottom = self._model, self._decoder[0]
        keys, offsets = model.keys(memory)
        offsets, contributions = offsets.masked_fill(~mask, float("-inf"))[:, None], model.from_context(memory)
        read, number = distinct(prefix)
        gates = functional.linear(read.transpose(0, 1), bottom.input[:, : self._dim], bottom.bias).index_select(
            1, number
        )
        layers = [
            Steps.plan(torch.empty_like(gates) if number else gates, (hidden[:, number], cell[:, number]), False, None)
            for number in range(len(self._decoder))
        ]
        states, weights = torch.empty_like(prefix), prefix.new_empty(*prefix.shape[:2], memory.shape[1])
        for place in range(prefix.shape[1]):
            if self._feeding and place:
                gates[place].addmm_(states[:, place - 1], self._from_feed.t())
            recurrent = layers[0].make(place, bottom.recurrent)
            for layer, steps in zip(self._decoder[1:], layers[1:], strict=True):
                steps.gates[place] = layer.gates(recurrent)
                recurrent = steps.make(place, layer.recurrent)
            if self._feeding:
                context, seen = attend(recurrent[:, None], keys, offsets, contributions)
                states[:, place], weights[:, place] = model.join(recurrent, context[:, 0]), seen[:, 0]
        if not self._feeding:
            every = layers[-1].hidden.transpose(0, 1)
            context, weights = attend(every, keys, offsets, contributions)
            states = model.join(every, context)
        return states, weights, layers

    def _decoder_backward(self, block: Block) -> First:
        """Returns the cotangents of all that the decoder was given."""
        slots, rows = block.positions.shape
        like = block.cotangents
        d_hidden = [like.new_zeros(slots * rows, self._hidden) for _ in self._decoder]
        d_cell = [like.new_zeros(slots, rows, self._hidden) for _ in self._decoder]
        d_gates = like.new_empty(slots, rows, 4, self._hidden)
        if self._feeding:
            attention: Feeding | None = Feeding(block, self._model.from_context.weight)
            d_feed = like.new_zeros(slots * rows, self._dim)
        else:
            attention = None
            d_memory, d_recurrent = self._attention_backward(block)
        for step in reversed(range(len(block.starts))):
            active, starts = block.active[step], block.starts[step]
            pairs = active * rows
            flat = d_gates[:active].view(pairs, -1)
            if attention is None:
                d_hidden[-1].index_add_(0, starts, d_recurrent[starts])
            else:
                d_feed.index_copy_(0, starts, block.cotangents[starts])
                d_joined = (d_feed[:pairs].view(active, rows, -1) * block.join_slopes[:, step]).view(pairs, -1)
                d_hidden[-1][:pairs].addmm_(d_joined, self._from_state)
                d_attended = d_joined if self._added else d_joined @ self._from_attended
                d_hidden[-1][:pairs].view(active, rows, -1).add_(
                    attention.step(step, d_attended.view(active, rows, -1))
                )
            for number in reversed(range(len(self._decoder))):
                layer, d_above = self._decoder[number], d_hidden[number][:pairs]
                cell_backward(
                    block.decoder[number][step],
                    d_above.view(active, rows, -1),
                    d_cell[number][:active],
                    d_gates[:active],
                )
                torch.mm(flat, layer.recurrent, out=d_above)
                if number:
                    d_hidden[number - 1][:pairs].addmm_(flat, layer.input)
                elif self._feeding and step:
                    torch.mm(flat, self._from_feed, out=d_feed[:pairs])
        if attention is not None:
            d_memory = attention.finish()
        return First(d_memory, [d.view(slots, rows, -1) for d in d_hidden], d_cell)

    def _attention_backward(self, block: Block) -> tuple[Tensor, Tensor]:
        """Returns the cotangents of encoder states and of s_t where only the pair's own step has attended."""
        slots, rows = block.positions.shape
        numbers = torch.arange(rows, device=block.rows.device)[:, None]
        join_slopes = block.join_slopes[numbers, block.pair_positions].transpose(0, 1)
        d_joined = (block.cotangents.view(slots, rows, -1) * join_slopes).flatten(0, 1)
        d_attended = d_joined if self._added else d_joined @ self._from_attended
        weights = block.weights[numbers, block.pair_positions].transpose(1, 2)  # (row, source, slot)
        d_weights = torch.bmm(block.contributions, d_attended.view(slots, rows, -1).permute(1, 2, 0))
        d_scores = weights * (d_weights - (weights * d_weights).sum(1, keepdim=True))
        d_recurrent = d_joined @ self._from_state
        d_recurrent.view(slots, rows, -1).add_(torch.bmm(d_scores.transpose(1, 2), block.keys).transpose(0, 1))
        d_context = (d_attended @ self._model.from_context.weight).view(slots, rows, -1).transpose(0, 1)
        d_memory = d_scores[..., None] * block.queries[numbers, block.pair_positions][:, None]
        return d_memory.addcmul_(weights[..., None], d_context[:, None]), d_recurrent

    def _upper_backward(self, block: Block, first: First) -> Tensor:
        """Returns the cotangents (slot, row, source, width) of what the lowest encoder layer gives to the next."""
        d_output = first.d_memory.permute(2, 0, 1, 3)
        for number in reversed(range(1, len(self._encoder) // self._directions)):
            d_output = self._layer_backward(block, number, d_output, first)
        return d_output

    def _encoder_backward(self, block: Block, d_output: Tensor, first: First) -> Tensor:
        """Returns the cotangents of source vectors (slot, row, source, dim); zero at padding."""
        return self._layer_backward(block, 0, d_output, first)

    def _layer_backward(self, block: Block, number: int, d_output: Tensor, first: First) -> Tensor:
        """Returns the cotangents of what an encoder layer has read, of those of its output and of last states."""
        slots, rows, length, _ = d_output.shape
        d_gates = d_output.new_empty(slots, rows, 4, self._hidden)
        flat = d_gates.view(slots * rows, -1)
        width = self._encoder[number * self._directions].input.shape[1]
        d_input = d_output.new_empty(slots * rows, length, width)
        for direction in range(self._directions):
            layer = self._encoder[number * self._directions + direction]
            slopes = block.encoder[number * self._directions + direction]
            d_own, d_cell = self._given(block, number, direction, d_output, first)
            d_hidden = torch.zeros_like(d_cell)
            places = range(length)[:: 1 if direction else -1]
            for place in places:
                d_hidden.add_(d_own[:, :, place])
                cell_backward(slopes[place], d_hidden, d_cell, d_gates)
                if place != places[-1]:
                    torch.mm(flat, layer.recurrent, out=d_hidden.view(slots * rows, -1))
                if direction:
                    d_input[:, place].addmm_(flat, layer.input)
                else:
                    torch.mm(flat, layer.input, out=d_input[:, place])
        return d_input.view(slots, rows, length, width)

    def _given(
        self, block: Block, number: int, direction: int, d_output: Tensor, first: First
    ) -> tuple[Tensor, Tensor]:
        """Returns the cotangents of a direction's states (slot, row, source, hidden) and of its last cell.

        Those of its last state, which decoder layers start from, are added to ``d_output`` in place.
        """
        d_own = d_output[..., direction * self._hidden : (direction + 1) * self._hidden]
        d_cell = torch.zeros_like(first.d_cell[0])
        rows = torch.arange(len(block.rows), device=block.rows.device)
        last = torch.zeros_like(block.lengths) if direction else block.lengths - 1
        for heir, layer in enumerate(self._model.initial_layers()):
            if layer == number:
                d_own[:, rows, last] += first.d_hidden[heir] / self._directions
                d_cell.add_(first.d_cell[heir], alpha=1 / self._directions)
        return d_own, d_cell

    def _encoder_forward(self, block: Block, d_output: Tensor, first: First, direction: int, entered: Tensor) -> Tensor:
        """Returns (row, slot, source): how outputs change by one direction of the lowest layer.

        Each source position changes the gates of its own step by ``entered`` (row, source, 4 * hidden).
        """
        rows, length, _ = entered.shape
        d_own, d_last_cell = self._given(block, 0, direction, d_output, first)
        slopes, recurrent = block.encoder[direction], self._encoder[direction].recurrent.t()
        values = entered.new_zeros(rows, d_own.shape[0], length)
        # In the order of reading, as are the steps: what has changed until now comes first.
        order = range(length)[:: -1 if direction else 1]
        changed_gates = entered.new_empty(length, rows, 4, self._hidden)
        d_cell, d_hidden = entered.new_zeros(2, length, rows, self._hidden)
        for count, place in enumerate(order, start=1):
            gates, hidden, cell = changed_gates[:count], d_hidden[:count], d_cell[:count]
            torch.mm(hidden[:-1].flatten(0, 1), recurrent, out=gates[:-1].view((count - 1) * rows, 4 * self._hidden))
            gates[-1] = entered[:, place].view(rows, 4, -1)
            cell_forward(slopes[place], gates, cell, hidden)
            found = torch.bmm(d_own[:, :, place].transpose(0, 1), hidden.permute(1, 2, 0))
            values[..., :count] += found
        values += torch.bmm(d_last_cell.transpose(0, 1), d_cell.permute(1, 2, 0))
        return values.flip(2) if direction else values
