"""The best attention for a target word: weights over source positions that make it most probable.

By exponentiated gradient: weights are multiplied by exp(-rate * slope) and made to sum to one. Every problem has a rate
of its own, lowered where a step went further than its slope can be trusted, and raised where it did not. A problem ends
when no weights can be better by more than ``ENOUGH`` nats, as far as slopes tell: for losses that are convex in the
weights that is a bound on what is left to gain. One that is stuck at a kink ends as well: slopes of both sides point to
it, and tell nothing about what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

ENOUGH = 1e-3
_ROUNDING = 1e-5  # of a loss, in single precision
_STUCK = 1e-5  # share by which a step changes weights, at a kink of the loss that it cannot pass
_FASTER, _SLOWER, _HIGHEST_RATE = 1.25, 0.5, 1e9  # doubled rates are halved again too often

#: Loss (some) and slopes (some, position) of the problems with these numbers (some), at weights (some, position).
Losses = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Optimum(NamedTuple):
    """The result of the search."""

    weights: Tensor  # (problem, position), each row sums to one
    losses: Tensor  # (problem)
    left: Tensor  # (problem): the remaining possible gain, in nats
    evaluations: int  # slopes computed, over all problems


def minimise(losses: Losses, allowed: Tensor, like: Tensor, steps: int, enough: float = ENOUGH) -> Optimum:
    """Returns the best weights on positions that are ``allowed`` (problem, position), after at most ``steps`` steps."""
    logs = like.new_zeros(allowed.shape).masked_fill(~allowed, float("-inf")).log_softmax(-1)
    numbers = torch.arange(len(logs), device=logs.device)
    loss, slopes = losses(numbers, logs.exp())
    rates = 1 / _spread(slopes, allowed).clamp(min=torch.finfo(slopes.dtype).eps)
    optimum = Optimum(logs.exp(), loss.clone(), torch.zeros_like(loss), 0)
    evaluations = len(numbers)
    for _ in range(steps):
        left = _left(logs, slopes, allowed[numbers])
        optimum.weights[numbers], optimum.losses[numbers], optimum.left[numbers] = logs.exp(), loss, left
        going = (left > enough) & (rates * _spread(slopes, allowed[numbers]) > _STUCK)
        if not bool(going.any()):
            break
        numbers, logs, loss, slopes, rates = (each[going] for each in (numbers, logs, loss, slopes, rates))
        moved = (logs - rates[:, None] * slopes).masked_fill(~allowed[numbers], float("-inf")).log_softmax(-1)
        new_loss, new_slopes = losses(numbers, moved.exp())
        evaluations += len(numbers)
        good = _trusted(moved, logs, new_slopes - slopes, rates) & (new_loss <= loss + _ROUNDING * (1 + loss.abs()))
        rates = torch.where(good, _FASTER * rates, _SLOWER * rates).clamp(max=_HIGHEST_RATE)
        loss = torch.where(good, new_loss, loss)
        logs, slopes = (torch.where(good[:, None], *pair) for pair in ((moved, logs), (new_slopes, slopes)))
    else:
        optimum.weights[numbers], optimum.losses[numbers] = logs.exp(), loss
        optimum.left[numbers] = _left(logs, slopes, allowed[numbers])
    return optimum._replace(evaluations=evaluations)


def over_logits(logits: Tensor, labels: Tensor, steps: int, enough: float = ENOUGH) -> Optimum:
    """Returns the optimum where logits are means over positions of ``logits`` (problem, position, vocabulary)."""

    def losses(numbers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        mixed = torch.bmm(weights[:, None], logits[numbers])[:, 0]
        loss, towards = cross_entropy(mixed, labels[numbers])
        return loss, torch.bmm(logits[numbers], towards[..., None])[..., 0]

    allowed = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    return minimise(losses, allowed, logits, steps, enough)


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns -log p of labels (row) and its gradient by logits (row, vocabulary)."""
    logs, places = functional.log_softmax(logits, -1), labels[:, None]
    loss = -logs.gather(1, places)[:, 0]
    return loss, logs.exp_().scatter_add_(1, places, -torch.ones_like(loss)[:, None])


def _spread(slopes: Tensor, allowed: Tensor) -> Tensor:
    """Returns the difference of the largest and the smallest slope of each problem."""
    high, low = (slopes.masked_fill(~allowed, -sign * float("inf")) for sign in (1, -1))
    return high.amax(-1) - low.amin(-1)


def _left(logs: Tensor, slopes: Tensor, allowed: Tensor) -> Tensor:
    """Returns what could be gained if slopes stayed as they are: everything to the position with the lowest."""
    return (logs.exp() * slopes).sum(-1) - slopes.masked_fill(~allowed, float("inf")).amin(-1)


def _trusted(moved: Tensor, logs: Tensor, bend: Tensor, rates: Tensor) -> Tensor:
    """Returns whether slopes changed little enough on the way for the rate of a step.

    The measure of the way is the sum of both Kullback-Leibler divergences. With a convex loss it then has fallen.
    Losses themselves would not do: close to the end they differ by less than their rounding.
    """
    way = moved.exp() - logs.exp()
    further = (moved - logs).masked_fill(way == 0, 0.0)
    return (bend * way).sum(-1) <= (further * way).sum(-1) / rates
