"""Recurrent encoder and decoder with bilinear attention, as in Ding et al. 2019 and in Snell et al. 2021.

With encoder states h_j and decoder states s_t, the weights a_tj are the softmax over j of (A s_t + b) . h_j. Then

    luong       the output layer reads tanh(W_s s_t + W_c sum_j a_tj h_j) (Luong et al. 2015, without b); with input
                feeding the decoder reads this vector together with the next token
    two_layer   the output layer reads relu(W_1 [s_t; c_t]) with c_t = P sum_j a_tj h_j + p
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.embeddings import is_tied, token_tables
from alignlens.models.settings import LstmSettings

_EMBEDDING_STD = 1.0  # from a tenth of it, a small model needs several times as many updates


@dataclass(frozen=True)
class LstmMemory(Memory):
    """Besides the encoder states, what the decoder starts from."""

    hidden: Tensor = field(kw_only=True)  # (batch, layer, hidden)
    cell: Tensor = field(kw_only=True)  # (batch, layer, hidden)


@dataclass(frozen=True)
class LstmDecoded(Decoded):
    """Besides ``states``, the s_t that they are made of: ``states`` is ``Lstm.join`` of them and the contexts."""

    recurrent: Tensor = field(kw_only=True)  # (batch, target, hidden)


class Lstm(Seq2Seq):
    """The output of its one attention layer is what ``join`` takes: W_c sum_j a_tj h_j, or c_t."""

    def __init__(self, settings: LstmSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.settings = settings
        dim, hidden, layers = settings.dim, settings.hidden, (settings.encoder_layers, settings.decoder_layers)
        width, two_layer = hidden * (2 if settings.bidirectional else 1), settings.output == "two_layer"
        self.source_table, self.target_table = token_tables(
            settings.embeddings, source_vocab, target_vocab, dim, PADDING_ID, _EMBEDDING_STD
        )
        self.encoder = nn.LSTM(dim, hidden, layers[0], batch_first=True, bidirectional=settings.bidirectional)
        read = 2 * dim if settings.input_feeding else dim
        self.decoder = nn.LSTM(read, hidden, layers[1], batch_first=True)
        self.bilinear = nn.Linear(hidden, width, bias=two_layer)  # A and b
        self.from_context = nn.Linear(width, dim, bias=two_layer)  # W_c, or P and p
        self.inner = nn.Linear(hidden + dim if two_layer else hidden, dim, bias=two_layer)  # W_s, or W_1
        self.output_dropout = nn.Dropout(settings.output_dropout)
        self.output = nn.Linear(dim, target_vocab)
        if is_tied(settings.embeddings):
            self.output.weight = self.target_table.weight
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Returns the model itself, in training or evaluation mode.

        Its recurrent parts always stay in training mode: on a GPU they would not compute gradients otherwise. All
        that the mode changes in them is the dropout between layers, which is switched here.
        """
        super().train(mode)
        for part in (self.encoder, self.decoder):
            part.train()
            part.dropout = self.settings.layer_dropout if mode else 0.0
        return self

    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim)."""
        return cast("Tensor", self.source_table(ids))

    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, target, dim)."""
        return cast("Tensor", self.target_table(ids))

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> LstmMemory:
        """Returns the memory of source token vectors (batch, source, dim); there is no attention to trace."""
        lengths = mask.sum(1).cpu()
        if int(lengths.min()) == vectors.shape[1]:
            states, final = _run(self.encoder, vectors)  # the same numbers by a faster kernel
        else:
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            packed_states, final = _run(self.encoder, packed)
            states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=vectors.shape[1])
        hidden, cell = (self.initial(tensor) for tensor in final)
        return LstmMemory(vectors, mask, states, hidden=hidden, cell=cell)

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> LstmDecoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim)."""
        source = self._source(memory)
        if self.settings.input_feeding:
            states, recurrent, weights = self._decode_with_feeding(_own(memory), vectors, source)
        else:
            initial = tuple(tensor.transpose(0, 1).contiguous() for tensor in (_own(memory).hidden, _own(memory).cell))
            recurrent, _ = _run(self.decoder, vectors, initial)
            context, weights = _attend(recurrent, source)
            states = self.output_dropout(self.join(recurrent, context))
        return LstmDecoded(states, (self._named(memory, weights),) if trace else (), recurrent=recurrent)

    def join(self, recurrent: Tensor, context: Tensor) -> Tensor:
        """Returns what ``logits`` reads, (..., dim), of s_t (..., hidden) and attention output (..., dim)."""
        if self.settings.output == "luong":
            return torch.tanh(self.inner(recurrent) + context)
        return torch.relu(self.inner(torch.cat((recurrent, context), -1)))

    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""
        return cast("Tensor", self.output(states))

    def begin(self, memory: Memory) -> State:
        """Returns the state before the first token.

        ``running`` holds the hidden and cell states of all layers, (rows, layer, hidden), and what is fed back.
        """
        own = _own(memory)
        feed = (memory.states.new_zeros(len(memory.states), self.settings.dim),) if self.settings.input_feeding else ()
        return State(0, memory, self._source(memory), (own.hidden, own.cell, *feed))

    def step(self, state: State, vectors: Tensor) -> tuple[LstmDecoded, State]:
        """Reads one more token per row (rows, 1, dim); returns its position of ``decode``, and the next state."""
        hidden, cell, *feed = state.running
        read = torch.cat((vectors[:, 0], *feed), -1)
        bottom, *upper = layers_of(self.decoder)
        gates = torch.addmm(bottom.gates(read), hidden[:, 0], bottom.recurrent.t())
        layers = self._climb(gates, list(zip(hidden.unbind(1), cell.unbind(1), strict=True)), upper)
        recurrent = layers[-1][0][:, None]
        context, _ = _attend(recurrent, state.fixed)
        states = self.output_dropout(self.join(recurrent, context))
        running = [torch.stack(tensors, 1) for tensors in zip(*layers, strict=True)]
        if feed:
            running.append(states[:, 0])
        return LstmDecoded(states, recurrent=recurrent), replace(
            state, position=state.position + 1, running=tuple(running)
        )

    def _decode_with_feeding(
        self, memory: LstmMemory, vectors: Tensor, source: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns states, recurrent states and attention weights; what does not wait for the feed is done first."""
        (bottom, *upper), dim = layers_of(self.decoder), self.settings.dim
        from_token, from_feed = bottom.input[:, :dim], bottom.input[:, dim:]
        token_gates = functional.linear(vectors, from_token, bottom.bias)
        from_before = torch.cat((from_feed, bottom.recurrent), 1).t()
        layers = list(zip(memory.hidden.unbind(1), memory.cell.unbind(1), strict=True))
        feed = vectors.new_zeros(len(vectors), dim)
        steps = []
        for gates in token_gates.unbind(1):
            gates = torch.addmm(gates, torch.cat((feed, layers[0][0]), 1), from_before)
            layers = self._climb(gates, layers, upper)
            recurrent = layers[-1][0]
            context, weights = _attend(recurrent[:, None], source)
            feed = self.output_dropout(self.join(recurrent, context[:, 0]))
            steps.append((feed, recurrent, weights[:, 0]))
        states, recurrent, weights = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        return states, recurrent, weights

    def _climb(
        self, gates: Tensor, layers: Sequence[tuple[Tensor, Tensor]], upper: Sequence[Layer]
    ) -> list[tuple[Tensor, Tensor]]:
        """Returns hidden and cell state of every layer one position later; ``gates`` are the lowest layer's."""
        above = [_cell(gates, layers[0][1])]
        for layer, (hidden, cell) in zip(upper, layers[1:], strict=True):
            read = functional.dropout(above[-1][0], self.settings.layer_dropout, self.training)
            above.append(_cell(torch.addmm(layer.gates(read), hidden, layer.recurrent.t()), cell))
        return above

    def initial(self, final: Tensor) -> Tensor:
        """Returns the decoder's first states (batch, layer, hidden) of the encoder's last (layer and direction, ...).

        Two directions are averaged. The topmost layers belong together where the numbers of layers differ.
        """
        by_layer = final.view(self.settings.encoder_layers, -1, *final.shape[1:]).mean(1).transpose(0, 1)
        return by_layer[:, self.initial_layers()]

    def initial_layers(self) -> list[int]:
        """Returns for every decoder layer the encoder layer whose last states it starts from."""
        surplus = self.settings.encoder_layers - self.settings.decoder_layers
        return [max(0, surplus + layer) for layer in range(self.settings.decoder_layers)]

    def _source(self, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what every position needs of the source, ready for ``_attend``: both matrices folded in once.

        Keys (batch, source, hidden) with A s_t . h_j = s_t . key_j; offsets (batch, 1, source) with b . h_j, minus
        infinity at padding; and what each position adds to the attention output (batch, source, dim): the weights
        sum to one, so a bias may be added to each.
        """
        keys = memory.states @ self.bilinear.weight
        if self.bilinear.bias is None:
            offsets = memory.states.new_zeros(memory.mask.shape)
        else:
            offsets = memory.states @ self.bilinear.bias
        offsets = offsets.masked_fill(~memory.mask, float("-inf"))[:, None]
        return keys, offsets, cast("Tensor", self.from_context(memory.states))

    def _named(self, memory: Memory, weights: Tensor) -> Attention:
        layer = self.from_context
        return Attention(weights[:, None], memory.states[:, None], layer.weight.t()[None], layer.bias)


class Layer:
    """The parameters of one layer of an ``nn.LSTM``, whose four gates are input, forget, new content, output."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.input, self.recurrent, *biases = weights
        self.bias = biases[0] + biases[1]

    def gates(self, read: Tensor) -> Tensor:
        """Returns what the layer's input adds to its gates (rows, 4 hidden)."""
        return functional.linear(read, self.input, self.bias)


def layers_of(lstm: nn.LSTM) -> list[Layer]:
    """Returns the layers from the lowest; of a layer with two directions, the forward one first."""
    return [Layer(weights) for weights in cast("list[list[Tensor]]", lstm.all_weights)]


def _run(lstm: nn.LSTM, inputs: Any, initial: tuple[Tensor, ...] | None = None) -> Any:
    """Returns what the fused layers return; on a CPU in full precision, since few processors have them in another."""
    with torch.autocast("cpu", enabled=False):
        return lstm(inputs, initial)


def _cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the next hidden and cell state (rows, hidden) of gates (rows, 4 hidden) before their non-linearity."""
    admit, keep, content, show = gates.chunk(4, 1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(admit) * torch.tanh(content)
    return torch.sigmoid(show) * torch.tanh(cell), cell


def _attend(recurrent: Tensor, source: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Returns the attention output (batch, target, dim) and weights (batch, target, source) of s_t."""
    keys, offsets, contributions = source
    scores = torch.baddbmm(offsets, recurrent, keys.transpose(1, 2))
    weights = torch.softmax(scores, -1)
    return torch.bmm(weights, contributions), weights


def _own(memory: Memory) -> LstmMemory:
    """Returns the memory under its real type: an LSTM decoder reads only what an LSTM encoder made."""
    return cast("LstmMemory", memory)
