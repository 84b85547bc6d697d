"""The interface of rules of relevance propagation, and their common code.

Relevances are (position, row, step, width): a *step* is a target position whose prediction is explained, and a position
may have relevance at some steps only (``Reach``). What a layer passes on depends on the forward pass alone: all steps
of a sentence share it, and each is one more row of a matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

#: Added to denominators, as released: an output without any evidence passes nothing on.
EPSILON = 1e-5


class Reach(Enum):
    """The steps that a position can matter to; nothing is computed for the others."""

    EVERY = "every"  # a source position
    LATER = "later"  # a position of the prefix: its own step and all after it
    OWN = "own"  # what only the prediction there has read

    def steps(self, position: int, count: int) -> slice:
        """Returns the steps of one position."""
        if self is Reach.EVERY:
            return slice(0, count)
        return slice(position, count if self is Reach.LATER else position + 1)


class Attended(NamedTuple):
    """What an attention layer has computed, by head."""

    queries: Tensor  # (row, head, query, width), multiplied by whatever scores are scaled with
    keys: Tensor  # (row, head, key, width)
    values: Tensor  # (row, head, key, value width)
    softmax: Tensor  # (row, head, query, key), zero where a query may not look
    #: What the softmax was multiplied with before it mixed the values; taken as given.
    factors: Tensor | None = None
    #: What every exponential was multiplied with inside the softmax; taken as given.
    prior: Tensor | None = None

    @property
    def weights(self) -> Tensor:
        """What the values are mixed by, (row, head, query, key)."""
        return self.softmax if self.factors is None else self.softmax * self.factors


class OfAttention(NamedTuple):
    """The relevance of what an attention layer has read; heads stand side by side."""

    queries: Tensor  # (query, row, step, head * width)
    keys: Tensor  # (key, row, step, head * width)
    values: Tensor  # (key, row, step, head * value width)


@dataclass
class Losses:
    """By kind of layer: relevance that arrived there, and what of it is handed on before any rescaling."""

    arrived: dict[str, float] = field(default_factory=dict)
    handed_on: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, arrived: Tensor, handed_on: Tensor) -> None:
        """Adds what one layer did."""
        for counted, some in ((self.arrived, arrived), (self.handed_on, handed_on)):
            counted[kind] = counted.get(kind, 0.0) + float(some.sum(dtype=torch.float64))


class Rules(ABC):
    """One way to propagate. ``kind`` is what the losses of a layer are counted under.

    An activation function between two layers passes on what it gets: it has no method here.
    """

    def __init__(self) -> None:
        self.losses = Losses()

    @abstractmethod
    def output(self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Returns the relevance of vectors (..., width) of which one number each, by weight (..., width), has 1.

        ``bias`` (...) is what was added to these numbers.
        """

    @abstractmethod
    def linear(
        self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor, reach: Reach
    ) -> Tensor:
        """Returns the relevance of what a linear layer has read, (position, row, width)."""

    @abstractmethod
    def norm(self, kind: str, read: Tensor, norm: nn.LayerNorm, relevance: Tensor, reach: Reach) -> Tensor:
        """Returns the relevance of what a layer norm has read, (position, row, width)."""

    @abstractmethod
    def summed(self, kind: str, first: Tensor, second: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the relevance of two vectors (position, row, width) whose sum got it."""

    @abstractmethod
    def attention(self, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
        """Returns the relevance of queries, keys and values whose heads' outputs (side by side) got it."""


def by_head(relevance: Tensor, heads: int) -> Tensor:
    """Returns (row, head, position, step, width) of (position, row, step, head * width)."""
    return relevance.view(*relevance.shape[:3], heads, -1).permute(1, 3, 0, 2, 4)


def side_by_side(relevance: Tensor) -> Tensor:
    """Returns (position, row, step, head * width) of (row, head, position, step, width)."""
    return relevance.permute(2, 0, 3, 1, 4).flatten(3)


def part(values: Tensor, sign: int, in_place: bool = False) -> Tensor:
    """Returns the positive or the negative part."""
    if in_place:
        return values.clamp_(min=0) if sign > 0 else values.clamp_(max=0)
    return values.clamp(min=0) if sign > 0 else values.clamp(max=0)


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """Returns the sum of tensors, of which there is at least one."""
    return reduce(torch.add, parts)


def gathered(weights: Tensor, ratio: Tensor) -> Tensor:
    """Returns (row, head, key, step, width): what comes to a key from queries (row, head, query, step, width)."""
    summed = weights.transpose(-1, -2) @ ratio.flatten(-2)
    return summed.view(*summed.shape[:3], *ratio.shape[-2:])


def of_values_alone(attended: Attended, of_values: Tensor) -> OfAttention:
    """Returns the relevance of values (row, head, key, step, width), and none of queries and keys."""
    of_queries, of_keys = (
        each.new_zeros(*each.shape[:3], of_values.shape[3], each.shape[3]) for each in (attended.queries, attended.keys)
    )
    return OfAttention(*map(side_by_side, (of_queries, of_keys, of_values)))
