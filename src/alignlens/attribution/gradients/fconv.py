"""Backward passes of the convolutional model, one target position of many rows at a time.

A decoder position depends on few positions of the layers below it, and only those are visited. The lowest layer's input
is the prefix, where the way to the source ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.attribution.gradients.contract import Forward, Gradients, SourceGradients
from alignlens.attribution.room import room
from alignlens.models.contract import Attention
from alignlens.models.fconv import DecoderLayer, Fconv, windows

_HALF = math.sqrt(0.5)
_ROWS = 512  # rows that go backward together at most: enough for full speed, few enough for memory


@dataclass(frozen=True)
class _LayerForward:
    """One decoder layer; ``slopes`` are those of content and gate of its convolution."""

    slopes: Tensor  # (row, target, 2, hidden)
    queries: Tensor  # (row, target, dim)
    weights: Tensor  # (row, target, source)


@dataclass(frozen=True)
class FconvForward(Forward):
    """Adds all factors of a backward pass."""

    mask: Tensor = field(kw_only=True)  # (row, source)
    memory: Tensor = field(kw_only=True)  # (row, source, dim): encoder output
    values: Tensor = field(kw_only=True)  # (row, source, dim)
    value_scale: Tensor = field(kw_only=True)  # (row, 1, 1)
    encoder: tuple[Tensor, ...] = field(kw_only=True)  # by layer (source, row, 2, hidden); zero at padding
    decoder: tuple[_LayerForward, ...] = field(kw_only=True)


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
        # (source offset, weight) of every part of a window
        self._taps = [
            [
                (number - (self._width - 1) // 2, tap)
                for number, tap in enumerate(_taps(convolution.weight, self._width))
            ]
            for convolution in self._encoder
        ]

    @torch.no_grad()
    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> FconvForward:
        """Returns the forward pass."""
        memory, inputs, encoder = self._encode(vectors, mask)
        value_scale = mask.sum(1, dtype=vectors.dtype).sqrt()[:, None, None] * _HALF
        values = (memory + inputs) * value_scale
        self._model.check_length(prefix.shape[1], "target")
        inputs = prefix + self._target_positions[: prefix.shape[1]]
        x = self._decoder_in(inputs)
        padding, decoder = ~mask[:, None], []
        for layer in self._decoder:
            read = windows(functional.pad(x, (0, 0, self._width - 1, 0)), self._width)
            convolved, slopes = _gate(layer.convolution(read))
            queries = layer.query(convolved).add_(inputs).mul_(_HALF)
            scores = torch.bmm(queries, memory.transpose(1, 2)).masked_fill_(padding, float("-inf"))
            weights = torch.softmax(scores, -1)
            decoder.append(_LayerForward(slopes, queries, weights))
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
        """Yields the gradients of one target position of at most ``_ROWS`` rows at a time."""
        for position in range(wanted.shape[1]):
            rows = wanted[:, position].nonzero()[:, 0]
            for some in torch.split(rows, room(_ROWS, rows)) if len(rows) else ():
                selection = None if len(some) == len(wanted) else some
                d_state = _rows(cotangents[:, position], selection)
                d_memory, d_values = self._decoder_backward(forward, d_state, position, selection)
                vectors = self._encoder_backward(forward, d_memory, d_values, selection)
                yield Gradients(some, torch.full_like(some, position)[:, None], vectors[:, None])

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

    def _decoder_backward(
        self, forward: FconvForward, d_state: Tensor, position: int, rows: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns the cotangents of the encoder output and of the values, (some, source, dim), of one position."""
        memory, values = _rows(forward.memory, rows), _rows(forward.values, rows)
        d_memory, d_values = torch.zeros_like(memory), torch.zeros_like(values)
        d_x, start, stop = (d_state @ self._decoder_out.weight)[:, None], position, position + 1
        for number in reversed(range(len(self._decoder))):
            layer, found = self._decoder[number], forward.decoder[number]
            weights, queries = (_rows(tensor[:, start:stop], rows) for tensor in (found.weights, found.queries))
            d_context = d_x @ layer.half_attended
            d_weights = torch.bmm(d_context, values.transpose(1, 2))
            d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            d_values.baddbmm_(weights.transpose(1, 2), d_context)
            d_memory.baddbmm_(d_scores.transpose(1, 2), queries)
            if number == 0:
                break
            d_convolved = (torch.bmm(d_scores, memory) @ layer.half_query).add_(d_x, alpha=0.5)
            d_gated = d_convolved[..., None, :] * _rows(found.slopes[:, start:stop], rows)
            d_windows = (d_gated.flatten(2) @ layer.convolution.weight).view(*d_gated.shape[:2], self._width, -1)
            d_x, start = self._fold(d_windows, d_x, start)
        return d_memory, d_values

    def _fold(self, d_windows: Tensor, d_x: Tensor, start: int) -> tuple[Tensor, int]:
        """Returns the cotangent of a layer's input from its first position that matters, and this position.

        ``d_windows`` (some, position, width, hidden) and ``d_x`` are of the layer's output from position ``start``.
        """
        reach = self._width - 1
        first, stop = max(0, start - reach), start + d_x.shape[1]
        folded = d_x.new_zeros(len(d_x), stop - first, d_x.shape[2])
        torch.mul(d_x, _HALF, out=folded[:, start - first :])
        for number in range(self._width):
            offset = number - reach
            begin = max(start, first - offset)  # windows that begin before the sentence read nothing there
            if begin < stop:
                folded[:, begin + offset - first : stop + offset - first] += d_windows[:, begin - start :, number]
        return folded, first

    def _encoder_backward(
        self, forward: FconvForward, d_memory: Tensor, d_values: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Returns the cotangents of the source vectors (some, source, dim); zero at padding.

        Positions come before rows, so that a convolution's step from one position to another is one product. Numbers
        at padding come from windows that reach beyond a sentence; slopes are zero there, so they get no further.
        """
        some, length, dim = d_memory.shape
        value_scale = _rows(forward.value_scale, rows)
        d_output = d_memory.new_empty(length, some, dim)
        torch.addcmul(d_memory, d_values, value_scale, out=d_output.transpose(0, 1))
        d_x = d_output.view(-1, dim) @ self._to_encoder
        d_gated = d_x.new_empty(len(d_x), 2, d_x.shape[1])
        flat = d_gated.view(len(d_x), -1)
        for taps, slopes in zip(reversed(self._taps), reversed(forward.encoder), strict=True):
            torch.mul(d_x[:, None], _rows(slopes, rows, 1).flatten(0, 1), out=d_gated)
            for offset, tap in taps:
                read_from, written_from = max(0, -offset) * some, max(0, offset) * some
                count = (length - abs(offset)) * some
                if count > 0:
                    d_x[written_from : written_from + count].addmm_(flat[read_from : read_from + count], tap)
        vectors = torch.empty_like(d_memory)
        d_inputs = (d_x @ self._to_inputs).view(length, some, dim).transpose(0, 1)
        torch.addcmul(d_inputs, d_values, value_scale, out=vectors)
        return vectors.masked_fill_(~_rows(forward.mask, rows)[..., None], 0.0)


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


def _rows(tensor: Tensor, rows: Tensor | None, axis: int = 0) -> Tensor:
    """Returns the given rows; without a copy where all are meant."""
    return tensor if rows is None else tensor.index_select(axis, rows)
