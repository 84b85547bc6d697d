"""From raw scores to rows that sum to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.statistics import Statistics


def normalised(scores: Tensor, raw: Tensor, visible: Tensor, wanted: Tensor, statistics: Statistics) -> Tensor:
    """Returns ``scores`` (..., source), none negative, divided by their sums.

    A row of zeros cannot be divided; all of it goes to the highest ``raw`` score, and the row is counted if ``wanted``.
    ``visible`` (broadcast to the scores) is False at padding.
    """
    check_finite(raw, "gradients")
    rows, empty = divided(scores, raw, visible)
    statistics.rows += int(wanted.sum())
    statistics.rows_without_positive += int((empty & wanted).sum())
    return rows


def divided(scores: Tensor, raw: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``scores`` as ``normalised`` does, and (...) which rows had nothing to divide."""
    total = scores.sum(-1, keepdim=True)
    empty = total <= 0
    if not bool(empty.any()):
        return scores / total, empty[..., 0]
    best = raw.masked_fill(~visible, float("-inf")).argmax(-1, keepdim=True)
    one_hot = torch.zeros_like(scores).scatter_(-1, best, 1.0)
    return torch.where(empty, one_hot, scores / total.masked_fill(empty, 1.0)), empty[..., 0]


def check_finite(scores: Tensor, what: str) -> None:
    """Raises ``ToolError`` unless all scores are numbers."""
    if not bool(torch.isfinite(scores).all()):
        raise ToolError(
            f"{what} are not finite numbers: the model is damaged or its training diverged. Train it again."
        )
