"""Gated convolutions with attention in every decoder layer (Gehring et al. 2017), as their released model does it.

All linear maps and convolutions are weight-normed. Residual sums are multiplied by sqrt(0.5), which keeps the variance.
A convolution is a linear map of the window of vectors around (encoder) or up to (decoder) a position: on a CPU this is
faster than a convolution kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from alignlens.corpora.symbols import PADDING_ID
from alignlens.errors import ConfigError
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.embeddings import is_tied, token_tables
from alignlens.models.settings import FconvSettings

_HALF = math.sqrt(0.5)
_EMBEDDING_STD = 0.1


@dataclass(frozen=True)
class FconvMemory(Memory):
    """Besides the encoder output, which is what queries are compared with, what they then receive."""

    values: Tensor = field(kw_only=True)  # (batch, source, dim): sqrt(length / 2) * (encoder output + its input)

    BY_POSITION = (*Memory.BY_POSITION, "values")


@dataclass(frozen=True)
class FconvState(State):
    """Besides the last inputs of every convolution, the decoder's weights, normed once for all steps."""

    weights: _Weights = field(kw_only=True)


class Fconv(Seq2Seq):
    """A convolutional model.

    ``scale_encoder_gradient`` is taken from the settings and may be changed at any time, also on a trained model: if
    true, gradients that reach the encoder output are multiplied by 1 / (2 * decoder layers), which is how the model
    was trained but is not the true gradient. The direct path from the token vectors to the values is never scaled.
    """

    paper_attention = "mean"

    def __init__(self, settings: FconvSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.settings = settings
        self.longest = settings.max_positions
        self.scale_encoder_gradient = settings.scale_encoder_gradient
        dim, hidden, dropout = settings.dim, settings.hidden, settings.dropout
        self.dropout = nn.Dropout(dropout)
        self.source_table, self.target_table = token_tables(
            settings.embeddings, source_vocab, target_vocab, dim, PADDING_ID, _EMBEDDING_STD
        )
        self.source_positions = nn.Parameter(torch.empty(settings.max_positions, dim).normal_(std=_EMBEDDING_STD))
        self.target_positions = nn.Parameter(torch.empty(settings.max_positions, dim).normal_(std=_EMBEDDING_STD))
        self.encoder_in = _linear(dim, hidden, dropout)
        self.encoder = nn.ModuleList(_convolution(settings) for _ in range(settings.encoder_layers))
        self.encoder_out = _linear(hidden, dim)
        self.decoder_in = _linear(dim, hidden, dropout)
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.decoder_out = _linear(hidden, dim)
        if is_tied(settings.embeddings):
            self.output = nn.Linear(dim, target_vocab)
            nn.init.zeros_(self.output.bias)
            self.output.weight = self.target_table.weight
        else:
            self.output = _linear(dim, target_vocab, dropout)

    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim)."""
        return cast("Tensor", self.source_table(ids))

    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, target, dim)."""
        return cast("Tensor", self.target_table(ids))

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> FconvMemory:
        """Returns the memory of source token vectors (batch, source, dim); there is no attention to trace."""
        length, width, padding = vectors.shape[1], self.settings.width, ~mask[..., None]
        self.check_length(length, "source")
        inputs = self.dropout(vectors + self.source_positions[:length])
        around = (0, 0, (width - 1) // 2, width // 2)
        x = self.encoder_in(inputs)
        for convolution in self.encoder:
            window = functional.pad(self.dropout(x.masked_fill(padding, 0.0)), around)
            x = (functional.glu(convolution(windows(window, width))) + x) * _HALF
        states = self.encoder_out(x).masked_fill(padding, 0.0)
        if self.scale_encoder_gradient:
            states = scale_gradient(states, 1 / (2 * self.settings.decoder_layers))
        # A mean over n positions has a variance n times smaller than each, if they are independent.
        keep_variance = mask.sum(1, dtype=vectors.dtype).sqrt()[:, None, None]
        return FconvMemory(vectors, mask, states, values=(states + inputs) * (keep_variance * _HALF))

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim)."""
        nothing = vectors.new_zeros(len(vectors), self.settings.width - 1, self.settings.hidden)
        before = [nothing] * self.settings.decoder_layers
        states, _, weights = self._read(memory, vectors, 0, before, self._weights())
        if not trace:
            return Decoded(states)
        values = cast("FconvMemory", memory).values[:, None]
        layers = cast("Sequence[DecoderLayer]", self.decoder)
        return Decoded(
            states,
            tuple(
                Attention(seen[:, None], values, layer.attended.weight.t()[None], layer.attended.bias)
                for layer, seen in zip(layers, weights, strict=True)
            ),
        )

    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""
        return cast("Tensor", self.output(states))

    def begin(self, memory: Memory) -> FconvState:
        """Returns the state before the first token.

        ``running`` holds the last ``width - 1`` inputs of each convolution, (rows, width - 1, hidden).
        """
        nothing = memory.states.new_zeros(len(memory.states), self.settings.width - 1, self.settings.hidden)
        before = (nothing,) * self.settings.decoder_layers
        return FconvState(0, memory, fixed=(), running=before, weights=self._weights())

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        """Reads one more token per row (rows, 1, dim); returns its position of ``decode``, and the next state."""
        weights = cast("FconvState", state).weights
        states, running, _ = self._read(state.memory, vectors, state.position, state.running, weights)
        return Decoded(states), replace(state, position=state.position + 1, running=running)

    def _read(
        self, memory: Memory, vectors: Tensor, start: int, before: Sequence[Tensor], weights: _Weights
    ) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
        """Returns states of positions from ``start``, the last inputs of each convolution, and attention weights.

        ``before`` holds the ``width - 1`` inputs of each convolution that come before these positions.
        """
        stop = start + vectors.shape[1]
        self.check_length(stop, "target")
        inputs = self.dropout(vectors + self.target_positions[start:stop])
        x = functional.linear(inputs, *weights.enter)
        after, seen = [], []
        for layer, earlier in zip(weights.layers, before, strict=True):
            window = torch.cat((earlier, self.dropout(x)), 1)
            after.append(window[:, vectors.shape[1] :])
            convolved = functional.glu(functional.linear(windows(window, self.settings.width), *layer.convolution))
            query = (functional.linear(convolved, *layer.query) + inputs) * _HALF
            scores = query @ memory.states.transpose(1, 2)
            attention = torch.softmax(scores.masked_fill(~memory.mask[:, None], float("-inf")), -1)
            seen.append(attention)
            attended = functional.linear(attention @ cast("FconvMemory", memory).values, *layer.attended)
            x = ((convolved + attended) * _HALF + x) * _HALF
        return self.dropout(functional.linear(x, *weights.leave)), tuple(after), seen

    def _weights(self) -> _Weights:
        layers = [layer.weights() for layer in cast("Sequence[DecoderLayer]", self.decoder)]
        return _Weights(_affine(self.decoder_in), layers, _affine(self.decoder_out))

    def check_length(self, length: int, side: str) -> None:
        """Raises ``ConfigError`` for a sentence of that ``side`` that is longer than the learned positions."""
        if length > self.settings.max_positions:
            raise ConfigError(
                f"model.max_positions: this model has {self.settings.max_positions} learned positions, but a {side} "
                f"sentence has {length} pieces with its end. Leave out or split longer sentences, or train with more "
                "positions."
            )


class DecoderLayer(nn.Module):
    """A convolution and the two linear maps of its attention."""

    def __init__(self, settings: FconvSettings) -> None:
        super().__init__()
        self.convolution = _convolution(settings)
        self.query = _linear(settings.hidden, settings.dim)
        self.attended = _linear(settings.dim, settings.hidden)

    def weights(self) -> _LayerWeights:
        """Returns the normed weights."""
        return _LayerWeights(_affine(self.convolution), _affine(self.query), _affine(self.attended))


_Affine = tuple[Tensor, Tensor]  # weight (output, input) and bias (output)


@dataclass(frozen=True)
class _LayerWeights:
    convolution: _Affine
    query: _Affine
    attended: _Affine


@dataclass(frozen=True)
class _Weights:
    """The decoder's weights after norming, which each access to a module's weight would do again."""

    enter: _Affine
    layers: list[_LayerWeights]
    leave: _Affine


def scale_gradient(tensor: Tensor, factor: float) -> Tensor:
    """Returns the same numbers, whose gradient is multiplied by ``factor`` on its way back."""
    fixed = tensor.detach()
    return fixed + (tensor - fixed) * factor


def windows(vectors: Tensor, width: int) -> Tensor:
    """Returns (batch, length - width + 1, width * dim): the vectors of each window side by side."""
    length = vectors.shape[1] - width + 1
    return torch.cat([vectors[:, start : start + length] for start in range(width)], -1)


def _affine(linear: nn.Linear) -> _Affine:
    return linear.weight, linear.bias


def _convolution(settings: FconvSettings) -> nn.Linear:
    """Returns a map from a window, (width * hidden), to content and gate, (2 * hidden)."""
    # The gate halves what passes: four times the variance of a linear map keeps it (Gehring et al., section 3.5).
    return _linear(settings.width * settings.hidden, 2 * settings.hidden, settings.dropout, gain=4.0)


def _linear(inputs: int, outputs: int, dropout: float = 0.0, gain: float = 1.0) -> nn.Linear:
    """Returns a weight-normed map that keeps the variance of inputs with that ``dropout``."""
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=math.sqrt(gain * (1 - dropout) / inputs))
    nn.init.zeros_(linear.bias)
    return cast("nn.Linear", weight_norm(linear))
