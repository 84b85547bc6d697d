"""Source gradients of any model behind the contract, by automatic differentiation.

One backward pass per target position through the whole graph: slower than the explicit passes, but correct for every
architecture. It is also what the explicit ones are tested against.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from alignlens.attribution.gradients.contract import Forward, Gradients, SourceGradients
from alignlens.models.contract import Attention, Seq2Seq


@dataclass(frozen=True)
class Graph(Forward):
    """The graph of a forward pass, and the leaf whose gradients are computed."""

    vectors: Tensor
    mask: Tensor
    prefix: Tensor
    outputs: Tensor
    true_gradient: bool


class AutogradGradients(SourceGradients[Graph]):
    """Backward passes through whatever ``encode`` and ``decode`` compute."""

    def __init__(self, model: Seq2Seq, true_gradient: bool = False) -> None:
        self._model, self._true = model, true_gradient

    def forward(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Graph:
        """Returns a forward pass with its graph."""
        with torch.enable_grad(), self._model.scaled(not self._true):
            leaf = vectors.detach().clone().requires_grad_()
            decoded = self._model.decode(self._model.encode(leaf, mask), prefix, trace=True)
        cross = tuple(_detached(layer) for layer in decoded.cross)
        return Graph(decoded.states.detach(), cross, leaf, mask, prefix, decoded.states, self._true)

    def backward(self, forward: Graph, cotangents: Tensor, wanted: Tensor) -> Iterator[Gradients]:
        """Yields the gradients of one target position after the other."""
        if forward.true_gradient != self._true:  # Scaling is part of the graph, so passes cannot share it.
            forward = self.forward(forward.vectors, forward.mask, forward.prefix)
        for position in range(wanted.shape[1]):
            rows = wanted[:, position].nonzero()[:, 0]
            if len(rows):
                with torch.enable_grad():
                    output = forward.outputs[:, position]
                (vectors,) = torch.autograd.grad(output, forward.vectors, cotangents[:, position], retain_graph=True)
                yield Gradients(rows, torch.full_like(rows, position)[:, None], vectors[rows, None])


def _detached(layer: Attention) -> Attention:
    return replace(layer, **{name: value.detach() for name, value in vars(layer).items() if value is not None})
