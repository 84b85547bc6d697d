"""Relevance the slow way: one sentence, one step and one module at a time, with automatic Jacobians.

Nothing here knows what a module computes: a rule sees a function, its inputs and the relevance of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from alignlens.attribution.relevance.alpha_beta import AlphaBetaSettings
from alignlens.attribution.relevance.rules import EPSILON
from alignlens.models.calibrated import CalibratedAttention

Function = Callable[..., Tensor]


class Calibration(NamedTuple):
    """What the weights of one query are multiplied with, afterwards or before they are made to sum to one."""

    factors: Tensor
    renormalises: bool

    def softmax(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores + self.factors.log() if self.renormalises else scores, 0)

    def weights(self, scores: Tensor) -> Tensor:
        return self.softmax(scores) if self.renormalises else self.softmax(scores) * self.factors


class Oracle:
    """The alpha-beta rule for any function of vectors."""

    def __init__(self, settings: AlphaBetaSettings) -> None:
        self.settings = settings

    def rule(self, function: Function, inputs: Sequence[Tensor], relevance: Tensor) -> list[Tensor]:
        """Returns the relevance of every input (of any shape) of a function whose output (vector) has some."""
        sizes = [each.numel() for each in inputs]
        jacobians = jacobian(function, tuple(inputs))
        slopes = torch.cat([found.reshape(len(relevance), -1) for found in jacobians], 1)
        bias = function(*(torch.zeros_like(each) for each in inputs)).detach()
        z = slopes * torch.cat([each.reshape(-1) for each in inputs])
        return self._split(z, bias, relevance, inputs, sizes)

    def product(self, first: Tensor, second: Tensor, summed: int, relevance: Tensor) -> list[Tensor]:
        """Returns the relevance of both factors of products (output, summand) that are added up."""
        both = torch.stack((first * second, first * second), -1).flatten(1)
        found = torch.zeros_like(both)
        for share, sign in self._parts():
            part = (both * sign).clamp(min=0) * sign
            found += share * relevance[:, None] * part / (part.sum(1, keepdim=True) + sign * EPSILON)
        if self.settings.rescale and found.sum().item():
            found = found * relevance.sum() / found.sum()
        return list(found.view(len(first), summed, 2).unbind(-1))

    def _parts(self) -> list[tuple[float, int]]:
        return [(share, sign) for share, sign in ((self.settings.alpha, 1), (1 - self.settings.alpha, -1)) if share]

    def _split(
        self, z: Tensor, bias: Tensor, relevance: Tensor, inputs: Sequence[Tensor], sizes: Sequence[int]
    ) -> list[Tensor]:
        if self.settings.bias == "spread":
            z, bias = z + bias[:, None] / z.shape[1], torch.zeros_like(bias)
        found = torch.zeros(z.shape[1], dtype=z.dtype)
        for share, sign in self._parts():
            part = (z * sign).clamp(min=0) * sign
            apart = (bias * sign).clamp(min=0) * sign
            found += share * (relevance / (part.sum(1) + apart + sign * EPSILON)) @ part
        if self.settings.rescale and found.sum().item():
            found = found * relevance.sum() / found.sum()
        return [each.view(given.shape) for each, given in zip(found.split(list(sizes)), inputs, strict=True)]

    def attention(
        self, query: Tensor, keys: Tensor, values: Tensor, relevance: Tensor, calibration: Calibration | None = None
    ) -> list[Tensor]:
        """Returns the relevance of a query (width), already scaled, and of keys and values (key, width)."""
        calibration = calibration or Calibration(query.new_ones(len(keys)), renormalises=False)
        if self.settings.attention == "taylor":
            return self.rule(lambda q, k, v: calibration.weights(k @ q) @ v, (query, keys, values), relevance)
        weights = calibration.weights(keys @ query)
        if self.settings.attention == "constant":
            (of_values,) = self.rule(lambda v: weights @ v, (values,), relevance)
            return [torch.zeros_like(query), torch.zeros_like(keys), of_values]
        many = weights[None].expand(values.shape[1], -1)
        of_weights, of_values = self.product(many, values.t(), len(keys), relevance)
        (of_scores,) = self.rule(calibration.softmax, (keys @ query,), of_weights.sum(0))
        of_query, of_keys = self.product(query[None].expand(len(keys), -1), keys, len(query), of_scores)
        return [of_query.sum(0), of_keys, of_values.t()]


def transformer(model: torch.nn.Module, oracle: Oracle, source: Tensor, prefix: Tensor, token: int) -> list[Tensor]:
    """Returns the relevance of source vectors (source, dim) and prefix vectors for the score of a token after them."""
    placed = model.source_entry.placed(source[None])[0]
    states = model.source_entry.norm(placed)
    encoder = []
    for layer in model.encoder:
        kept = [states]
        states = _own(layer, states, len(states))
        kept.append(states)
        states = _fed(layer, states)
        encoder.append(kept)
    encoded = states
    memory = model.encoder_norm(states)
    placed_prefix = model.target_entry.placed(prefix[None])[0]
    states = model.target_entry.norm(placed_prefix)
    decoder = []
    for layer in model.decoder:
        kept = [states]
        states = _own(layer, states, None)
        kept.append(states)
        states = _crossed(layer, states, memory)
        kept.append(states)
        states = _fed(layer, states)
        decoder.append(kept)
    last = len(prefix) - 1
    top = model.decoder_norm(states[last])
    (relevance,) = oracle.rule(lambda x: model.output(x)[token : token + 1], (top,), torch.ones(1).double())
    if isinstance(model.decoder_norm, torch.nn.LayerNorm):
        (relevance,) = oracle.rule(model.decoder_norm, (states[last],), relevance)
    of_prefix = torch.zeros_like(prefix)
    of_prefix[last] = relevance
    of_memory = torch.zeros_like(memory)
    for layer, kept in zip(reversed(model.decoder), reversed(decoder), strict=True):
        of_prefix = _back(oracle, layer.feed_forward_branch, kept[2], of_prefix, _Feed(oracle, layer.feed_forward))
        cross = _Attention(oracle, layer.cross, memory)
        of_prefix = _back(oracle, layer.cross_branch, kept[1], of_prefix, cross)
        of_memory = of_memory + cross.elsewhere
        of_prefix = _back(oracle, layer.own_branch, kept[0], of_prefix, _Attention(oracle, layer.own, None, True))
    if isinstance(model.encoder_norm, torch.nn.LayerNorm):
        of_memory = torch.stack(
            [oracle.rule(model.encoder_norm, (x,), r)[0] for x, r in zip(encoded, of_memory, strict=True)]
        )
    for layer, kept in zip(reversed(model.encoder), reversed(encoder), strict=True):
        of_memory = _back(oracle, layer.feed_forward_branch, kept[1], of_memory, _Feed(oracle, layer.feed_forward))
        of_memory = _back(oracle, layer.own_branch, kept[0], of_memory, _Attention(oracle, layer.own, None))
    if isinstance(model.source_entry.norm, torch.nn.LayerNorm):
        of_memory = torch.stack(
            [oracle.rule(model.source_entry.norm, (x,), r)[0] for x, r in zip(placed, of_memory, strict=True)]
        )
        of_prefix = torch.stack(
            [oracle.rule(model.target_entry.norm, (x,), r)[0] for x, r in zip(placed_prefix, of_prefix, strict=True)]
        )
    return [of_memory, of_prefix]


def _own(layer: torch.nn.Module, states: Tensor, visible: int | None) -> Tensor:
    length = len(states)
    seen = torch.ones(length, length, dtype=torch.bool)
    seen = seen.tril() if visible is None else seen
    found, _ = layer.own(layer.own_branch.enter(states)[None], seen, True)
    return layer.own_branch.leave(states, found[0])


def _crossed(layer: torch.nn.Module, states: Tensor, memory: Tensor) -> Tensor:
    seen = torch.ones(1, 1, 1, len(memory), dtype=torch.bool)
    inner = layer.cross_branch.enter(states)[None]
    found, _ = layer.cross(inner, layer.cross.read(memory[None]), seen, True)
    return layer.cross_branch.leave(states, found[0])


def _fed(layer: torch.nn.Module, states: Tensor) -> Tensor:
    found = layer.feed_forward(layer.feed_forward_branch.enter(states))
    return layer.feed_forward_branch.leave(states, found)


class _Feed:
    def __init__(self, oracle: Oracle, layer: torch.nn.Module) -> None:
        self.oracle, self.layer = oracle, layer

    def found(self, inner: Tensor) -> Tensor:
        return self.layer(inner)

    def back(self, inner: Tensor, relevance: Tensor) -> Tensor:
        rows = []
        for read, of_output in zip(inner, relevance, strict=True):
            hidden = self.layer.activation.of(self.layer.widen(read))
            (of_hidden,) = self.oracle.rule(self.layer.narrow, (hidden,), of_output)
            rows += self.oracle.rule(self.layer.widen, (read,), of_hidden)
        return torch.stack(rows)


class _Attention:
    def __init__(self, oracle: Oracle, layer: torch.nn.Module, memory: Tensor | None, backwards: bool = False) -> None:
        self.oracle, self.layer, self.memory, self.backwards = oracle, layer, memory, backwards

    def _projected(self, inner: Tensor) -> list[Tensor]:
        if self.memory is None:
            return list(self.layer.project(inner).chunk(3, -1))
        return [self.layer.query(inner), *self.layer.project(self.memory).chunk(2, -1)]

    def _calibration(self, inner: Tensor, head: int, place: int, stop: int) -> Calibration:
        """Returns by how much the weights that the layer itself uses differ from its softmax."""
        if not isinstance(self.layer, CalibratedAttention) or self.memory is None:
            return Calibration(inner.new_ones(stop), renormalises=False)
        seen = torch.ones(1, 1, 1, len(self.memory), dtype=torch.bool)
        with torch.no_grad():
            _, layer = self.layer(inner[None], self.layer.read(self.memory[None]), seen, True)
        return Calibration((layer.weights / layer.original)[0, head, place], self.layer.renormalises)

    def _mixed(self, inner: Tensor) -> Tensor:
        query, keys, values = self._projected(inner)
        dim = query.shape[1] // self.layer.heads
        rows = []
        for place, each in enumerate(query):
            stop = place + 1 if self.backwards else len(keys)
            heads = []
            for head in range(self.layer.heads):
                own = slice(head * dim, (head + 1) * dim)
                calibration = self._calibration(inner, head, place, stop)
                weights = calibration.weights(keys[:stop, own] @ each[own] / dim**0.5)
                heads.append(weights @ values[:stop, own])
            rows.append(torch.cat(heads))
        return torch.stack(rows)

    def found(self, inner: Tensor) -> Tensor:
        return self.layer.output(self._mixed(inner))

    def back(self, inner: Tensor, relevance: Tensor) -> Tensor:
        query, keys, values = self._projected(inner)
        of_query, of_keys, of_values = (torch.zeros_like(each) for each in (query, keys, values))
        dim = query.shape[1] // self.layer.heads
        for place, (mixed, of_output) in enumerate(zip(self._mixed(inner), relevance, strict=True)):
            (of_mixed,) = self.oracle.rule(self.layer.output, (mixed,), of_output)
            stop = place + 1 if self.backwards else len(keys)
            for head in range(self.layer.heads):
                own = slice(head * dim, (head + 1) * dim)
                found = self.oracle.attention(
                    query[place, own] / dim**0.5,
                    keys[:stop, own],
                    values[:stop, own],
                    of_mixed[own],
                    self._calibration(inner, head, place, stop),
                )
                of_query[place, own] += found[0]
                of_keys[:stop, own] += found[1]
                of_values[:stop, own] += found[2]
        if self.memory is None:
            joined = torch.cat((of_query, of_keys, of_values), -1)
            return self._linear(self.layer.project, inner, joined)
        self.elsewhere = self._linear(self.layer.project, self.memory, torch.cat((of_keys, of_values), -1))
        return self._linear(self.layer.query, inner, of_query)

    def _linear(self, layer: torch.nn.Module, read: Tensor, relevance: Tensor) -> Tensor:
        return torch.stack([self.oracle.rule(layer, (x,), r)[0] for x, r in zip(read, relevance, strict=True)])


def _back(
    oracle: Oracle, branch: torch.nn.Module, states: Tensor, relevance: Tensor, layer: _Feed | _Attention
) -> Tensor:
    """Returns the relevance of the stream before a layer, of that after it."""
    inner = branch.norm(states) if branch.norm_first else states
    found = layer.found(inner)
    of_stream, of_found = [], []
    for x, f, given in zip(states, found, relevance, strict=True):
        if not branch.norm_first:
            (given,) = oracle.rule(branch.norm, (x + f,), given)
        both = torch.zeros(2, len(x)).double()
        total = float(given.sum().detach())
        for number in range(len(x)):
            pair = torch.stack((x[number], f[number]))
            parts = Oracle(AlphaBetaSettings(oracle.settings.alpha, "spread", "taylor", rescale=False)).rule(
                lambda p: p.sum()[None], (pair,), given[number : number + 1]
            )
            both[:, number] = parts[0]
        if oracle.settings.rescale and both.sum().item():
            both = both * total / both.sum()
        of_stream.append(both[0])
        of_found.append(both[1])
    of_inner = layer.back(inner, torch.stack(of_found))
    if branch.norm_first:
        of_inner = torch.stack([oracle.rule(branch.norm, (x,), r)[0] for x, r in zip(states, of_inner, strict=True)])
    return torch.stack(of_stream) + of_inner
