"""Relevance in the recurrent model with LSTM cells and one attention head.

Gates weigh, signals carry: of a product, the signal gets all relevance (Arras et al. 2017, "Explaining recurrent neural
network predictions in sentiment analysis"; Arras et al. 2019, "Explaining and interpreting LSTMs", rule LRP-all).

    h_t = o * tanh(c_t)             c_t gets all that h_t has; so h_t and c_t have their relevance in common
    c_t = f * c_{t-1} + i * g_t     a sum of two vectors, and g_t gets all that i * g_t has
    g_t = tanh(W x_t + U h_{t-1})   a linear layer that reads both, with the rows of g_t alone

Linear layers, sums and attention follow Voita et al. 2020, section 2.2. The first
states of the decoder are half sums of two directions' last. States before a source sentence and the feed before the
first token are not there: they get nothing, and no share of a bias. The weights of uniform attention are no function
of anything, so values get everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from alignlens.attribution.gradients.lstm import LstmGradients
from alignlens.attribution.relevance.alpha_beta import AlphaBeta
from alignlens.attribution.relevance.attention import constant
from alignlens.attribution.relevance.contract import Found, Relevance
from alignlens.attribution.relevance.rules import Attended, Reach
from alignlens.errors import ConfigError
from alignlens.models.recurrent import layers_of

if TYPE_CHECKING:
    from alignlens.attribution.gradients.recurrence import Steps
    from alignlens.attribution.relevance.rules import OfAttention, Rules
    from alignlens.models.lstm import Lstm
    from alignlens.models.recurrent import Layer

_LINEAR, _CELL, _STATE, _ATTENTION = "linear", "cell", "state", "attention"


class _OfStep(NamedTuple):
    """The relevance of what one step of a layer has read, (row, step, width)."""

    read: Tensor
    hidden: Tensor
    cell: Tensor


class _OfDecoder(NamedTuple):
    """The relevance of all that the decoder was given."""

    memory: Tensor  # (source, row, step, width)
    prefix: Tensor  # (target, row, step, dim)
    hidden: list[Tensor]  # by layer, (row, step, hidden)
    cell: list[Tensor]


class LstmRelevance(Relevance):
    """Reads the model's weights once, so the model must not be trained meanwhile."""

    # Attention weighs as gates do. What queries get would go to the start of both sentences, step by step.
    usual_attention = "constant"

    @torch.no_grad()
    def __init__(self, model: Lstm, rules: Rules) -> None:
        super().__init__(model, rules)
        for wrong, what in ((model.settings.cell != "lstm", "GRU cells"), (model.settings.heads > 1, "several heads")):
            if wrong:
                raise ConfigError(
                    f"relevance propagation does not work with this model: it has {what}, but rules only exist for "
                    "LSTM cells and a single head."
                )
        self._model, self._pass = model, LstmGradients(model)
        self._layers = layers_of(model.encoder), layers_of(model.decoder)

    @torch.no_grad()
    def read(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Tensor:
        """Returns decoder states (target, row, dim), and keeps what ``propagate`` needs."""
        model, rules = self._model, self.rules
        forward = self._pass.forward(vectors, mask, prefix)
        encoder, decoder = self._layers
        self._lengths, self._memory, self._queries = forward.lengths, forward.memory, forward.queries
        self._vectors, self._prefix = vectors.transpose(0, 1), prefix.transpose(0, 1)
        self._states, self._weights = forward.states.transpose(0, 1), forward.cross[0].weights[:, 0]
        directed = [_Cells(rules, layer, steps) for layer, steps in zip(encoder, forward.encoder, strict=True)]
        directions = 2 if model.settings.bidirectional else 1
        self._encoder = [directed[start : start + directions] for start in range(0, len(directed), directions)]
        self._decoder = [_Cells(rules, layer, steps) for layer, steps in zip(decoder, forward.decoder, strict=True)]
        self._contexts = (self._weights @ self._memory).transpose(0, 1)
        self._projected = model.from_context(self._contexts)
        return self._states

    @torch.no_grad()
    def propagate(self, relevance: Tensor) -> Found:
        """Returns what the relevance of decoder states is made of."""
        of_decoder = self._through_decoder(relevance)
        return Found(self._through_encoder(of_decoder), of_decoder.prefix)

    def _through_decoder(self, relevance: Tensor) -> _OfDecoder:
        """Returns what decoder states are made of; from the last position on, each with its steps and all later."""
        feeding, dim = self._model.settings.input_feeding, self._model.settings.dim
        target, rows, steps, _ = relevance.shape
        relevance = relevance.clone() if feeding else relevance
        memory = relevance.new_zeros(self._memory.shape[1], rows, steps, self._memory.shape[2])
        prefix = torch.zeros_like(relevance)
        hidden, cell = (
            [relevance.new_zeros(rows, steps, self._model.settings.hidden) for _ in self._decoder] for _ in range(2)
        )
        for place in reversed(range(target)):
            # What was attended to here matters later only where it is fed back.
            looked, later = slice(place, None if feeding else place + 1), slice(place, None)
            of_state, of_source = self._through_output(place, relevance[place, :, looked])
            memory[:, :, looked] += of_source
            hidden[-1][:, looked] += of_state
            for number in reversed(range(len(self._decoder))):
                given = hidden[number][:, later] + cell[number][:, later]
                of_step = self._decoder[number].step(place, self._read_at(number, place), given)
                hidden[number][:, later], cell[number][:, later] = of_step.hidden, of_step.cell
                if number:
                    hidden[number - 1][:, later] += of_step.read
                    continue
                prefix[place, :, later] = of_step.read[..., :dim]
                if feeding and place:
                    relevance[place - 1, :, later] += of_step.read[..., dim:]
        return _OfDecoder(memory, prefix, hidden, cell)

    def _read_at(self, number: int, place: int) -> Tensor:
        """Returns what a decoder layer has read beside its own state, (row, width)."""
        if number:
            return self._decoder[number - 1].steps.hidden[place]
        if self._model.settings.input_feeding and place:
            return torch.cat((self._prefix[place], self._states[place - 1]), -1)
        return self._prefix[place]

    def _through_output(self, place: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what the relevance (row, step, dim) at a position gives s_t, and encoder states (source, row, ..)."""
        model, now, relevance = self._model, slice(place, place + 1), relevance[None]
        recurrent, projected = self._decoder[-1].steps.hidden[now], self._projected[now]
        if model.settings.output == "two_layer":
            of_both = self._linear(model.inner, torch.cat((recurrent, projected), -1), relevance)
            of_state, of_context = of_both.tensor_split((model.settings.hidden,), -1)
        elif model.settings.output == "luong":
            of_state, of_context = self.rules.summed(_STATE, model.inner(recurrent), projected, relevance)
            of_state = self._linear(model.inner, recurrent, of_state)
        else:
            of_state, of_context = self.rules.summed(_STATE, recurrent, projected, relevance)
        of_attention = self._through_attention(place, self._linear(model.from_context, self._contexts[now], of_context))
        if model.settings.attention != "uniform":
            of_state = of_state + self._linear(model.bilinear, recurrent, of_attention.queries)
        return of_state[0], of_attention.keys + of_attention.values

    def _through_attention(self, place: int, relevance: Tensor) -> OfAttention:
        """Returns what the relevance (1, row, step, width) of a context gives; keys and values are encoder states."""
        # One query at a time: a single head is so wide that squares of its width are large.
        queries, weights = (each[:, None, place : place + 1] for each in (self._queries, self._weights))
        attended = Attended(queries, self._memory[:, None], self._memory[:, None], weights)
        if self._model.settings.attention == "uniform" and isinstance(self.rules, AlphaBeta):
            return constant(self.rules, _ATTENTION, attended, relevance)
        return self.rules.attention(_ATTENTION, attended, relevance)

    def _through_encoder(self, of_decoder: _OfDecoder) -> Tensor:
        """Returns the relevance of source vectors (source, row, step, dim)."""
        heirs, relevance = self._model.initial_layers(), of_decoder.memory
        for number in reversed(range(len(self._encoder))):
            layer = self._encoder[number]
            by_direction = [each.clone() for each in relevance.chunk(len(layer), -1)]
            if number in heirs:
                for name, first in (("hidden", of_decoder.hidden), ("cell", of_decoder.cell)):
                    copies = [each for each, heir in zip(first, heirs, strict=True) if heir == number]
                    self._to_last(by_direction, [getattr(cells.steps, name) for cells in layer], copies)
            read = self._vectors
            if number:
                read = torch.cat([cells.steps.hidden for cells in self._encoder[number - 1]], -1)
            relevance = relevance.new_zeros(*relevance.shape[:3], read.shape[-1])
            for direction, (cells, given) in enumerate(zip(layer, by_direction, strict=True)):
                self._through_direction(cells, read, given, relevance, backwards=direction == 1)
        return relevance

    def _to_last(self, by_direction: Sequence[Tensor], states: Sequence[Tensor], copies: Sequence[Tensor]) -> None:
        """Adds the relevance of a decoder layer's first state, of which there may be copies, where sentences end.

        Hidden and cell states of a position have it in common, so it does not matter which ``states`` these are.
        """
        relevance = torch.stack(list(copies)).sum(0)
        rows = torch.arange(len(self._lengths), device=self._lengths.device)
        lasts = (self._lengths - 1, torch.zeros_like(self._lengths))
        shares: Sequence[Tensor] = (relevance,)
        if len(states) == 2:
            halves = [0.5 * state[last, rows][None] for state, last in zip(states, lasts, strict=True)]
            shares = [share[0] for share in self.rules.summed(_STATE, halves[0], halves[1], relevance[None])]
        for given, last, share in zip(by_direction, lasts, shares, strict=False):
            given[last, rows] += share

    def _through_direction(
        self, cells: _Cells, read: Tensor, given: Tensor, relevance: Tensor, backwards: bool
    ) -> None:
        """Adds to the relevance of what a layer has ``read`` what that of its states gives it."""
        carried = torch.zeros_like(given[0])
        for place in range(len(read))[:: 1 if backwards else -1]:
            # Reading backwards, a sentence begins where its padding ends.
            begins = self._lengths - 1 == place if backwards else torch.full_like(self._lengths, place == 0).bool()
            of_step = cells.step(place, read[place], carried + given[place], begins)
            relevance[place] += of_step.read
            carried = of_step.hidden + of_step.cell

    def _linear(self, layer: nn.Linear, read: Tensor, relevance: Tensor) -> Tensor:
        return self.rules.linear(_LINEAR, read, layer.weight, layer.bias, relevance, Reach.EVERY)


class _Cells:
    """One direction of a layer, whose steps are made."""

    def __init__(self, rules: Rules, layer: Layer, steps: Steps) -> None:
        self.steps, self._rules, size = steps, rules, layer.recurrent.shape[1]
        content = slice(2 * size, 3 * size)
        self._input, self._recurrent, self._bias = layer.input[content], layer.recurrent[content], layer.bias[content]

    def step(self, place: int, read: Tensor, relevance: Tensor, begins: Tensor | None = None) -> _OfStep:
        """Returns what the relevance (row, step, hidden) of hidden and cell state at a position gives.

        ``read`` (row, width) may be narrower than the layer's input if the rest of it is not there; ``begins`` (row)
        says where there is no state before.
        """
        steps = self.steps
        admit, keep, content, _ = steps.gates[place].chunk(4, -1)
        before = (keep * steps.cell_before[place])[None]
        kept, added = self._rules.summed(_CELL, before, (admit * content)[None], relevance[None])
        of_read = relevance.new_zeros(*relevance.shape[:2], read.shape[-1])
        of_hidden = torch.zeros_like(relevance)
        for rows, first in _groups(begins):
            some = added[:, rows]
            if first:
                of_read[rows] = self._linear(read[rows], self._input[:, : read.shape[-1]], some)
                continue
            weight = torch.cat((self._input[:, : read.shape[-1]], self._recurrent), 1)
            of_inputs = self._linear(torch.cat((read, steps.hidden_before[place]), -1)[rows], weight, some)
            of_read[rows], of_hidden[rows] = of_inputs.tensor_split((read.shape[-1],), -1)
        return _OfStep(of_read, of_hidden, kept[0])

    def _linear(self, read: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
        return self._rules.linear(_LINEAR, read[None], weight, self._bias, relevance, Reach.EVERY)[0]


def _groups(begins: Tensor | None) -> list[tuple[slice | Tensor, bool]]:
    """Returns groups of rows, and whether a sentence begins there; all rows are taken without a copy."""
    if begins is None or not bool(begins.any()):
        return [(slice(None), False)]
    if bool(begins.all()):
        return [(slice(None), True)]
    return [(begins, True), (~begins, False)]
