"""Shares by value, with their sign: R_j z_ij / (z_j + eps sign z_j) (Bach et al. 2015).

Attention weights and the deviation of a layer norm are taken as given (Ali et al. 2022), without which it would divide
by sums that are zero: what a layer norm gives does not change with the size of what it reads. So it is the gradient
times the input of a model with both held constant. Biases keep their share. Relevances may be negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from alignlens.attribution.relevance.rules import Rules, by_head, gathered, of_values_alone

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Attended, OfAttention, Reach


class Epsilon(Rules):
    """The rule with its ``epsilon``."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self._epsilon = epsilon

    def output(self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Returns the relevance of vectors (..., width) of which one number each, by weight (..., width), has 1."""
        z = read * weight
        total = z.sum(-1) if bias is None else z.sum(-1) + bias
        ratios = z / self._away_from_zero(total)[..., None]
        return self._counted(kind, torch.ones_like(total), ratios)

    def linear(
        self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor, reach: Reach
    ) -> Tensor:
        """Returns the relevance of what a linear layer has read, (position, row, width)."""
        total = nn.functional.linear(read, weight, bias)
        return self._counted(kind, relevance, read[:, :, None] * (self._ratio(relevance, total) @ weight))

    def norm(self, kind: str, read: Tensor, norm: nn.LayerNorm, relevance: Tensor, reach: Reach) -> Tensor:
        """Returns the relevance of what a layer norm has read, (position, row, width)."""
        centred = read - read.mean(-1, keepdim=True)
        gain = norm.weight / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        ratio = self._ratio(relevance, centred * gain + norm.bias) * gain[:, :, None]
        ratio = ratio - ratio.mean(-1, keepdim=True)
        return self._counted(kind, relevance, read[:, :, None] * ratio)

    def summed(self, kind: str, first: Tensor, second: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the relevance of two vectors (position, row, width) whose sum got it."""
        ratio = self._ratio(relevance, first + second)
        sides = ratio * first[:, :, None], ratio * second[:, :, None]
        self._counted(kind, relevance, sides[0] + sides[1])
        return sides

    def attention(self, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
        """Returns the relevance of the values, whose weighted sums by head (side by side) got it."""
        weights = attended.weights
        ratio = by_head(relevance, weights.shape[1]) / self._away_from_zero(weights @ attended.values)[:, :, :, None]
        of_values = gathered(weights, ratio) * attended.values[:, :, :, None]
        self._counted(kind, relevance, of_values)
        return of_values_alone(attended, of_values)

    def _ratio(self, relevance: Tensor, total: Tensor) -> Tensor:
        """Returns relevance divided by the sums (position, row, width) that it is shared out of."""
        return relevance / self._away_from_zero(total)[:, :, None]

    def _away_from_zero(self, total: Tensor) -> Tensor:
        return total + torch.where(total < 0, -self._epsilon, self._epsilon)

    def _counted(self, kind: str, relevance: Tensor, passed_on: Tensor) -> Tensor:
        self.losses.add(kind, relevance, passed_on)
        return passed_on
