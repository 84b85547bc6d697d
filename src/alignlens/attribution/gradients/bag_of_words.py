"""Backward passes of the bag of words: every source vector has the same share of a state, so no pass is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from alignlens.attribution.gradients.contract import Forward, Gradients, Products, SourceGradients
from alignlens.models.bag_of_words import BagOfWords, uniform_weights


@dataclass(frozen=True)
class BagForward(Forward):
    """Adds the share of every source position in every state."""

    shares: Tensor = field(kw_only=True)  # (row, source)


class BagOfWordsGradients(SourceGradients[BagForward]):
    """A cotangent, times the share of a position."""

    def __init__(self, model: BagOfWords) -> None:
        self._model = model

    @torch.no_grad()
    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> BagForward:
        """Returns the forward pass."""
        decoded = self._model.decode(self._model.encode(vectors, mask), prefix, trace=True)
        return BagForward(decoded.states, decoded.cross, shares=uniform_weights(mask, vectors))

    def backward(self, forward: BagForward, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of one target position after the other."""
        for rows, position in _positions(wanted):
            vectors = forward.shares[rows][..., None] * cotangents[rows, position[:, 0]][:, None]
            yield Gradients(rows, position, vectors[:, None])

    def products(self, forward: BagForward, cotangents: Tensor, wanted: Tensor, along: Tensor) -> Iterator[Products]:
        """Yields the products of all positions at once."""
        values = torch.bmm(cotangents, along.transpose(1, 2)) * forward.shares[:, None]
        rows, places = torch.arange(len(wanted), device=wanted.device), torch.arange(wanted.shape[1])
        yield Products(rows, places.to(wanted.device).where(wanted, -1), values)


def _positions(wanted: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields rows that want a target position, and that position (row, 1)."""
    for position in range(wanted.shape[1]):
        rows = wanted[:, position].nonzero()[:, 0]
        if len(rows):
            yield rows, torch.full_like(rows, position)[:, None]
