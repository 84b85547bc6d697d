"""T5 and mT5 (Raffel et al. 2020): a Transformer whose attention knows distances instead of positions.

Norms stand before the branches, divide by the root mean square and subtract nothing; no layer has a bias; scores are
not scaled; the feed-forward net may be gated. What is called as in ``transformer`` is what it is there, so that
everything that reads layers by name reads these as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.activations import ACTIVATIONS
from alignlens.models.attention import by_head, projection_by_head
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.dropout import dropout
from alignlens.models.embeddings import is_tied, token_tables
from alignlens.models.t5_settings import EPSILON, T5Settings


class T5(Seq2Seq):
    """Encoder and decoder of equal width."""

    def __init__(self, settings: T5Settings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        dim, std = settings.dim, settings.dim**-0.5
        self.dropout = settings.dropout
        # Part of what ``decode`` returns: logits are the output layer's of it, and nothing else.
        self.output_scale = std if settings.scale_output else 1.0
        self.source_table, self.target_table = token_tables(
            settings.embeddings, source_vocab, target_vocab, dim, PADDING_ID, 1.0
        )
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.encoder_distances = Distances(settings, both_ways=True)
        self.decoder_distances = Distances(settings, both_ways=False)
        self.encoder_norm, self.decoder_norm = (nn.RMSNorm(dim, eps=EPSILON) for _ in range(2))
        self.output = nn.Linear(dim, target_vocab, bias=False)
        nn.init.normal_(self.output.weight, std=std)
        if is_tied(settings.embeddings):
            self.output.weight = self.target_table.weight

    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim)."""
        return cast("Tensor", self.source_table(ids))

    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, target, dim)."""
        return cast("Tensor", self.target_table(ids))

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Returns the memory of source token vectors (batch, source, dim)."""
        states, visible = self._dropped(vectors), mask[:, None, None, :]
        distances = self.encoder_distances(0, vectors.shape[1])
        attention = []
        for layer in cast("Iterable[EncoderLayer]", self.encoder):
            states, seen = layer(states, visible, distances)
            attention.append(seen)
        return Memory(vectors, mask, self._dropped(self.encoder_norm(states)), tuple(attention) if trace else ())

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim)."""
        states, length = self._dropped(vectors), vectors.shape[1]
        backwards = torch.ones(length, length, dtype=torch.bool, device=vectors.device).tril()
        distances, source_visible = self.decoder_distances(0, length), memory.mask[:, None, None, :]
        own, cross = [], []
        for layer in cast("Iterable[DecoderLayer]", self.decoder):
            read = layer.own_branch.enter(states)
            output, seen = layer.own(read, layer.own.read(read), backwards, distances)
            own.append(replace(seen, stream=states, inputs=read))
            states = layer.own_branch.leave(states, output)
            states, seen = layer.across(states, layer.cross.read(memory.states), source_visible)
            cross.append(seen)
        return Decoded(self._finished(states), tuple(cross) if trace else (), tuple(own) if trace else ())

    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""
        return cast("Tensor", self.output(states))

    def begin(self, memory: Memory) -> State:
        """Returns the state before the first token: keys and values of the source, and of no token."""
        layers = list(cast("Iterable[DecoderLayer]", self.decoder))
        fixed = tuple(layer.cross.read(memory.states) for layer in layers)
        return State(0, memory, fixed, tuple(source.new_empty(len(source), 0, source.shape[2]) for source in fixed))

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        """Reads one more token per row (rows, 1, dim); returns its position of ``decode``, and the next state."""
        states, visible = self._dropped(vectors), state.memory.mask[:, None, None, :]
        distances = self.decoder_distances(state.position, state.position + 1)
        running = []
        layers = cast("Iterable[DecoderLayer]", self.decoder)
        for layer, source, earlier in zip(layers, state.fixed, state.running, strict=True):
            read = layer.own_branch.enter(states)
            kept = torch.cat((earlier, layer.own.read(read)), dim=1)
            output, _ = layer.own(read, kept, None, distances)
            states, _ = layer.across(layer.own_branch.leave(states, output), source, visible)
            running.append(kept)
        return Decoded(self._finished(states)), replace(state, position=state.position + 1, running=tuple(running))

    def _finished(self, states: Tensor) -> Tensor:
        return self._dropped(self.decoder_norm(states)) * self.output_scale

    def _dropped(self, states: Tensor) -> Tensor:
        return dropout(states, self.dropout, self.training)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward net on each position."""

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        self.own, self.feed_forward = DistanceAttention(settings), FeedForward(settings)
        self.own_branch, self.feed_forward_branch = Branch(settings), Branch(settings)

    def forward(self, states: Tensor, visible: Tensor, distances: Tensor) -> tuple[Tensor, Attention]:
        """Returns states of the same shape (batch, source, dim), and the attention."""
        read = self.own_branch.enter(states)
        output, seen = self.own(read, self.own.read(read), visible, distances)
        seen = replace(seen, stream=states, inputs=read)
        states = self.own_branch.leave(states, output)
        output = self.feed_forward(self.feed_forward_branch.enter(states))
        return self.feed_forward_branch.leave(states, output), seen


