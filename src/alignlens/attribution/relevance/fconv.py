"""Relevance in the convolutional model.

A gated unit, content * sigmoid(gate), has a product like those of an LSTM: the gate weighs, the content carries (Arras
et al. 2017, "Explaining recurrent neural network predictions in sentiment analysis"; Arras et al. 2019, "Explaining and
interpreting LSTMs"). So the window that a convolution has read gets its relevance from the linear map of the content
alone. Linear maps, sums and attention are those of Voita et al. 2020, section 2.2; whatever a sum is multiplied with
multiplies both summands, and sums inside sums go one after the other.

Of a window that reaches beyond its sentence, what lies there is not there: it gets nothing, and no share of a bias.
Relevance ends at token vectors with their positions. How gradients are scaled has nothing to do with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.attribution.relevance.contract import Found, Relevance
from alignlens.attribution.relevance.rules import Attended, Reach
from alignlens.models.fconv import windows

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Rules
    from alignlens.models.fconv import DecoderLayer, Fconv

_LINEAR, _SUM, _ATTENTION = "linear", "residual sum", "attention"
_HALF = math.sqrt(0.5)


class FconvRelevance(Relevance):
    """Norms the model's weights once, so the model must not be trained meanwhile."""

    @torch.no_grad()
    def __init__(self, model: Fconv, rules: Rules) -> None:
        super().__init__(model, rules)
        self._model, width = model, model.settings.width
        self._encoder_in, self._encoder_out = _Map(rules, model.encoder_in), _Map(rules, model.encoder_out)
        self._decoder_in, self._decoder_out = _Map(rules, model.decoder_in), _Map(rules, model.decoder_out)
        self._encoder = [
            _Convolution(rules, convolution, (width - 1) // 2, width // 2)
            for convolution in cast("Sequence[nn.Linear]", model.encoder)
        ]
        self._decoder = [_Layer(rules, layer, width) for layer in cast("Sequence[DecoderLayer]", model.decoder)]

    @torch.no_grad()
    def read(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Tensor:
        """Returns decoder states (target, row, dim), and keeps what ``propagate`` needs."""
        model, padding = self._model, ~mask.t()[..., None]
        model.check_length(vectors.shape[1], "source")
        model.check_length(prefix.shape[1], "target")
        self._lengths = mask.sum(1)
        self._scale = (self._lengths.to(vectors.dtype) / 2).sqrt()[:, None]
        self._source = (vectors + model.source_positions[: vectors.shape[1]]).transpose(0, 1)
        x = self._encoder_in(self._source)
        self._encoded: list[tuple[Tensor, Tensor]] = []
        for convolution in self._encoder:
            convolved = convolution(x.masked_fill(padding, 0.0))
            self._encoded.append((x, convolved))
            x = (convolved + x) * _HALF
        self._top = x
        self._memory = self._encoder_out(x).masked_fill(padding, 0.0)
        values = (self._memory + self._source) * self._scale
        self._target = (prefix + model.target_positions[: prefix.shape[1]]).transpose(0, 1)
        x = self._decoder_in(self._target)
        self._decoded: list[_Decoded] = []
        for layer in self._decoder:
            computed = layer.read(x, self._target, self._memory, values, mask)
            self._decoded.append(computed)
            x = ((computed.convolved + computed.attended) * _HALF + x) * _HALF
        self._last = x
        return self._decoder_out(x)

    @torch.no_grad()
    def propagate(self, relevance: Tensor) -> Found:
        """Returns what the relevance of decoder states is made of."""
        of_prefix = torch.zeros_like(relevance)
        memory, values = relevance.new_zeros(2, len(self._memory), *relevance.shape[1:])
        relevance = self._decoder_out.back(self._last, relevance, Reach.OWN)
        for number in reversed(range(len(self._decoder))):
            # Above the last convolution, a position is there for its own prediction only.
            reach = Reach.OWN if number == len(self._decoder) - 1 else Reach.LATER
            of_layer = self._decoder[number].back(self._decoded[number], self._target, relevance, reach)
            relevance = of_layer.stream
            of_prefix += of_layer.inputs
            memory += of_layer.keys
            values += of_layer.values
        of_prefix += self._decoder_in.back(self._target, relevance, Reach.LATER)
        return Found(self._through_encoder(memory, values), of_prefix)

    def _through_encoder(self, memory: Tensor, values: Tensor) -> Tensor:
        """Returns the relevance of source vectors, of that of the encoder's output and of attention values."""
        of_memory, of_source = self.rules.summed(_SUM, self._memory * self._scale, self._source * self._scale, values)
        relevance = self._encoder_out.back(self._top, memory + of_memory, Reach.EVERY)
        for convolution, (x, convolved) in zip(reversed(self._encoder), reversed(self._encoded), strict=True):
            of_convolved, relevance = self.rules.summed(_SUM, convolved * _HALF, x * _HALF, relevance)
            relevance = relevance + convolution.back(x, of_convolved, Reach.EVERY, self._lengths)
        return of_source + self._encoder_in.back(self._source, relevance, Reach.EVERY)


class _Map:
    """A linear map of vectors (position, row, width) with its weight normed once."""

    def __init__(self, rules: Rules, linear: nn.Linear) -> None:
        self.rules, self.weight, self.bias = rules, linear.weight.detach(), linear.bias.detach()

    def __call__(self, vectors: Tensor) -> Tensor:
        return functional.linear(vectors, self.weight, self.bias)

    def back(self, read: Tensor, relevance: Tensor, reach: Reach) -> Tensor:
        """Returns the relevance of what it has read."""
        return self.rules.linear(_LINEAR, read, self.weight, self.bias, relevance, reach)


class _Convolution(_Map):
    """A gated convolution that sees some positions ``before`` and ``after`` each."""

    def __init__(self, rules: Rules, linear: nn.Linear, before: int, after: int) -> None:
        super().__init__(rules, linear)
        self._before, self._after = before, after
        self._content, self._bias = self.weight.chunk(2)[0], self.bias.chunk(2)[0]

    def __call__(self, vectors: Tensor) -> Tensor:
        """Returns (position, row, hidden) of vectors that are zero at padding."""
        padded = functional.pad(vectors.transpose(0, 1), (0, 0, self._before, self._after))
        read = windows(padded, self._before + 1 + self._after)
        return functional.glu(functional.linear(read, self.weight, self.bias)).transpose(0, 1)

    def back(self, read: Tensor, relevance: Tensor, reach: Reach, lengths: Tensor | None = None) -> Tensor:
        """Returns the relevance of what it has read in sentences of these ``lengths`` (row), or all the same."""
        of_inputs = torch.zeros_like(relevance)
        size = read.shape[-1]
        for place in range(len(read)):
            first, steps = max(0, place - self._before), reach.steps(place, relevance.shape[2])
            for rows, stop in self._stops(place, len(read), lengths):
                seen = read[first:stop, rows].transpose(0, 1)
                columns = slice((first - place + self._before) * size, (stop - place + self._before) * size)
                of_window = self.rules.linear(
                    _LINEAR,
                    seen.reshape(1, seen.shape[0], -1),
                    self._content[:, columns],
                    self._bias,
                    relevance[place, rows][None, :, steps],
                    Reach.EVERY,
                )[0]
                by_place = of_window.view(*of_window.shape[:2], stop - first, size).permute(2, 0, 1, 3)
                of_inputs[first:stop, rows, steps] += by_place
        return of_inputs

    def _stops(self, place: int, length: int, lengths: Tensor | None) -> Iterator[tuple[slice | Tensor, int]]:
        """Yields groups of rows, and where the windows at a position end in them, or their sentences."""
        stop = min(length, place + self._after + 1)
        if lengths is None or not self._after or bool((lengths >= stop).all()):
            yield slice(None), stop
            return
        ends = lengths.clamp(max=stop)
        for end in range(place + 1, stop + 1):
            rows = (ends == end).nonzero()[:, 0]
            if len(rows):
                yield rows, end


@dataclass(frozen=True)
class _Decoded:
    """What a decoder layer has computed, (target, row, width)."""

    x: Tensor
    convolved: Tensor
    asked: Tensor  # what of the queries comes from the convolution
    attended: Tensor
    mixed: Tensor  # the weighted sums of values
    attention: Attended


@dataclass(frozen=True)
class _OfLayer:
    """The relevance of what a decoder layer has read."""

    stream: Tensor  # (target, row, step, hidden)
    inputs: Tensor  # (target, row, step, dim)
    keys: Tensor  # (source, row, step, dim)
    values: Tensor


class _Layer:
    def __init__(self, rules: Rules, layer: DecoderLayer, width: int) -> None:
        self._rules, self._convolution = rules, _Convolution(rules, layer.convolution, width - 1, 0)
        self._query, self._attended = _Map(rules, layer.query), _Map(rules, layer.attended)

    def read(self, x: Tensor, inputs: Tensor, memory: Tensor, values: Tensor, mask: Tensor) -> _Decoded:
        convolved = self._convolution(x)
        asked = self._query(convolved)
        queries, keys, values = (each.transpose(0, 1)[:, None] for each in ((asked + inputs) * _HALF, memory, values))
        scores = (queries @ keys.transpose(-1, -2)).masked_fill(~mask[:, None, None], float("-inf"))
        attention = Attended(queries, keys, values, scores.softmax(-1))
        mixed = (attention.weights @ values)[:, 0].transpose(0, 1)
        return _Decoded(x, convolved, asked, self._attended(mixed), mixed, attention)

    def back(self, kept: _Decoded, inputs: Tensor, relevance: Tensor, reach: Reach) -> _OfLayer:
        """Returns the relevance of what it has read, of that of what it passes on."""
        summed = (kept.convolved + kept.attended) * _HALF
        relevance, of_x = self._rules.summed(_SUM, summed * _HALF, kept.x * _HALF, relevance)
        halves = kept.convolved * _HALF, kept.attended * _HALF
        of_convolved, of_attended = self._rules.summed(_SUM, halves[0], halves[1], relevance)
        of_mixed = self._attended.back(kept.mixed, of_attended, reach)
        source = len(kept.attention.keys[0, 0]), *of_mixed.shape[1:]
        of_queries, of_keys, of_values = (of_mixed.new_zeros(shape) for shape in (of_mixed.shape, source, source))
        for place in range(len(of_mixed)):
            # One query at a time: a single head is so wide that squares of its width are large.
            steps, now = reach.steps(place, of_mixed.shape[2]), slice(place, place + 1)
            attended = kept.attention
            one = attended._replace(queries=attended.queries[:, :, now], softmax=attended.softmax[:, :, now])
            of_attention = self._rules.attention(_ATTENTION, one, of_mixed[now, :, steps])
            of_queries[now, :, steps] = of_attention.queries
            of_keys[:, :, steps] += of_attention.keys
            of_values[:, :, steps] += of_attention.values
        of_asked, of_inputs = self._rules.summed(_SUM, kept.asked * _HALF, inputs * _HALF, of_queries)
        of_convolved = of_convolved + self._query.back(kept.convolved, of_asked, reach)
        stream = of_x + self._convolution.back(kept.x, of_convolved, reach)
        return _OfLayer(stream, of_inputs, of_keys, of_values)
