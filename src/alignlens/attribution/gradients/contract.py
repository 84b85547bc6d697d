"""Gradients of many outputs of a model with respect to its source vectors, by explicit backward passes.

One forward pass of a batch keeps what backward passes need. A backward pass starts at decoder states, at any number of
target positions, and ends at the source vectors; it computes nothing for weights, and only visits
positions that can matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from alignlens.models.contract import Attention


@dataclass(frozen=True)
class Forward:
    """The result of a forward pass; an architecture keeps more in a subclass."""

    states: Tensor  # (row, target, dim): what ``model.logits`` reads
    cross: tuple[Attention, ...]  # attention to the source by layer


@dataclass(frozen=True)
class Gradients:
    """Gradients of some outputs of some rows; ``vectors[m, k]`` belongs to ``rows[m]`` and ``positions[m, k]``."""

    rows: Tensor  # (some,)
    positions: Tensor  # (some, start): target positions; -1 where ``vectors`` have no meaning
    vectors: Tensor  # (some, start, source, dim): with respect to the source vectors of that row; zero at padding


@dataclass(frozen=True)
class Products:
    """Gradients times one vector for each source position, otherwise like ``Gradients``."""

    rows: Tensor  # (some,)
    positions: Tensor  # (some, start)
    values: Tensor  # (some, start, source)


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

    def products(self, forward: Kept, cotangents: Tensor, wanted: Tensor, along: Tensor) -> Iterator[Products]:
        """Yields the gradients that ``backward`` gives, times ``along`` (row, source, dim)."""
        for found in self.backward(forward, cotangents, wanted):
            yield Products(found.rows, found.positions, product(found.vectors, along[found.rows, None]))


def product(gradients: Tensor, along: Tensor) -> Tensor:
    """Returns gradients times vectors, (..., source) of (..., source, dim) both."""
    return (gradients * along).sum(-1)
