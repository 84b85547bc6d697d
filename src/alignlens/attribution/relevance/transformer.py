"""Relevance in a Transformer, with layer norms before or after its branches (Voita et al. 2020, section 2.2).

A residual sum gives to stream and branch; ReLU passes on what it gets; a layer norm is a function of all that it reads.
Inside attention there are several rules (``attention``). Relevance leaves the decoder for the encoder in every layer's
attention to the source, and what arrives there is added up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from alignlens.attribution.relevance.contract import Found, Relevance
from alignlens.attribution.relevance.rules import Attended, Reach

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Rules
    from alignlens.models.attention import CrossAttention, SelfAttention
    from alignlens.models.transformer import Branch, DecoderLayer, EncoderLayer, FeedForward, Transformer

_LINEAR, _NORM, _SUM, _ATTENTION = "linear", "layer norm", "residual sum", "attention"


class TransformerRelevance(Relevance):
    """A forward pass of some rows, position by position: (position, row, dim)."""

    def __init__(self, model: Transformer, rules: Rules) -> None:
        super().__init__(model, rules)
        self._model = model

    def read(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Tensor:
        """Returns decoder states (target, row, dim), and keeps what ``propagate`` needs."""
        model, rules = self._model, self.rules
        length = prefix.shape[1]
        visible = mask[:, None, None]
        backwards = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        self._placed_source = model.source_entry.placed(vectors).transpose(0, 1)
        states = model.source_entry.norm(self._placed_source)
        self._encoder: list[_Kept] = []
        for encoding in cast("Iterable[EncoderLayer]", model.encoder):
            own = _OwnAttention(rules, encoding.own_branch, encoding.own, Reach.EVERY)
            narrow = _FeedForward(rules, encoding.feed_forward_branch, encoding.feed_forward, Reach.EVERY)
            states = narrow.read(own.read(states, visible))
            self._encoder += [own, narrow]
        self._encoded, self._memory = states, model.encoder_norm(states)
        self._placed_prefix = model.target_entry.placed(prefix).transpose(0, 1)
        states = model.target_entry.norm(self._placed_prefix)
        layers = list(cast("Iterable[DecoderLayer]", model.decoder))
        self._decoder: list[tuple[_OwnAttention, RelevantCross, _FeedForward]] = []
        for number, layer in enumerate(layers, start=1):
            # Above the last look at the prefix, a position is there for its own prediction only.
            reach = Reach.OWN if number == len(layers) else Reach.LATER
            attended = _OwnAttention(rules, layer.own_branch, layer.own, Reach.LATER)
            cross = self.cross(layer.cross_branch, layer.cross, reach)
            narrow = _FeedForward(rules, layer.feed_forward_branch, layer.feed_forward, reach)
            states = narrow.read(cross.read(attended.read(states, backwards), self._memory, visible))
            self._decoder.append((attended, cross, narrow))
        self._decoded = states
        return cast("Tensor", model.decoder_norm(states))

    def propagate(self, relevance: Tensor) -> Found:
        """Returns what the relevance of decoder states is made of."""
        relevance = self._outer_norm(self._model.decoder_norm, self._decoded, relevance, Reach.OWN)
        source = relevance.new_zeros(len(self._memory), *relevance.shape[1:])
        for own, cross, narrow in reversed(self._decoder):
            relevance, to_source = cross.propagate_both(narrow.propagate(relevance))
            source += to_source
            relevance = own.propagate(relevance)
        source = self._outer_norm(self._model.encoder_norm, self._encoded, source, Reach.EVERY)
        for kept in reversed(self._encoder):
            source = kept.propagate(source)
        source = self._outer_norm(self._model.source_entry.norm, self._placed_source, source, Reach.EVERY)
        relevance = self._outer_norm(self._model.target_entry.norm, self._placed_prefix, relevance, Reach.LATER)
        return Found(source, relevance)

    def cross(self, branch: Branch, layer: CrossAttention, reach: Reach) -> RelevantCross:
        """Returns the attention to the source of one layer, which has read nothing yet."""
        return RelevantCross(self.rules, branch, layer, reach)

    def _outer_norm(self, norm: nn.Module, read: Tensor, relevance: Tensor, reach: Reach) -> Tensor:
        if not isinstance(norm, nn.LayerNorm):
            return relevance
        return self.rules.norm(_NORM, read, norm, relevance, reach)


class _Branched:
    """A layer that has read something, the norm and the sum of its branch included."""

    def __init__(self, rules: Rules, branch: Branch, reach: Reach) -> None:
        self.rules, self._branch, self.reach = rules, branch, reach

    def _enter(self, states: Tensor) -> Tensor:
        """Returns what the layer reads of the stream."""
        self._stream, self.inner = states, self._branch.enter(states)
        return self.inner

    def _leave(self, output: Tensor) -> Tensor:
        """Returns the stream with what the layer has found."""
        self._output = output
        return self._branch.leave(self._stream, output)

    def _split(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the relevance of the stream, and of what the layer has added to it."""
        if not self._branch.norm_first:
            summed = self._stream + self._output
            relevance = self.rules.norm(_NORM, summed, self._branch.norm, relevance, self.reach)
        return self.rules.summed(_SUM, self._stream, self._output, relevance)

    def _joined(self, stream: Tensor, inner: Tensor) -> Tensor:
        if self._branch.norm_first:
            inner = self.rules.norm(_NORM, self._stream, self._branch.norm, inner, self.reach)
        return stream + inner

    def _linear(self, layer: nn.Linear, read: Tensor, relevance: Tensor, reach: Reach | None = None) -> Tensor:
        return self.rules.linear(_LINEAR, read, layer.weight, layer.bias, relevance, reach or self.reach)


