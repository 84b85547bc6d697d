"""The convolutional model: what a forward pass keeps, blocks of rows that go backward together, and what they send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from alignlens.attribution.gradients.contract import Forward
from alignlens.attribution.gradients.rows import in_place, rectangles, take

_PAIRS = 1024  # pairs of row and position that go backward together: enough for full speed, few enough for memory


@dataclass(frozen=True)
class LayerForward:
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
    decoder: tuple[LayerForward, ...] = field(kw_only=True)


@dataclass(frozen=True)
class Block:
    """Some rows of a forward pass, and their wanted positions."""

    rows: Tensor  # (row)
    positions: Tensor  # (row, slot), ascending; -1 where a row has fewer
    cotangents: Tensor  # (row, slot, dim); arbitrary where nothing is wanted, and dropped at the end
    mask: Tensor  # (row, source)
    memory: Tensor  # (row, source, dim)
    values: Tensor  # (row, source, dim)
    value_scale: Tensor  # (row, 1, 1)
    encoder: list[Tensor]  # slopes by layer (source, row, 2, hidden)
    decoder: list[LayerForward]

    @property
    def slots(self) -> int:
        """Returns the most wanted positions of a row."""
        return self.positions.shape[1]

    def windows(self, tensor: Tensor, span: int) -> Tensor:
        """Returns (row, slot, span, ...) of (row, target, ...): what positions up to a wanted one have, zero before."""
        padded = torch.cat((tensor.new_zeros(len(tensor), span - 1, *tensor.shape[2:]), tensor), 1)
        every = padded.unfold(1, span, 1).movedim(-1, 2)
        if torch.equal(self.positions, self._first.expand_as(self.positions)):
            return every[:, : self.slots]
        return every[torch.arange(len(tensor), device=tensor.device)[:, None], self.positions.clamp(min=0)]

    @property
    def _first(self) -> Tensor:
        return torch.arange(self.slots, device=self.positions.device)


class Sent:
    """What positions send to the encoder's output and to values: sums of products, whose factors are collected."""

    def __init__(self, value_scale: Tensor) -> None:
        self._scale = value_scale[..., None]
        self._d_scores: list[Tensor] = []
        self._queries: list[Tensor] = []
        self._weights: list[Tensor] = []
        self._d_contexts: list[Tensor] = []

    def add(self, d_scores: Tensor, queries: Tensor, weights: Tensor, d_context: Tensor) -> None:
        """Adds the factors of a layer, (row, slot, span, source) and (row, slot, span, dim)."""
        self._d_scores.append(d_scores)
        self._queries.append(queries)
        self._weights.append(weights * self._scale)
        self._d_contexts.append(d_context)

    def to_output(self) -> Tensor:
        """Returns the cotangents (source, pair, dim) of the encoder output, the way through values included."""
        of_source, of_dim = self._d_scores + self._weights, self._queries + self._d_contexts
        return _summed(of_source, of_dim).transpose(0, 1).contiguous()

    def to_values(self) -> Tensor:
        """Returns the cotangents (pair, source, dim) of what values add to the encoder output."""
        return _summed(self._weights, self._d_contexts)

    def times_values(self, along: Tensor) -> Tensor:
        """Returns the same times ``along`` (row, source, dim), as (row, slot, source)."""
        found = along.new_zeros(*self._weights[0].shape[:2], along.shape[1])
        for weights, d_context in zip(self._weights, self._d_contexts, strict=True):
            values = torch.bmm(d_context.flatten(1, 2), along.transpose(1, 2)).view_as(weights)
            for place in range(weights.shape[2]):  # a sum over this axis takes torch several times as long
                found.addcmul_(weights[:, :, place], values[:, :, place])
        return found


def _summed(of_source: list[Tensor], of_dim: list[Tensor]) -> Tensor:
    """Returns (pair, source, dim) of factors (row, slot, span, source) and (row, slot, span, dim)."""
    return torch.bmm(torch.cat(of_source, 2).flatten(0, 1).transpose(1, 2), torch.cat(of_dim, 2).flatten(0, 1))


def blocks_of(forward: FconvForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Block]:
    """Yields blocks of rows with similar numbers of wanted positions."""
    for rows, descending in rectangles(wanted, _PAIRS):
        positions, some = descending.flip(1), in_place(rows)
        yield Block(
            rows,
            positions,
            cotangents[rows[:, None], positions.clamp(min=0)],
            mask=take(forward.mask, some),
            memory=take(forward.memory, some),
            values=take(forward.values, some),
            value_scale=take(forward.value_scale, some),
            encoder=[take(slopes, some, 1) for slopes in forward.encoder],
            decoder=[LayerForward(*(take(x, some) for x in vars(layer).values())) for layer in forward.decoder],
        )
