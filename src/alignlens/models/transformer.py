"""The Transformer of Vaswani et al. 2017, layer norm after or before each branch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.activations import ACTIVATIONS
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.dropout import dropout
from alignlens.models.embeddings import is_tied, token_tables
from alignlens.models.positions import Entry
from alignlens.models.settings import TransformerSettings


class Transformer(Seq2Seq):
    """Encoder and decoder of equal width."""

    def __init__(self, settings: TransformerSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        dim, std = settings.dim, settings.dim**-0.5
        self.scale = math.sqrt(dim) if settings.scale_embeddings else 1.0
        self.longest = settings.max_positions
        self.source_table, self.target_table = token_tables(
            settings.embeddings, source_vocab, target_vocab, dim, PADDING_ID, std
        )
        self.source_entry, self.target_entry = Entry(settings), Entry(settings)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(
            DecoderLayer(settings, self._cross_attention) for _ in range(settings.decoder_layers)
        )
        # With norms before the branches nothing has normalised the sum of all branches yet.
        self.encoder_norm = nn.LayerNorm(dim) if settings.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(dim) if settings.norm == "pre" else nn.Identity()
        self.output = nn.Linear(dim, target_vocab, bias=settings.output_bias)
        nn.init.normal_(self.output.weight, std=std)
        if settings.output_bias:
            nn.init.zeros_(self.output.bias)
        if is_tied(settings.embeddings):
            self.output.weight = self.target_table.weight

    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim), scaled by sqrt(dim) if wanted."""
        return cast("Tensor", self.source_table(ids)) * self.scale

    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, target, dim), scaled by sqrt(dim) if wanted."""
        return cast("Tensor", self.target_table(ids)) * self.scale

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Returns the memory of source token vectors (batch, source, dim)."""
        states = self.source_entry(vectors)
        visible = mask[:, None, None, :]
        attention = []
        for layer in cast("Iterable[EncoderLayer]", self.encoder):
            states, seen = layer(states, visible, trace)
            attention.append(seen)
        return Memory(vectors, mask, self.encoder_norm(states), _traced(attention))

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim).

        Prefixes are padded on the right, so looking only backwards already keeps real positions from padding.
        """
        states = self.target_entry(vectors)
        source_visible = memory.mask[:, None, None, :]
        length = vectors.shape[1]
        backwards = torch.ones(length, length, dtype=torch.bool, device=vectors.device).tril()
        own, cross = [], []
        for layer in cast("Iterable[DecoderLayer]", self.decoder):
            source = layer.cross.read(memory.states)
            states, seen_own, seen_cross = layer(states, backwards, source, source_visible, trace)
            own.append(seen_own)
            cross.append(seen_cross)
        return Decoded(self.decoder_norm(states), _traced(cross), _traced(own))

    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""
        return cast("Tensor", self.output(states))

    def begin(self, memory: Memory) -> State:
        """Returns the state before the first token.

        ``fixed`` holds what each layer keeps of the source, keys and values (rows, source, 2 * dim) or more;
        ``running`` keys and values of the tokens read so far, (rows, read, 2 * dim).
        """
        layers = list(cast("Iterable[DecoderLayer]", self.decoder))
        fixed = tuple(layer.cross.read(memory.states) for layer in layers)
        running = tuple(layer.own.nothing(source) for layer, source in zip(layers, fixed, strict=True))
        return State(0, memory, fixed, running)

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        """Reads one more token per row (rows, 1, dim); returns its position of ``decode``, and the next state."""
        states = self.target_entry(vectors, state.position)
        visible = state.memory.mask[:, None, None, :]
        running = []
        layers = cast("Iterable[DecoderLayer]", self.decoder)
        for layer, fixed, earlier in zip(layers, state.fixed, state.running, strict=True):
            states, kept = layer.step(states, earlier, fixed, visible)
            running.append(kept)
        decoded = Decoded(self.decoder_norm(states))
        return decoded, replace(state, position=state.position + 1, running=tuple(running))

    def _cross_attention(self, settings: TransformerSettings) -> CrossAttention:
        """Returns a new layer of attention to the source."""
        return CrossAttention(settings.dim, settings.heads, settings.attention_dropout)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward net on each position."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.own = SelfAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.feed_forward = FeedForward(settings)
        self.own_branch = Branch(settings)
        self.feed_forward_branch = Branch(settings)

    def forward(self, states: Tensor, visible: Tensor, trace: bool) -> tuple[Tensor, Attention | None]:
        """Returns states of the same shape (batch, source, dim), and the attention if traced."""
        output, seen = self.own(self.own_branch.enter(states), visible, trace)
        seen = _beside(seen, states)
        states = self.own_branch.leave(states, output)
        output = self.feed_forward(self.feed_forward_branch.enter(states))
        return self.feed_forward_branch.leave(states, output), seen


class DecoderLayer(nn.Module):
    """Self-attention on the prefix, attention to the source, then a feed-forward net on each position."""

    def __init__(self, settings: TransformerSettings, cross: Callable[[TransformerSettings], CrossAttention]) -> None:
        super().__init__()
        self.own = SelfAttention(settings.dim, settings.heads, settings.attention_dropout)
        self.cross = cross(settings)
        self.feed_forward = FeedForward(settings)
        self.own_branch = Branch(settings)
        self.cross_branch = Branch(settings)
        self.feed_forward_branch = Branch(settings)

    def forward(
        self, states: Tensor, backwards: Tensor, source: Tensor, source_visible: Tensor, trace: bool
    ) -> tuple[Tensor, Attention | None, Attention | None]:
        """Returns states (batch, target, dim), and the attention to the prefix and to the source if traced.

        ``source`` is what ``cross.read`` gave.
        """
        output, seen_own = self.own(self.own_branch.enter(states), backwards, trace)
        seen_own = _beside(seen_own, states)
        states = self.own_branch.leave(states, output)
        output, seen_cross = self.cross(self.cross_branch.enter(states), source, source_visible, trace)
        return self.finish(states, output), seen_own, _beside(seen_cross, states)

    def step(self, states: Tensor, earlier: Tensor, source: Tensor, source_visible: Tensor) -> tuple[Tensor, Tensor]:
        """Returns states (rows, 1, dim) of one more token, and the prefix's keys and values including it."""
        output, running = self.own.step(self.own_branch.enter(states), earlier)
        states = self.own_branch.leave(states, output)
        output, _ = self.cross(self.cross_branch.enter(states), source, source_visible)
        return self.finish(states, output), running

    def finish(self, states: Tensor, output: Tensor) -> Tensor:
        """Returns the states (..., target, dim) that leave the layer if attention to the source gives ``found``.

        ``states`` are those that it was asked with. What follows sees no other position.
        """
        states = self.cross_branch.leave(states, output)
        output = self.feed_forward(self.feed_forward_branch.enter(states))
        return self.feed_forward_branch.leave(states, output)


