"""Backward passes of the convolutional model, all wanted target positions of many rows at a time.

A decoder position depends on few positions of the layers below it, its window, and only those are visited. The lowest
layer's input is the prefix, where the way to the source ends. Windows that reach before a sentence see zeros there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.attribution.gradients.contract import Gradients, Products, SourceGradients
from alignlens.attribution.gradients.fconv_blocks import Block, FconvForward, LayerForward, Sent, blocks_of
from alignlens.attribution.gradients.rows import distinct
from alignlens.models.contract import Attention
from alignlens.models.fconv import DecoderLayer, Fconv, windows

_HALF = math.sqrt(0.5)


class FconvGradients(SourceGradients[FconvForward]):
    """Norms the weights once, and reads ``model.scale_encoder_gradient`` once: changes after that are not seen."""

    @torch.no_grad()
    def __init__(self, model: Fconv) -> None:
        self._model, self._width = model, model.settings.width
        self._source_positions, self._target_positions = (
            model.source_positions.detach(),
            model.target_positions.detach(),
        )
        self._encoder_in, self._encoder_out = _Affine(model.encoder_in), _Affine(model.encoder_out)
        self._decoder_in, self._decoder_out = _Affine(model.decoder_in), _Affine(model.decoder_out)
        self._encoder = [_Affine(cast("nn.Linear", convolution)) for convolution in model.encoder]
        self._decoder = [_Layer(layer) for layer in cast("Sequence[DecoderLayer]", model.decoder)]
        # Every residual sum is multiplied by the same number: the encoder's backward pass does it once for all.
        self._to_inputs = self._encoder_in.weight * _HALF ** len(self._encoder)
        scale = 1 / (2 * len(self._decoder)) if model.scale_encoder_gradient else 1.0
        self._to_encoder = self._encoder_out.weight * scale
        # (source offset, weight) of every part of a window; forwards, transposed
        self._taps = [
            [
                (number - (self._width - 1) // 2, tap)
                for number, tap in enumerate(_taps(convolution.weight, self._width))
            ]
            for convolution in self._encoder
        ]
        self._forward_taps = [[(offset, tap.t().contiguous()) for offset, tap in taps] for taps in self._taps]

    @torch.no_grad()
    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> FconvForward:
        """Returns the forward pass."""
        memory, inputs, encoder = self._encode(vectors, mask)
        value_scale = mask.sum(1, dtype=vectors.dtype).sqrt()[:, None, None] * _HALF
        values = (memory + inputs) * value_scale
        self._model.check_length(prefix.shape[1], "target")
        prefix, number = distinct(prefix)
        inputs = prefix + self._target_positions[: prefix.shape[1]]
        x = self._decoder_in(inputs)
        padding = ~mask[:, None]
        decoder: list[LayerForward] = []
        for layer in self._decoder:
            read = windows(functional.pad(x, (0, 0, self._width - 1, 0)), self._width)
            convolved, slopes = _gate(layer.convolution(read))
            queries = layer.query(convolved).add_(inputs).mul_(_HALF)
            if not decoder:  # what comes before the first attention depends on the prefix only
                x, inputs, convolved, slopes, queries = (
                    tensor.index_select(0, number) for tensor in (x, inputs, convolved, slopes, queries)
                )
            scores = torch.bmm(queries, memory.transpose(1, 2)).masked_fill_(padding, float("-inf"))
            weights = torch.softmax(scores, -1)
            decoder.append(LayerForward(slopes, queries, weights))
            x = ((convolved + layer.attended(torch.bmm(weights, values))) * _HALF + x) * _HALF
        return FconvForward(
            self._decoder_out(x),
            tuple(
                Attention(kept.weights[:, None], values[:, None], layer.attended.weight.t()[None], layer.attended.bias)
                for kept, layer in zip(decoder, self._decoder, strict=True)
            ),
            mask=mask,
            memory=memory,
            values=values,
            value_scale=value_scale,
            encoder=tuple(encoder),
            decoder=tuple(decoder),
        )

    @torch.no_grad()
    def backward(self, forward: FconvForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of all wanted positions of some rows at a time."""
        for block in blocks_of(forward, cotangents, wanted):
            sent = self._decoder_backward(block)
            d_values = sent.to_values()
            d_x = self._encoder_backward(block, sent.to_output(), 0)
            vectors = (d_x @ self._to_inputs).transpose(0, 1)
            vectors.add_(d_values).masked_fill_(~block.mask.repeat_interleave(block.slots, 0)[..., None], 0.0)
            yield Gradients(block.rows, block.positions, vectors.view(len(block.rows), block.slots, *vectors.shape[1:]))

    @torch.no_grad()
    def products(self, forward: FconvForward, cotangents: Tensor, wanted: Tensor, along: Tensor) -> Iterator[Products]:
        """Yields gradients times ``along``; the lowest layers are gone through forwards where that is cheaper.

        A vector reaches only a few positions around it, and backwards there is a cotangent for every wanted position.
        """
        below = self._layers_forward(wanted, along.shape[1])
        clean, number = distinct(along.masked_fill(~forward.mask[..., None], 0.0))
        entered = clean @ self._to_inputs.t()
        for block in blocks_of(forward, cotangents, wanted):
            sent, some = self._decoder_backward(block), number[block.rows]
            changes = self._encoder_forward(block, entered.index_select(0, some), below)
            if below == len(self._encoder):
                d_reached, changes = sent.to_output(), changes @ self._to_encoder.t()
            else:
                d_reached = self._encoder_backward(block, sent.to_output(), below)
            values = self._contract(block, d_reached, changes)
            yield Products(block.rows, block.positions, values.add_(sent.times_values(clean.index_select(0, some))))

    def _layers_forward(self, wanted: Tensor, length: int) -> int:
        """Returns how many of the lowest encoder layers cost less forwards, for as many starts as rows want."""
        starts = float(wanted.sum() / wanted.any(1).sum().clamp(min=1))
        spans = [min(length, 1 + number * (self._width - 1)) for number in range(len(self._encoder))]
        return sum(span < starts for span in spans)

    def _encode(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns the encoder's output, its input, and the slopes of its convolutions."""
        length, padding = vectors.shape[1], ~mask[..., None]
        self._model.check_length(length, "source")
        inputs = vectors + self._source_positions[:length]
        around = (0, 0, (self._width - 1) // 2, self._width // 2)
        x = self._encoder_in(inputs)
        encoder = []
        for convolution in self._encoder:
            read = windows(functional.pad(x.masked_fill(padding, 0.0), around), self._width)
            convolved, slopes = _gate(convolution(read))
            encoder.append(slopes.masked_fill_(padding[..., None], 0.0).transpose(0, 1).contiguous())
            x = convolved.add_(x).mul_(_HALF)
        return self._encoder_out(x).masked_fill_(padding, 0.0), inputs, encoder

    def _decoder_backward(self, block: Block) -> Sent:
        """Returns what the wanted positions send to the encoder output and to the values."""
        rows, slots = block.positions.shape
        cotangents = block.cotangents.flatten(0, 1)
        d_x, sent = (cotangents @ self._decoder_out.weight).view(rows, slots, 1, -1), Sent(block.value_scale)
        for number in reversed(range(len(self._decoder))):
            layer, found, span = self._decoder[number], block.decoder[number], d_x.shape[2]
            weights, queries = (block.windows(tensor, span) for tensor in (found.weights, found.queries))
            d_context = d_x @ layer.half_attended
            d_weights = torch.bmm(d_context.view(rows, slots * span, -1), block.values.transpose(1, 2))
            d_scores = torch._softmax_backward_data(d_weights.view_as(weights), weights, -1, weights.dtype)
            sent.add(d_scores, queries, weights, d_context)
            if number == 0:
                break
            d_queries = torch.bmm(d_scores.view(rows, slots * span, -1), block.memory)
            d_convolved = (d_queries @ layer.half_query).view_as(d_x).add_(d_x, alpha=0.5)
            slopes = block.windows(found.slopes, span)
            d_gated = d_convolved[..., None, :] * slopes
            d_windows = (d_gated.flatten(3) @ layer.convolution.weight).view(rows, slots, span, self._width, -1)
            d_x = self._fold(d_windows, d_x)
        return sent

    def _fold(self, d_windows: Tensor, d_x: Tensor) -> Tensor:
        """Returns the cotangent of a layer's input, which has ``width - 1`` positions more, at the beginning.

        ``d_windows`` (row, slot, position, width, hidden) and ``d_x`` are of the layer's output.
        """
        reach, span = self._width - 1, d_x.shape[2]
        folded = d_x.new_zeros(*d_x.shape[:2], reach + span, d_x.shape[3])
        torch.mul(d_x, _HALF, out=folded[:, :, reach:])
        for number in range(self._width):
            folded[:, :, number : number + span] += d_windows[:, :, :, number]
        return folded

    def _encoder_backward(self, block: Block, d_output: Tensor, down_to: int) -> Tensor:
        """Returns the cotangents (source, pair, hidden) of what an encoder layer read, of those of the encoder output.

        Positions come before rows, so that a convolution's step from one position to another is one product. Numbers
        at padding come from windows that reach beyond a sentence; slopes are zero there, so they get no further.
        """
        length, pairs, _ = d_output.shape
        d_x = d_output.flatten(0, 1) @ self._to_encoder
        d_gated = d_x.new_empty(length, *block.positions.shape, 2, d_x.shape[1])
        flat = d_gated.view(len(d_x), -1)
        layers = list(zip(self._taps, block.encoder, strict=True))[down_to:]
        for taps, slopes in reversed(layers):
            torch.mul(d_x.view(*d_gated.shape[:3], 1, -1), slopes[:, :, None], out=d_gated)
            for offset, tap in taps:
                read_from, written_from = max(0, -offset) * pairs, max(0, offset) * pairs
                count = (length - abs(offset)) * pairs
                if count > 0:
                    d_x[written_from : written_from + count].addmm_(flat[read_from : read_from + count], tap)
        return d_x.view(length, pairs, -1)

    def _encoder_forward(self, block: Block, entered: Tensor, layers: int) -> Tensor:
        """Returns how what the encoder layer above so many reads changes, (distance, source, row, hidden).

        Each source position changes alone, by ``entered`` (row, source, hidden). The first distance is that of
        positions furthest before it, so ``before`` of those.
        """
        rows, length, hidden = entered.shape
        before = self._width // 2
        changes = entered.transpose(0, 1).contiguous()[None]
        for number in range(layers):
            slopes, taps = block.encoder[number], self._forward_taps[number]
            wider = changes.new_zeros(len(changes) + self._width - 1, length, rows, hidden)
            first = -before * (number + 1)
            for place, out in enumerate(wider):
                distance = first + place
                start, stop = max(0, distance), min(length, length + distance)
                if start >= stop:
                    continue
                gates = changes.new_zeros(stop - start, rows, 2, hidden)
                flat = gates.view((stop - start) * rows, -1)
                for offset, tap in taps:
                    read = place - before + offset  # the distance of what the window has at this offset
                    begin, end = max(start, -offset), min(stop, length - offset)
                    if 0 <= read < len(changes) and begin < end:
                        what = changes[read, begin + offset : end + offset].flatten(0, 1)
                        flat[(begin - start) * rows : (end - start) * rows].addmm_(what, tap)
                now = slopes[start:stop]
                torch.mul(gates[:, :, 0], now[:, :, 0], out=out[start:stop]).addcmul_(gates[:, :, 1], now[:, :, 1])
            wider[before : before + len(changes)] += changes
            changes = wider
        return changes

    def _contract(self, block: Block, d_reached: Tensor, changes: Tensor) -> Tensor:
        """Returns (row, slot, source): cotangents (source, pair, ...) times changes (distance, source, row, ...)."""
        (rows, slots), length = block.positions.shape, len(d_reached)
        layers = (len(changes) - 1) // max(1, self._width - 1)
        by_position = torch.bmm(d_reached.view(length * rows, slots, -1), changes.flatten(1, 2).permute(1, 2, 0)).view(
            length, rows, slots, -1
        )
        values = d_reached.new_zeros(rows, slots, length)
        for place in range(len(changes)):
            distance = place - layers * (self._width // 2)
            start, stop = max(0, distance), min(length, length + distance)
            if start < stop:
                values[:, :, start - distance : stop - distance] += by_position[start:stop, ..., place].permute(1, 2, 0)
        return values


class _Affine:
    """A linear map with its weight normed once."""

    def __init__(self, linear: nn.Linear) -> None:
        self.weight, self.bias = linear.weight.detach(), linear.bias.detach()  # (output, input), (output)

    def __call__(self, vectors: Tensor) -> Tensor:
        return functional.linear(vectors, self.weight, self.bias)


class _Layer:
    """The maps of a decoder layer, and two of them with the factors of the residual sums."""

    def __init__(self, layer: DecoderLayer) -> None:
        self.convolution = _Affine(layer.convolution)
        self.query, self.attended = _Affine(layer.query), _Affine(layer.attended)
        self.half_query, self.half_attended = self.query.weight * _HALF, self.attended.weight * 0.5


def _gate(pair: Tensor) -> tuple[Tensor, Tensor]:
    """Returns content * sigmoid(gate) (row, position, hidden), and what a cotangent of it is multiplied with.

    The slopes, (row, position, 2, hidden), are those of content and gate.
    """
    content, gate = pair.chunk(2, -1)
    opened = torch.sigmoid(gate)
    gated = content * opened
    return gated, torch.stack((opened, torch.addcmul(gated, gated, opened, value=-1)), -2)


def _taps(weight: Tensor, width: int) -> list[Tensor]:
    """Returns the maps (2 * hidden, hidden) of a convolution's weight to the positions of its window."""
    return [tap.contiguous() for tap in weight.chunk(width, 1)]
