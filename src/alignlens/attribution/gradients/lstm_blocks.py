"""The recurrent model: what a forward pass keeps, blocks of rows that go backward together, and what they send.

Wanted positions of a block of rows stand in a rectangle (slot, row): slot 0 is the last wanted position of each row,
and so on towards its first. Positions from t on are then in the first slots, which is all that step t has to visit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from alignlens.attribution.gradients.contract import Forward
from alignlens.attribution.gradients.recurrence import Steps
from alignlens.attribution.gradients.rows import in_place, rectangles, take
from alignlens.models.lstm import Lstm

_PAIRS = 1024  # pairs of row and position that go backward together: enough for full speed, few enough for memory


@dataclass(frozen=True)
class LstmForward(Forward):
    """Adds all factors of a backward pass."""

    lengths: Tensor = field(kw_only=True)  # (row)
    memory: Tensor = field(kw_only=True)  # (row, source, width): encoder states
    queries: Tensor = field(kw_only=True)  # (row, target, width): what they are compared with
    encoder: tuple[Steps, ...] = field(kw_only=True)  # by layer and direction
    decoder: tuple[Steps, ...] = field(kw_only=True)  # by layer


@dataclass(frozen=True)
class Block:
    """Some rows of a forward pass, and their wanted positions."""

    rows: Tensor  # (row)
    positions: Tensor  # (slot, row), -1 where a row has fewer
    active: list[int]  # by target position, in how many slots something stands that starts there or later
    starts: list[Tensor]  # by target position, the pairs that start there, as numbers in the flat rectangle
    cotangents: Tensor  # (slot * row, dim); arbitrary where nothing is wanted, and dropped at the end
    join_slopes: Tensor  # (row, target, dim)
    weights: Tensor  # (row, target, source)
    keys: Tensor  # (row, source, hidden): what s_t is compared with
    contributions: Tensor  # (row, source, dim)
    queries: Tensor  # (row, target, width)
    lengths: Tensor  # (row)
    encoder: list[Tensor]  # slopes by layer and direction, (source, 6, row, hidden)
    decoder: list[Tensor]  # slopes by layer, (target, 6, row, hidden)

    @property
    def pair_positions(self) -> Tensor:
        """Returns the positions as (row, slot), 0 where nothing is wanted."""
        return self.positions.t().clamp(min=0)


def blocks_of(model: Lstm, forward: LstmForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Block]:
    """Yields blocks of rows with similar numbers of wanted positions."""
    for rows, positions in rectangles(wanted, _PAIRS):
        yield _block(model, forward, cotangents, rows, positions.t())


def _block(model: Lstm, forward: LstmForward, cotangents: Tensor, rows: Tensor, positions: Tensor) -> Block:
    """Returns a block with what it needs of the forward pass."""
    flat, last_of_slot = positions.flatten(), positions.amax(1)
    count = int(last_of_slot[0]) + 1
    places, some = torch.arange(count, device=flat.device), in_place(rows)
    states, memory = take(forward.states, some)[:, :count], take(forward.memory, some)
    return Block(
        rows,
        positions,
        active=(last_of_slot >= places[:, None]).sum(1).tolist(),
        starts=[(flat == place).nonzero()[:, 0] for place in range(count)],
        cotangents=cotangents[rows, positions.clamp(min=0)].flatten(0, 1),
        join_slopes=model.slopes(states),
        weights=take(forward.cross[0].weights, some)[:, 0, :count],
        keys=model.keys(memory)[0],
        contributions=model.from_context(memory),
        queries=take(forward.queries, some)[:, :count],
        lengths=take(forward.lengths, some),
        encoder=[steps.slopes(some) for steps in forward.encoder],
        decoder=[steps.slopes(some, count) for steps in forward.decoder],
    )


@dataclass(frozen=True)
class First:
    """The cotangents of what the decoder was given."""

    d_memory: Tensor  # (row, source, slot, width)
    d_hidden: list[Tensor]  # of first states by layer, (slot, row, hidden)
    d_cell: list[Tensor]


class Feeding:
    """Attention of a decoder whose every step depends on what all steps before have attended to.

    Cotangents of encoder states are sums of products over steps: the factors are collected, and multiplied at the end.
    """

    def __init__(self, block: Block, from_context: Tensor) -> None:
        slots, rows = block.positions.shape
        steps, source = block.weights.shape[1:]
        self._block, self._from_context = block, from_context
        self._d_scores = block.weights.new_zeros(rows, steps, source, slots)
        self._d_contexts = block.weights.new_zeros(rows, steps, slots, from_context.shape[1])

    def step(self, step: int, d_attended: Tensor) -> Tensor:
        """Returns the cotangent of s_t (active, row, hidden) of that of the attention output (active, row, dim)."""
        active, weights = len(d_attended), self._block.weights[:, step, :, None]
        d_weights = torch.bmm(self._block.contributions, d_attended.permute(1, 2, 0))
        d_scores = d_weights.sub_(torch.bmm(weights.transpose(1, 2), d_weights)).mul_(weights)
        self._d_scores[:, step, :, :active] = d_scores
        self._d_contexts[:, step, :active] = (d_attended @ self._from_context).transpose(0, 1)
        return torch.bmm(d_scores.transpose(1, 2), self._block.keys).transpose(0, 1)

    def finish(self) -> Tensor:
        """Returns the cotangents of the encoder states (row, source, slot, width)."""
        rows, steps, source, slots = self._d_scores.shape
        d_memory = torch.bmm(self._d_scores.view(rows, steps, -1).transpose(1, 2), self._block.queries)
        by_source = d_memory.view(rows, source, -1)
        by_source.baddbmm_(self._block.weights.transpose(1, 2), self._d_contexts.view(rows, steps, -1))
        return by_source.view(rows, source, slots, -1)