class _Kept(_Branched, ABC):
    """One that reads nothing but the stream."""

    def propagate(self, relevance: Tensor) -> Tensor:
        """Returns the relevance of the stream before the layer."""
        stream, branch = self._split(relevance)
        return self._joined(stream, self._inside(branch))

    @abstractmethod
    def _inside(self, relevance: Tensor) -> Tensor:
        """Returns the relevance of what the layer has read, of that of what it has found."""


class _FeedForward(_Kept):
    def __init__(self, rules: Rules, branch: Branch, layer: FeedForward, reach: Reach) -> None:
        super().__init__(rules, branch, reach)
        self._layer = layer

    def read(self, states: Tensor) -> Tensor:
        self._hidden = self._layer.activation.of(self._layer.widen(self._enter(states)))
        return self._leave(self._layer.narrow(self._hidden))

    def _inside(self, relevance: Tensor) -> Tensor:
        hidden = self._linear(self._layer.narrow, self._hidden, relevance)
        return self._linear(self._layer.widen, self.inner, hidden)


class _OwnAttention(_Kept):
    def __init__(self, rules: Rules, branch: Branch, layer: SelfAttention, reach: Reach) -> None:
        super().__init__(rules, branch, reach)
        self._layer = layer

    def read(self, states: Tensor, visible: Tensor) -> Tensor:
        query, keys, values = self._layer.project(self._enter(states)).chunk(3, -1)
        self._attended = _attended(query, keys, values, self._layer.heads, visible)
        self._mixed = _mixed(self._attended)
        return self._leave(self._layer.output(self._mixed))

    def _inside(self, relevance: Tensor) -> Tensor:
        mixed = self._linear(self._layer.output, self._mixed, relevance)
        of_attention = self.rules.attention(_ATTENTION, self._attended, mixed)
        return self._linear(self._layer.project, self.inner, torch.cat(of_attention, -1))


class RelevantCross(_Branched):
    """Attention to the source."""

    def __init__(self, rules: Rules, branch: Branch, layer: CrossAttention, reach: Reach) -> None:
        super().__init__(rules, branch, reach)
        self.layer = layer

    def read(self, states: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        """Returns the stream after the layer, and keeps what it has computed."""
        self._memory = memory
        self._attended = self.attend(self._enter(states), memory, visible)
        self._mixed = _mixed(self._attended)
        return self._leave(self.layer.output(self._mixed))

    def attend(self, inner: Tensor, memory: Tensor, visible: Tensor) -> Attended:
        """Returns what the layer computes of what enters it and of the encoder's output."""
        keys, values = self.layer.project(memory).chunk(2, -1)
        return _attended(self.layer.query(inner), keys, values, self.layer.heads, visible)

    def propagate_both(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the relevance of the stream before the layer, and that of the encoder's output."""
        stream, relevance = self._split(relevance)
        mixed = self._linear(self.layer.output, self._mixed, relevance)
        of_attention = self.rules.attention(_ATTENTION, self._attended, mixed)
        keys_values = torch.cat((of_attention.keys, of_attention.values), -1)
        to_source = self._linear(self.layer.project, self._memory, keys_values, Reach.EVERY)
        return self._joined(stream, self._linear(self.layer.query, self.inner, of_attention.queries)), to_source


def _attended(queries: Tensor, keys: Tensor, values: Tensor, heads: int, visible: Tensor) -> Attended:
    """Returns attention of (position, row, dim) each; ``visible`` is broadcast to (row, head, query, key)."""
    queries, keys, values = (
        part.view(*part.shape[:2], heads, -1).permute(1, 2, 0, 3) for part in (queries, keys, values)
    )
    queries = queries * queries.shape[-1] ** -0.5
    scores = (queries @ keys.transpose(-1, -2)).masked_fill(~visible, float("-inf"))
    return Attended(queries, keys, values, scores.softmax(-1))


def _mixed(attended: Attended) -> Tensor:
    """Returns the outputs of all heads side by side, (query, row, dim)."""
    return (attended.weights @ attended.values).permute(2, 0, 1, 3).flatten(2)
