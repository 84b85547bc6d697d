"""Positive and negative parts apart (Voita et al. 2020, equation 5, after Bach et al. 2015).

Output j of a layer is a function of z_j = sum over inputs i of z_ij, plus a bias. With relevance R_j it gives input i

    R_j (alpha z+_ij / z+_j + beta z-_ij / z-_j),    alpha + beta = 1

where z+ and z- are positive and negative parts. A function that is not linear has z_ij = x_i d F_j / d x_i, its
derivative at x, and F_j(0) as its bias. No relevance is ever negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from alignlens.attribution.relevance.attention import ATTENTION_RULES
from alignlens.attribution.relevance.parts import LinearParts, NormParts
from alignlens.attribution.relevance.rules import EPSILON, Rules, part, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.attribution.relevance.parts import Parts
    from alignlens.attribution.relevance.rules import Attended, OfAttention, Reach

_ALMOST_NOTHING = 1e-6  # of what arrives


@dataclass(frozen=True)
class AlphaBetaSettings:
    """``bias`` is ``spread`` over the inputs before signs are told apart (as released: it takes no relevance away), or
    stands in the denominators with its sign (as ``printed``). With ``rescale``, what a layer loses is given back to
    what it has handed on, so that every output vector gives away as much as it got.
    """

    alpha: float = 1.0
    bias: Literal["spread", "printed"] = "spread"
    attention: Literal["taylor", "softmax", "constant"] = "taylor"
    rescale: bool = True


class AlphaBeta(Rules):
    """The rule with some settings."""

    def __init__(self, settings: AlphaBetaSettings) -> None:
        super().__init__()
        self.settings = settings

    def parts(self) -> Iterator[tuple[float, int]]:
        """Yields the share of each sign that counts, and the sign."""
        if self.settings.alpha > 0:
            yield self.settings.alpha, 1
        if self.settings.alpha < 1:
            yield 1 - self.settings.alpha, -1

    def output(self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Returns the relevance of vectors (..., width) of which one number each, by weight (..., width), has 1."""
        spread, apart = self._bias(None if bias is None else bias[..., None])
        z = read * weight if spread is None else torch.addcmul(spread / read.shape[-1], read, weight)
        return self.shares(kind, z[..., None, :], read.new_ones(*read.shape[:-1], 1, 1), apart)[..., 0, :]

    def linear(
        self, kind: str, read: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor, reach: Reach
    ) -> Tensor:
        """Returns the relevance of what a linear layer has read, (position, row, width)."""
        spread, apart = self._bias(bias)
        added = None if spread is None else spread / read.shape[-1]
        return self._handed_back(kind, LinearParts(read, weight, added), apart, relevance, reach)

    def norm(self, kind: str, read: Tensor, norm: nn.LayerNorm, relevance: Tensor, reach: Reach) -> Tensor:
        """Returns the relevance of what a layer norm has read; mean and variance are functions of it, too."""
        spread, apart = self._bias(norm.bias)
        added = None if spread is None else spread / read.shape[-1]
        return self._handed_back(kind, NormParts(read, norm, added), apart, relevance, reach)

    def _handed_back(self, kind: str, parts: Parts, apart: Tensor | None, relevance: Tensor, reach: Reach) -> Tensor:
        """Returns the relevance of what a layer has read; ``apart`` is a bias that stands in denominators."""
        scales, kept = [], relevance.new_zeros(())
        for share, sign in self.parts():
            total = parts.totals(sign)
            below = total + sign * EPSILON if apart is None else total + part(apart, sign) + sign * EPSILON
            scales.append((sign, share / below))
            kept = kept + share * total / below
        # Of each output, what of its relevance is handed on; and all of it.
        arrived, passed = parts.sums(relevance, kept, reach)
        factor = self.handed_on(kind, arrived, passed)
        return sum_of(parts.gather(sign, relevance, scale, factor, reach) for sign, scale in scales)

    def summed(self, kind: str, first: Tensor, second: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the relevance of two vectors (position, row, width) whose sum got it."""
        shares = torch.zeros_like(first), torch.zeros_like(second)
        for share, sign in self.parts():
            parts = part(first, sign), part(second, sign)
            total = parts[0] + parts[1] + sign * EPSILON
            for relevance_of, each in zip(shares, parts, strict=True):
                relevance_of.add_(each / total, alpha=share)
        kept = torch.stack((torch.ones_like(first), shares[0] + shares[1]), -1)
        arrived, passed = (relevance @ kept).unbind(-1)
        given = relevance * self.handed_on(kind, arrived, passed)[..., None]
        return given * shares[0][:, :, None], given * shares[1][:, :, None]

    def attention(self, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
        """Returns the relevance of queries, keys and values whose heads' outputs (side by side) got it."""
        return ATTENTION_RULES[self.settings.attention](self, kind, attended, relevance)

    def shares(self, kind: str, z: Tensor, relevance: Tensor, bias: Tensor | None = None) -> Tensor:
        """Returns (..., step, input) of relevance (..., step, output) and z (..., output, input), which is used up.

        ``bias`` (..., output) is what stands in the denominators apart from z.
        """
        signed, parts = [], list(self.parts())
        for place, (share, sign) in enumerate(parts):
            some = part(z, sign, in_place=place == len(parts) - 1)
            total = some.sum(-1)[..., None, :]
            below = (
                total + sign * EPSILON if bias is None else total + (part(bias, sign) + sign * EPSILON)[..., None, :]
            )
            signed.append((some, total, share * relevance / below))
        passed = sum_of((ratio * total).sum(-1) for _, total, ratio in signed)
        factor = self.handed_on(kind, relevance.sum(-1), passed)[..., None]
        return sum_of((ratio * factor) @ some for some, _, ratio in signed)

    def handed_on(self, kind: str, arrived: Tensor, total: Tensor) -> Tensor:
        """Returns what everything that a layer passes on is multiplied with; counts what it loses before."""
        self.losses.add(kind, arrived, total)
        if not self.settings.rescale:
            return torch.ones_like(total)
        # The direction of a vector of almost zero is undefined: such relevance is lost.
        return torch.where(total > _ALMOST_NOTHING * arrived, arrived / total, 0.0)

    def _bias(self, bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Returns what of a bias is spread over the inputs, and what stands apart from them."""
        return (bias, None) if self.settings.bias == "spread" else (None, bias)
