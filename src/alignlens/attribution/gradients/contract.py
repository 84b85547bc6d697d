"""Gradients of many outputs of a model with respect to its source vectors, by explicit backward passes.

One forward pass of a batch keeps what backward passes need. A backward pass starts at decoder states, at as many target
positions as are wanted, and ends at the source vectors; it computes nothing for weights, and goes only through
positions that can matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor


@dataclass(frozen=True)
class Forward:
    """What a forward pass found; an architecture keeps more in a subclass."""

    states: Tensor  # (row, target, dim): what ``model.logits`` reads
    cross: tuple[Tensor, ...]  # attention weights by layer, (row, head, target, source); zero at padding


@dataclass(frozen=True)
class Gradients:
    """Gradients of some outputs: number ``m`` belongs to row ``rows[m]`` and target position ``positions[m]``."""

    rows: Tensor  # (some,)
    positions: Tensor  # (some,)
    vectors: Tensor  # (some, source, dim): with respect to the source vectors of that row; zero at padding


Kept = TypeVar("Kept", bound=Forward)


class SourceGradients(ABC, Generic[Kept]):
    """Forward and backward passes of one model in evaluation mode."""

    @abstractmethod
    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Kept:
        """Returns a forward pass of source vectors (row, source, dim) and prefix vectors (row, target, dim).

        Both are token vectors as ``embed_source`` and ``embed_target`` give them; ``mask`` (row, source) is True at
        real positions. The numbers are those of ``model.encode`` and ``model.decode``.
        """

    @abstractmethod
    def backward(self, forward: Kept, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradient of ``cotangents[r, t] . states[r, t]`` for every (row r, position t) that is wanted.

        ``cotangents`` is (row, target, dim), ``wanted`` (row, target) of bool. Pairs come in any order, each once, in
        pieces small enough that the consumer may reduce one before the next is made.
        """
