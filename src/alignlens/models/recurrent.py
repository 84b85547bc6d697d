"""Recurrent layers one step at a time: the parameters of fused ones, and what a step makes of their gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence


class Layer:
    """The parameters of one layer of an ``nn.LSTM``, whose four gates are input, forget, new content, output."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.input, self.recurrent, *biases = weights
        self.bias = biases[0] + biases[1]

    def gates(self, read: Tensor) -> Tensor:
        """Returns what the layer's input adds to its gates (rows, 4 hidden)."""
        return functional.linear(read, self.input, self.bias)

    @staticmethod
    def advance(gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next hidden and cell state (rows, hidden) of gates (rows, 4 hidden) before their tanh."""
        admit, keep, content, show = gates.chunk(4, 1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(admit) * torch.tanh(content)
        return torch.sigmoid(show) * torch.tanh(cell), cell


class GruLayer(Layer):
    """One layer of an ``nn.GRU``, with four gates as well: reset, keep, and new content of the input and of the state.

    The last two are apart because the reset multiplies the second alone. There is no cell: its width is 0.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        (reset, keep, content), (reset_state, keep_state, content_state) = (each.chunk(3) for each in weights[:2])
        of_input, of_state = (each.chunk(3) for each in weights[2:])
        self.input = torch.cat((reset, keep, content, torch.zeros_like(content)))
        self.recurrent = torch.cat((reset_state, keep_state, torch.zeros_like(content_state), content_state))
        self.bias = torch.cat((of_input[0] + of_state[0], of_input[1] + of_state[1], of_input[2], of_state[2]))

    @staticmethod
    def advance(gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next hidden state, and the cell that is none."""
        reset, keep, content, content_state = gates.chunk(4, 1)
        content = torch.tanh(content + torch.sigmoid(reset) * content_state)
        return content + torch.sigmoid(keep) * (hidden - content), cell


def kind_of(recurrent: nn.LSTM | nn.GRU) -> type[Layer]:
    """Returns the class of its layers."""
    return Layer if isinstance(recurrent, nn.LSTM) else GruLayer


def layers_of(recurrent: nn.LSTM | nn.GRU) -> list[Layer]:
    """Returns the layers from the lowest; of a layer with two directions, the forward one first."""
    return [kind_of(recurrent)(weights) for weights in cast("list[list[Tensor]]", recurrent.all_weights)]


def run(
    recurrent: nn.LSTM | nn.GRU, inputs: Tensor | PackedSequence, initial: Sequence[Tensor] | None = None
) -> tuple[Any, Tensor, Tensor]:
    """Returns all states, and the last hidden and cell states, of the fused layers.

    On a CPU they run in full precision, since few processors have them in another.
    """
    with torch.autocast("cpu", enabled=False):
        if isinstance(recurrent, nn.LSTM):
            states, (hidden, cell) = recurrent(inputs, None if initial is None else tuple(initial))
        else:
            states, hidden = recurrent(inputs, None if initial is None else initial[0])
            cell = hidden[..., :0]
    return states, hidden, cell
