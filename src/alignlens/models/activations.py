"""Activations between the two projections of a feed-forward net, with their derivatives for backward passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional


class Activation(NamedTuple):
    """A function of single numbers, which may write over them, and its derivative at inputs with these values.

    The derivative may write over both.
    """

    of: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]


def _relu(inputs: Tensor) -> Tensor:
    return functional.relu(inputs, inplace=True)


def _relu_slope(inputs: Tensor, values: Tensor) -> Tensor:
    return values.sign_()


def _swish_slope(inputs: Tensor, values: Tensor) -> Tensor:
    gate = inputs.sigmoid()
    return gate + values * (1 - gate)


def _gelu_slope(inputs: Tensor, values: Tensor) -> Tensor:
    share = 0.5 * (1 + (inputs * math.sqrt(0.5)).erf())
    density = (-0.5 * inputs.square()).exp() / math.sqrt(2 * math.pi)
    return share + inputs * density


def _gelu_tanh(inputs: Tensor) -> Tensor:
    return functional.gelu(inputs, approximate="tanh")


def _gelu_tanh_slope(inputs: Tensor, values: Tensor) -> Tensor:
    root = math.sqrt(2 / math.pi)
    tanh = (root * (inputs + 0.044715 * inputs**3)).tanh()
    inner = root * (1 + 3 * 0.044715 * inputs**2)
    return 0.5 * (1 + tanh) + 0.5 * inputs * (1 - tanh**2) * inner


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(_relu, _relu_slope),
    "swish": Activation(functional.silu, _swish_slope),
    "gelu": Activation(functional.gelu, _gelu_slope),
    "gelu_tanh": Activation(_gelu_tanh, _gelu_tanh_slope),
}
