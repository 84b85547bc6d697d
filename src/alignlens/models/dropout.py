"""Dropout whose random numbers are cheap on a CPU.

Torch draws one Bernoulli number per element there, which costs as much as the matrix products of a small layer. Four
elements can share one 64-bit number: sixteen random bits each decide within 1/65536 of the rate.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_VALUES = 2**16


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Returns ``values`` with a share ``rate`` of them set to zero and the others scaled up, in training only."""
    if not training or not rate:
        return values
    if values.device.type != "cpu":
        return functional.dropout(values, rate)
    dropped = round(rate * _VALUES)
    count = values.numel()
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = numbers.view(torch.int16)[:count].view(values.shape)
    kept = (bits >= dropped - _VALUES // 2).to(values.dtype)
    # What is really dropped is a whole number of 65536ths; scaling by it keeps the expectation exact.
    return values * kept.mul_(_VALUES / (_VALUES - dropped))