class Branch(nn.Module):
    """Where a layer leaves the stream of states and comes back: norm, dropout and sum, in either order."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(settings.dim)
        self.dropout, self.norm_first = settings.dropout, settings.norm == "pre"

    def enter(self, states: Tensor) -> Tensor:
        """Returns what the layer reads."""
        return self.norm(states) if self.norm_first else states

    def leave(self, states: Tensor, output: Tensor) -> Tensor:
        """Returns the states with the layer's output added."""
        states = states + dropout(output, self.dropout, self.training)
        return states if self.norm_first else self.norm(states)


class FeedForward(nn.Module):
    """Two projections with an activation between, for each position by itself."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[settings.activation]
        self.dropout = settings.activation_dropout
        self.widen = nn.Linear(settings.dim, settings.ffn)
        self.narrow = nn.Linear(settings.ffn, settings.dim)
        for linear in (self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the output (batch, position, dim)."""
        hidden = self.activation.of(self.widen(inputs))
        return cast("Tensor", self.narrow(dropout(hidden, self.dropout, self.training)))


def _beside(attention: Attention | None, states: Tensor) -> Attention | None:
    """Returns the attention, if traced, with the states that its output is added to."""
    return None if attention is None else replace(attention, stream=states)


def _traced(attention: Sequence[Attention | None]) -> tuple[Attention, ...]:
    return tuple(seen for seen in attention if seen is not None)