class DecoderLayer(nn.Module):
    """Self-attention on the prefix, attention to the source, then a feed-forward net on each position."""

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        self.own, self.cross, self.feed_forward = (
            DistanceAttention(settings),
            DistanceAttention(settings),
            FeedForward(settings),
        )
        self.own_branch, self.cross_branch, self.feed_forward_branch = (Branch(settings) for _ in range(3))

    def across(self, states: Tensor, source: Tensor, visible: Tensor) -> tuple[Tensor, Attention]:
        """Returns the states that leave the layer, and its attention to the source, whose keys and values are given."""
        output, seen = self.cross(self.cross_branch.enter(states), source, visible, None)
        return self.finish(states, output), replace(seen, stream=states)

    def finish(self, states: Tensor, output: Tensor) -> Tensor:
        """Returns the states (..., target, dim) that leave the layer if attention to the source gives ``found``."""
        states = self.cross_branch.leave(states, output)
        output = self.feed_forward(self.feed_forward_branch.enter(states))
        return self.feed_forward_branch.leave(states, output)


class Branch(nn.Module):
    """Where a layer leaves the stream of states and comes back."""

    norm_first = True

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        self.norm, self.dropout = nn.RMSNorm(settings.dim, eps=EPSILON), settings.dropout

    def enter(self, states: Tensor) -> Tensor:
        """Returns what the layer reads."""
        return cast("Tensor", self.norm(states))

    def leave(self, states: Tensor, output: Tensor) -> Tensor:
        """Returns the states with the layer's output added."""
        return states + dropout(output, self.dropout, self.training)


class DistanceAttention(nn.Module):
    """Attention whose scores are products, not scaled, and something for every distance."""

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        self.heads, self.dropout = settings.heads, settings.dropout
        inner = settings.heads * settings.head_dim
        self.query, self.output = nn.Linear(settings.dim, inner, bias=False), nn.Linear(inner, settings.dim, bias=False)
        self.project = nn.Linear(settings.dim, 2 * inner, bias=False)
        # Queries make up for scores that are not divided by the root of their width.
        for linear, std in (
            (self.query, (settings.dim * settings.head_dim) ** -0.5),
            (self.project, settings.dim**-0.5),
            (self.output, inner**-0.5),
        ):
            nn.init.normal_(linear.weight, std=std)

    def read(self, states: Tensor) -> Tensor:
        """Returns keys and values (batch, key, 2 * inner) of states, side by side."""
        return cast("Tensor", self.project(states))

    def forward(
        self, inputs: Tensor, keys_values: Tensor, visible: Tensor | None, distances: Tensor | None
    ) -> tuple[Tensor, Attention]:
        """Returns the output (batch, query, dim), and the layer by name.

        ``visible``, broadcast to (batch, head, query, key), is True where a query may look; ``distances`` is added to
        scores of that shape.
        """
        keys, values = (by_head(part, self.heads) for part in keys_values.chunk(2, dim=-1))
        scores = by_head(self.query(inputs), self.heads) @ keys.transpose(-2, -1)
        if distances is not None:
            scores = scores + distances
        if visible is not None:
            scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        weights = functional.softmax(scores, -1)
        if visible is not None:
            weights = weights.masked_fill(~visible, 0.0)
        mixed = dropout(weights, self.dropout, self.training) @ values
        output = cast("Tensor", self.output(mixed.transpose(1, 2).flatten(2)))
        return output, Attention(weights, values, projection_by_head(self), None, output=output)


class Distances(nn.Module):
    """What every head adds to the score of a key, by how far it is from the query: exactly if near, in steps if not."""

    def __init__(self, settings: T5Settings, both_ways: bool) -> None:
        super().__init__()
        self.both_ways, self.farthest = both_ways, settings.farthest
        self.table = nn.Embedding(settings.distances, settings.heads)
        nn.init.normal_(self.table.weight, std=settings.dim**-0.5)

    def forward(self, start: int, stop: int) -> Tensor:
        """Returns (1, head, query, key) of queries from ``start`` to ``stop`` and all keys before ``stop``."""
        device = self.table.weight.device
        places = torch.arange(stop, device=device)[None] - torch.arange(start, stop, device=device)[:, None]
        return cast("Tensor", self.table(self._numbers(places))).permute(2, 0, 1)[None]

    def _numbers(self, places: Tensor) -> Tensor:
        """Returns which entry of the table belongs to a key at this distance from its query."""
        count, first = self.table.num_embeddings, torch.zeros_like(places)
        if self.both_ways:  # half of the table for keys behind the query, half for those ahead
            count //= 2
            first, places = (places > 0) * count, places.abs()
        else:
            places = -places.clamp(max=0)
        exact = count // 2
        steps = torch.log(places.float().clamp(min=1) / exact) / math.log(self.farthest / exact) * (count - exact)
        far = (exact + steps.long()).clamp(max=count - 1)
        return first + torch.where(places < exact, places, far)


class FeedForward(nn.Module):
    """Two projections with an activation between, which another projection may gate."""

    def __init__(self, settings: T5Settings) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[settings.activation], settings.dropout
        self.widen = nn.Linear(settings.dim, settings.ffn, bias=False)
        self.gate = nn.Linear(settings.dim, settings.ffn, bias=False) if settings.gated else None
        self.narrow = nn.Linear(settings.ffn, settings.dim, bias=False)
        for linear in (self.widen, self.gate, self.narrow):
            if linear is not None:
                nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the output (batch, position, dim)."""
        hidden = self.activation.of(self.widen(inputs))
        if self.gate is not None:
            hidden = hidden * self.gate(inputs)
        return cast("Tensor", self.narrow(dropout(hidden, self.dropout, self.training)))
