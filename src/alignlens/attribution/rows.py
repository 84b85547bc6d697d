"""From raw scores to rows that sum to one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from alignlens.errors import ToolError


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

    def add(self, other: Statistics) -> None:
        """Adds the counters of another part of the run."""
        for name, value in vars(other).items():
            if name == "copies":
                self.copies = dict(Counter(self.copies) + Counter(value))
            else:
                setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, int]:
        """Returns the counters by name."""
        named = {key: value for key, value in vars(self).items() if key != "copies"}
        return named | {f"copies {method}": count for method, count in self.copies.items()}


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
