"""From raw scores to rows that sum to one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Losses


@dataclass
class Statistics:
    """What a run met, over all its sentences; counters only, so that shards add up."""

    rows: int = 0  # that were normalised: target positions, once per noisy copy
    rows_without_positive: int = 0  # of these, had nothing to normalise: their highest raw score took all
    forward_passes: int = 0  # one per sentence and noisy copy
    backward_passes: int = 0  # one per sentence, copy and target position
    sentences: int = 0
    halvings: int = 0  # how often memory ran out and batches were halved
    copies: dict[str, int] = field(default_factory=dict)  # by method with adaptive sampling: copies over all positions
    # By method and kind of layer: relevance that arrived there, and what of it was handed on before any rescaling.
    arrived: dict[str, float] = field(default_factory=dict)
    handed_on: dict[str, float] = field(default_factory=dict)

    def add(self, other: Statistics) -> None:
        """Adds the counters of another part of the run."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, _sums(mine, value) if isinstance(value, dict) else mine + value)

    def add_losses(self, method: str, losses: Losses) -> None:
        """Adds what the layers of a model did with the relevance of some sentences."""
        for mine, found in ((self.arrived, losses.arrived), (self.handed_on, losses.handed_on)):
            for kind, amount in found.items():
                key = f"{method} {kind}"
                mine[key] = mine.get(key, 0.0) + amount

    def as_json(self) -> dict[str, float]:
        """Returns the counters by name."""
        named = {key: value for key, value in vars(self).items() if not isinstance(value, dict)}
        named |= {f"copies {method}": count for method, count in self.copies.items()}
        shares = {key: 1 - self.handed_on[key] / arrived for key, arrived in self.arrived.items() if arrived}
        return named | {f"lost {key}": share for key, share in shares.items()}


def _sums(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}


def normalised(scores: Tensor, raw: Tensor, visible: Tensor, wanted: Tensor, statistics: Statistics) -> Tensor:
    """Returns ``scores`` (..., source), none negative, divided by their sums.

    A row of zeros cannot be divided; all of it goes to the highest ``raw`` score, and the row is counted if ``wanted``.
    ``visible`` (broadcast to the scores) is False at padding.
    """
    check_finite(raw, "gradients")
    total = scores.sum(-1, keepdim=True)
    empty = total <= 0
    statistics.rows += int(wanted.sum())
    if not bool(empty.any()):
        return scores / total
    statistics.rows_without_positive += int((empty[..., 0] & wanted).sum())
    best = raw.masked_fill(~visible, float("-inf")).argmax(-1, keepdim=True)
    one_hot = torch.zeros_like(scores).scatter_(-1, best, 1.0)
    return torch.where(empty, one_hot, scores / total.masked_fill(empty, 1.0))


def check_finite(scores: Tensor, what: str) -> None:
    """Raises ``ToolError`` unless all scores are numbers."""
    if not bool(torch.isfinite(scores).all()):
        raise ToolError(f"{what} are not finite numbers; the model is damaged or diverged, train it again.")
