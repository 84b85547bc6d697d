"""Recurrent encoder and decoder with bilinear attention, as in Ding et al. 2019 and in Snell et al. 2021.

With encoder states h_j and decoder states s_t, the weights a_tj are the softmax over j of (A s_t + b) . h_j. Then

    luong       the output layer reads tanh(W_s s_t + W_c sum_j a_tj h_j) (Luong et al. 2015, without b); with input
                feeding the decoder reads this vector together with the next token
    two_layer   the output layer reads relu(W_1 [s_t; c_t]) with c_t = P sum_j a_tj h_j + p
    linear      the output layer reads s_t + c_t

Several heads have an A and b each. Their contexts are summed, or averaged, and then projected; or each is projected
by a P and p of its own before. A GRU may stand in the place of an LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.embeddings import is_tied, token_tables
from alignlens.models.recurrent import Layer, kind_of, layers_of, run
from alignlens.models.settings import LstmSettings

_EMBEDDING_STD = 1.0  # from a tenth of it, a small model needs several times as many updates


@dataclass(frozen=True)
class LstmMemory(Memory):
    """Besides the encoder states, what the decoder starts from."""

    hidden: Tensor = field(kw_only=True)  # (batch, layer, hidden)
    cell: Tensor = field(kw_only=True)  # (batch, layer, hidden); of GRUs, which have no such state, (batch, layer, 0)


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
        width, luong = hidden * (2 if settings.bidirectional else 1), settings.output == "luong"
        recurrent = nn.LSTM if settings.cell == "lstm" else nn.GRU
        self.source_table, self.target_table = token_tables(
            settings.embeddings, source_vocab, target_vocab, dim, PADDING_ID, _EMBEDDING_STD
        )
        self.encoder = recurrent(dim, hidden, layers[0], batch_first=True, bidirectional=settings.bidirectional)
        read = 2 * dim if settings.input_feeding else dim
        self.decoder = recurrent(read, hidden, layers[1], batch_first=True)
        # Heads lie side by side on the output axis of both: the first weights of each are those of a head by itself.
        self.bilinear = nn.Linear(hidden, settings.heads * width, bias=not luong)  # A and b
        if settings.attention == "uniform":
            self.bilinear.requires_grad_(requires_grad=False)
        projections = settings.heads if settings.head_projection == "own" else 1
        self.from_context = nn.Linear(width, projections * dim, bias=not luong)  # W_c, or P and p
        if settings.output != "linear":
            self.inner = nn.Linear(hidden if luong else hidden + dim, dim, bias=not luong)  # W_s, or W_1
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
            states, *final = run(self.encoder, vectors)  # the same numbers by a faster kernel
        else:
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            packed_states, *final = run(self.encoder, packed)
            states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=vectors.shape[1])
        hidden, cell = (self.initial(tensor) for tensor in final)
        return LstmMemory(vectors, mask, states, hidden=hidden, cell=cell)

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> LstmDecoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim)."""
        source = self._source(memory)
        if self.settings.input_feeding:
            states, recurrent, weights = self._decode_with_feeding(_own(memory), vectors, source)
        else:
            recurrent = self._recurrent(_own(memory), vectors)
            context, weights = self._attend(recurrent, source)
            states = self.output_dropout(self.join(recurrent, context))
        return LstmDecoded(states, (self._named(memory, weights),) if trace else (), recurrent=recurrent)

    def join(self, recurrent: Tensor, context: Tensor) -> Tensor:
        """Returns what ``logits`` reads, (..., dim), of s_t (..., hidden) and attention output (..., dim)."""
        if self.settings.output == "linear":
            return recurrent + context
        if self.settings.output == "luong":
            return self.activate(self.inner(recurrent) + context)
        return self.activate(self.inner(torch.cat((recurrent, context), -1)))

    def activate(self, summed: Tensor) -> Tensor:
        """Returns what the last step of ``join`` makes of a sum of what states and context add."""
        if self.settings.output == "linear":
            return summed
        tanh = self.settings.output == "luong" or self.settings.activation == "tanh"
        return torch.tanh(summed) if tanh else torch.relu(summed)

    def slopes(self, states: Tensor) -> Tensor:
        """Returns the derivative of ``activate`` where it has given these states."""
        if self.settings.output == "linear":
            return torch.ones_like(states)
        tanh = self.settings.output == "luong" or self.settings.activation == "tanh"
        return 1 - states.square() if tanh else (states > 0).to(states.dtype)

    def summands(self, memory: Memory, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what s_t adds, (batch, target, dim), and each source position, (batch, source, dim).

        If all heads have the weights a_tj, the states that the output layer reads are ``activate`` of the first plus
        the sum of a_tj times the second. The states s_t are those of the model's own weights.
        """
        recurrent = self.decode(memory, vectors).recurrent
        context = self._contributions(memory.states).sum(1)
        if self.settings.output == "linear":
            return recurrent, context
        if self.settings.output == "luong":
            return self.inner(recurrent), context
        of_state, of_context = self.inner.weight.tensor_split((self.settings.hidden,), 1)
        return functional.linear(recurrent, of_state, self.inner.bias), context @ of_context.t()

    def focused(self, memory: Memory, vectors: Tensor) -> Tensor:
        """Returns the states (batch, target, source, dim) of all attention on one position: N reads [P h_l; s_t]."""
        of_state, of_source = self.summands(memory, vectors)
        return self.activate(of_state[:, :, None] + of_source[:, None])

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
        context, _ = self._attend(recurrent, state.fixed)
        states = self.output_dropout(self.join(recurrent, context))
        running = [torch.stack(tensors, 1) for tensors in zip(*layers, strict=True)]
        if feed:
            running.append(states[:, 0])
        return LstmDecoded(states, recurrent=recurrent), replace(
            state, position=state.position + 1, running=tuple(running)
        )

    def _recurrent(self, memory: LstmMemory, vectors: Tensor) -> Tensor:
        """Returns s_t (batch, target, hidden) where they do not depend on what was attended to."""
        initial = [tensor.transpose(0, 1).contiguous() for tensor in (memory.hidden, memory.cell)]
        return cast("Tensor", run(self.decoder, vectors, initial)[0])

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
            context, weights = self._attend(recurrent[:, None], source)
            feed = self.output_dropout(self.join(recurrent, context[:, 0]))
            steps.append((feed, recurrent, weights[:, 0]))
        states, recurrent, weights = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        return states, recurrent, weights

    def _climb(
        self, gates: Tensor, layers: Sequence[tuple[Tensor, Tensor]], upper: Sequence[Layer]
    ) -> list[tuple[Tensor, Tensor]]:
        """Returns hidden and cell state of every layer one position later; ``gates`` are the lowest layer's."""
        advance = kind_of(self.decoder).advance
        above = [advance(gates, *layers[0])]
        for layer, (hidden, cell) in zip(upper, layers[1:], strict=True):
            read = functional.dropout(above[-1][0], self.settings.layer_dropout, self.training)
            above.append(advance(torch.addmm(layer.gates(read), hidden, layer.recurrent.t()), hidden, cell))
        return above

    def initial(self, final: Tensor) -> Tensor:
        """Returns the decoder's first states (batch, layer, hidden) of the encoder's last (layer and direction, ...).

        Two directions are averaged. The topmost layers belong together where the numbers of layers differ.
        """
        layers = self.settings.encoder_layers
        by_layer = final.view(layers, len(final) // layers, *final.shape[1:]).mean(1).transpose(0, 1)
        return torch.stack([by_layer[:, layer] for layer in self.initial_layers()], 1)

    def initial_layers(self) -> list[int]:
        """Returns for every decoder layer the encoder layer whose last states it starts from."""
        surplus = self.settings.encoder_layers - self.settings.decoder_layers
        return [max(0, surplus + layer) for layer in range(self.settings.decoder_layers)]

    def keys(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what s_t is compared with, (batch, head * source, hidden), and what is added, (batch, head * source).

        A s_t . h_j is s_t . key_j, so A is folded in once for all positions of the target; b . h_j is added to it.
        Uniform attention compares with nothing.
        """
        heads, (batch, source, width) = self.settings.heads, states.shape
        if self.settings.attention == "uniform":
            nothing = states.new_zeros(batch, heads * source)
            return nothing[..., None].expand(-1, -1, self.settings.hidden), nothing
        if heads == 1:
            keys, bias = states @ self.bilinear.weight, self.bilinear.bias
            return keys, keys.new_zeros(keys.shape[:2]) if bias is None else states @ bias
        keys = states[:, None] @ self.bilinear.weight.view(heads, width, -1)
        if self.bilinear.bias is None:
            return keys.flatten(1, 2), keys.new_zeros(batch, heads * source)
        offsets = states @ self.bilinear.bias.view(heads, width).t()
        return keys.flatten(1, 2), offsets.transpose(1, 2).flatten(1)

    def _source(self, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what every position needs of the source, ready for ``_attend``, heads one after the other.

        Keys (batch, head * source, hidden); offsets (batch, 1, head * source), minus infinity at padding; and what
        each position adds to the attention output, (batch, head * source, dim).
        """
        keys, offsets = self.keys(memory.states)
        padding = ~memory.mask.repeat(1, self.settings.heads)
        offsets = offsets.masked_fill(padding, float("-inf"))[:, None]
        return keys, offsets, self._contributions(memory.states).flatten(1, 2)

    def _contributions(self, states: Tensor) -> Tensor:
        """Returns (batch, head, source, dim): the weights of a head sum to one, so its bias may be added to each."""
        heads, mean = self.settings.heads, self.settings.head_contexts == "mean"
        if heads == 1:
            return cast("Tensor", self.from_context(states))[:, None]
        if self.settings.head_projection == "own":
            by_head = self.from_context(states).unflatten(-1, (heads, -1)).transpose(1, 2)
        else:  # one bias for all heads together
            weight, bias = self.from_context.weight, self.from_context.bias
            share = bias if bias is None or mean else bias / heads
            by_head = functional.linear(states, weight, share)[:, None].expand(-1, heads, -1, -1)
        return cast("Tensor", by_head / heads if mean else by_head)

    def _attend(self, recurrent: Tensor, source: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Returns the attention output (batch, target, dim) and weights (batch, target, head, source) of s_t."""
        keys, offsets, contributions = source
        scores = torch.baddbmm(offsets, recurrent, keys.transpose(1, 2))
        weights = torch.softmax(scores.view(*scores.shape[:2], self.settings.heads, -1), -1)
        return torch.bmm(weights.flatten(2), contributions), weights

    def _named(self, memory: Memory, weights: Tensor) -> Attention:
        layer, heads = self.from_context, self.settings.heads
        share = 1 / heads if self.settings.head_contexts == "mean" else 1.0
        projection: Tensor = layer.weight.view(-1, self.settings.dim, layer.in_features).transpose(1, 2)
        bias: Tensor | None = layer.bias
        if bias is not None and self.settings.head_projection == "own":
            bias = share * bias.view(heads, -1).sum(0)
        values = memory.states[:, None].expand(-1, heads, -1, -1)
        return Attention(weights.transpose(1, 2), values, share * projection.expand(heads, -1, -1), bias)


def _own(memory: Memory) -> LstmMemory:
    """Returns the memory under its real type: an LSTM decoder reads only what an LSTM encoder made."""
    return cast("LstmMemory", memory)
