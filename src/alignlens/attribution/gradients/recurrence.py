"""Steps of a recurrent layer, forward and backward, and its attention.

The derivative of a step multiplies cotangents by numbers of the row, its six *slopes*: those of the four gates, that
from the hidden state to the cell, and that from the cell to the cell before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from alignlens.attribution.gradients.rows import take
from alignlens.models.recurrent import Layer

_CELL_GATES, _SHOW_GATE, _SHOWN, _KEPT = slice(0, 3), 3, 4, 5


@dataclass(frozen=True)
class Steps:
    """All steps of one direction of one layer; those of a sentence's padding do nothing."""

    gates: Tensor  # (position, row, 4 * hidden): after their non-linearity, once the step is made
    hidden: Tensor  # (position, row, hidden); zero at padding
    cell: Tensor  # (position, row, hidden)
    visible: Tensor  # (position, row, hidden): tanh of the cell
    hidden_before: Tensor
    cell_before: Tensor
    real: Tensor | None  # (position, row, 1), one or zero; None where nothing is padding

    @classmethod
    def plan(cls, gates: Tensor, first: tuple[Tensor, Tensor] | None, backwards: bool, real: Tensor | None) -> Self:
        """Returns steps that are not made yet, with what their inputs add to gates, from states (row, hidden) or 0."""
        count, rows, size = gates.shape[0], gates.shape[1], gates.shape[2] // 4
        states = gates.new_empty(2, count + 1, rows, size)
        for state, start in zip(states, first or (0.0, 0.0), strict=True):
            state[count if backwards else 0] = start
        (hidden, cell), now, before = states, slice(1, None), slice(0, count)
        if backwards:
            now, before = before, now
        visible = gates.new_empty(count, rows, size)
        return cls(gates, hidden[now], cell[now], visible, hidden[before], cell[before], real)

    def make(self, place: int, recurrent: Tensor) -> Tensor:
        """Returns the hidden state (row, hidden) of one position, whose step it makes."""
        gates, cell, hidden, size = self.gates[place], self.cell[place], self.hidden[place], self.hidden.shape[2]
        gates.addmm_(self.hidden_before[place], recurrent.t())
        admit, keep, content, show = gates.chunk(4, 1)
        gates[:, : 2 * size].sigmoid_()
        content.tanh_()
        show.sigmoid_()
        torch.mul(keep, self.cell_before[place], out=cell).addcmul_(admit, content)
        torch.mul(torch.tanh(cell, out=self.visible[place]), show, out=hidden)
        if self.real is not None:  # reading backwards, a sentence begins where its padding ends
            hidden.mul_(self.real[place])
            cell.mul_(self.real[place])
        return hidden

    def slopes(self, rows: Tensor | slice, stop: int | None = None) -> Tensor:
        """Returns (position, 6, row, hidden) of some rows at positions before ``stop``."""
        gates, visible, before = (take(x[:stop], rows, 1) for x in (self.gates, self.visible, self.cell_before))
        admit, keep, content, show = gates.chunk(4, -1)
        found = visible.new_empty(len(visible), 6, *visible.shape[1:])
        for number, (gate, other) in enumerate(((admit, content), (keep, before))):
            torch.addcmul(gate, gate, gate, value=-1, out=found[:, number]).mul_(other)
        torch.addcmul(admit, admit * content, content, value=-1, out=found[:, 2])
        torch.addcmul(show, show, show, value=-1, out=found[:, _SHOW_GATE]).mul_(visible)
        torch.addcmul(show, show * visible, visible, value=-1, out=found[:, _SHOWN])
        found[:, _KEPT] = keep
        if self.real is not None:  # a cotangent of the last cell passes over padding; nothing else comes from there
            real = take(self.real[:stop], rows, 1)
            found.mul_(real[:, None])[:, _KEPT].add_(1 - real)
        return found


def run_over(layer: Layer, read: Tensor, backwards: bool, real: Tensor | None) -> Steps:
    """Returns what a layer makes of its input (position, row, input), from zero states at either end of a sentence."""
    steps = Steps.plan(layer.gates(read), None, backwards, real)
    for place in range(len(read))[:: -1 if backwards else 1]:
        steps.make(place, layer.recurrent)
    return steps


def cell_backward(slopes: Tensor, d_hidden: Tensor, d_cell: Tensor, d_gates: Tensor) -> None:
    """Writes the cotangents of gates (slot, row, 4, hidden); that of the cell becomes that of the cell before."""
    d_cell.addcmul_(d_hidden, slopes[_SHOWN])
    torch.mul(d_cell[:, :, None], slopes[_CELL_GATES].transpose(0, 1), out=d_gates[:, :, _CELL_GATES])
    torch.mul(d_hidden, slopes[_SHOW_GATE], out=d_gates[:, :, _SHOW_GATE])
    d_cell.mul_(slopes[_KEPT])


def cell_forward(slopes: Tensor, d_gates: Tensor, d_cell: Tensor, d_hidden: Tensor) -> None:
    """Writes how the hidden state (start, row, hidden) changes if gates (start, row, 4, hidden) and cells change.

    The change of the cell before becomes that of the cell.
    """
    d_cell.mul_(slopes[_KEPT])
    for number in range(_CELL_GATES.stop):
        d_cell.addcmul_(d_gates[:, :, number], slopes[number])
    torch.mul(d_cell, slopes[_SHOWN], out=d_hidden).addcmul_(d_gates[:, :, _SHOW_GATE], slopes[_SHOW_GATE])


def attend(recurrent: Tensor, keys: Tensor, offsets: Tensor, contributions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns attention output (row, target, dim) and weights (row, target, source) of s_t (row, target, hidden)."""
    weights = torch.softmax(torch.baddbmm(offsets, recurrent, keys.transpose(1, 2)), -1)
    return torch.bmm(weights, contributions), weights
