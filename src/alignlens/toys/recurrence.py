"""Recurrent layers of several models at once, over words of a small vocabulary, with gradients written out.

Tensors have a leading axis of models: states are (model, position, row, hidden), so that one position of all models is
one batched product, and all positions of a model are the rows of one matrix.

A layer reads words, and there are few of them: what a word adds to the gates is a row of a table (model, word, gates),
made once per update. No product with the inputs is left, neither forwards nor, since the gradient of the table is a
sum over positions by word, backwards. The gradient of the recurrent weights is one product over all positions.

A hyperbolic tangent is 2 sigmoid(2 x) - 1 here, since torch has no fast tanh on a CPU; of an LSTM's gates, the factor
inside stands in table and weights already (``doubled``). An LSTM keeps its cells with the other sign: then every
position of it is made of few operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

_sigmoid_back = torch.ops.aten.sigmoid_backward.grad_input
_tanh_back = torch.ops.aten.tanh_backward.grad_input


class Workspace:
    """Memory that every update uses again: fresh pages would cost a share of each."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def empty(self, name: str, *shape: int) -> Tensor:
        """Returns uninitialised memory that stays valid until the same name and shape are asked for again."""
        if (name, shape) not in self._tensors:
            self._tensors[name, shape] = torch.empty(shape)
        return self._tensors[name, shape]


def doubled(gates: Tensor, first: int, last: int, axis: int) -> Tensor:
    """Returns gates, or weights that make them, with those from ``first`` to before ``last`` times two."""
    scale = torch.ones(gates.shape[axis])
    scale[first:last] = 2.0
    return gates * scale.view(-1, *[1] * (gates.dim() - axis - 1))


def lstm(
    table: Tensor,
    recurrent: Tensor,
    words: Tensor,
    initial: tuple[Tensor, Tensor] | None,
    space: Workspace,
    name: str,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Returns all hidden states (model, position, row, hidden), and the last hidden and negative cell state.

    ``table`` (model, word, 4 hidden) has both biases in it; ``recurrent`` is (model, 4 hidden, hidden), ``words``
    (model, position, row). ``initial`` is the last state of another layer. ``name`` says which memory of ``space`` is
    this layer's.
    """
    width = recurrent.shape[2]
    content = (2 * width, 3 * width)
    states, cell = _Lstm.apply(  # type: ignore[no-untyped-call]
        doubled(table, *content, 2).flatten(0, 1),
        doubled(recurrent, *content, 1),
        _rows(words, table.shape[1]),
        *(initial or (None, None)),
        (space, name),
    )
    return states, (states[:, -1], cell)


def gru(
    table: Tensor, recurrent: Tensor, bias: Tensor, words: Tensor, initial: Tensor | None, space: Workspace, name: str
) -> Tensor:
    """Returns all hidden states (model, position, row, hidden).

    ``table`` (model, word, 3 hidden) has the bias of the inputs in it, and ``bias`` (model, 3 hidden) is the other;
    ``recurrent`` is (model, 3 hidden, hidden).
    """
    width = recurrent.shape[2]
    of_gates, of_content = bias[:, : 2 * width], bias[:, 2 * width :]
    pad = torch.zeros_like(of_content)
    full = table + torch.cat((of_gates, pad), 1)[:, None]
    states: Tensor = _Gru.apply(  # type: ignore[no-untyped-call]
        full.flatten(0, 1), recurrent, of_content, _rows(words, table.shape[1]), initial, (space, name)
    )
    return states


def _rows(words: Tensor, vocabulary: int) -> Tensor:
    """Returns words as rows of the tables of all models, one below the other."""
    return words + vocabulary * torch.arange(len(words))[:, None, None]


class _Lstm(torch.autograd.Function):
    """Gates are input, forget, content and output, as in ``nn.LSTM``."""

    @staticmethod
    def forward(
        context: Any,
        table: Tensor,
        recurrent: Tensor,
        words: Tensor,
        hidden: Tensor | None,
        cell: Tensor | None,
        memory: tuple[Workspace, str],
    ) -> tuple[Tensor, Tensor]:
        """Returns the states and the last cell state, negative; keeps every gate for the way back."""
        (space, name), (models, positions, rows), width = memory, words.shape, recurrent.shape[2]
        gates = space.empty(f"{name}.gates", models, positions, rows, 4 * width)
        states, kept, shown = (
            space.empty(f"{name}.{what}", models, positions, rows, width) for what in ("states", "cells", "shown")
        )
        torch.index_select(table, 0, words.reshape(-1), out=gates.view(-1, 4 * width))
        weights, before = recurrent.transpose(1, 2), (hidden, cell)
        for place in range(positions):
            gate, now, show = gates[:, place], kept[:, place], shown[:, place]
            if before[0] is not None:
                gate.baddbmm_(before[0], weights)
            admit, keep, content, out = gate.sigmoid_().chunk(4, 2)
            torch.addcmul(admit, admit, content, value=-2.0, out=now)
            if before[1] is not None:
                now.addcmul_(keep, before[1])
            torch.mul(now, 2.0, out=show).sigmoid_()
            torch.addcmul(out, out, show, value=-2.0, out=states[:, place])
            before = (states[:, place], now)
        context.kept = (recurrent, words, gates, states, kept, shown)
        context.initial, context.memory, context.entries = (hidden, cell), memory, len(table)
        return states.detach(), kept[:, -1]

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of table, weights and initial states; gates become their own gradients in place."""
        recurrent, words, gates, states, kept, shown = context.kept
        hidden, first_cell = context.initial
        (space, name), (models, positions, rows), width = context.memory, words.shape, recurrent.shape[2]
        of_states, of_cell = gradients[0], gradients[1].clone(memory_format=torch.contiguous_format)
        inward, spare = (space.empty(f"{name}.{what}", models, rows, width) for what in ("inward", "spare"))
        inward.copy_(of_states[:, -1])
        for place in reversed(range(positions)):
            earlier = kept[:, place - 1] if place else first_cell
            _lstm_back(gates[:, place], earlier, shown[:, place], inward, of_cell, spare)
            if earlier is None:
                break
            inward.copy_(of_states[:, place - 1]) if place else inward.zero_()
            inward.baddbmm_(gates[:, place], recurrent)
        of_table = _by_word(gates, words, context.entries)
        of_recurrent = _over_positions(gates, states, hidden)
        initial = (None, None) if hidden is None else (inward.clone(), of_cell)
        return of_table, of_recurrent, None, *initial, None


def _lstm_back(
    gates: Tensor, before: Tensor | None, shown: Tensor, inward: Tensor, of_cell: Tensor, spare: Tensor
) -> None:
    """Turns gates into the gradients of what went into them, and that of the cell into that of the cell before.

    ``inward`` is the gradient of the state, which is used up.
    """
    admit, keep, content, out = gates.chunk(4, 2)
    torch.mul(inward, out, out=spare)
    of_cell.add_(_sigmoid_back(spare, shown, grad_input=spare), alpha=-4.0)
    torch.addcmul(inward, inward, shown, value=-2.0, out=spare)
    _sigmoid_back(spare, out, grad_input=out)
    torch.addcmul(of_cell, of_cell, content, value=-2.0, out=spare)
    torch.mul(of_cell, admit, out=inward).mul_(-2.0)
    _sigmoid_back(inward, content, grad_input=content)
    _sigmoid_back(spare, admit, grad_input=admit)
    if before is None:
        keep.zero_()
        return
    torch.mul(of_cell, before, out=spare)
    of_cell.mul_(keep)
    _sigmoid_back(spare, keep, grad_input=keep)


class _Gru(torch.autograd.Function):
    """Gates are reset, update and content, as in ``nn.GRU``; ``bias`` is inside what the reset gate lets pass."""

    @staticmethod
    def forward(
        context: Any,
        table: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        words: Tensor,
        hidden: Tensor | None,
        memory: tuple[Workspace, str],
    ) -> Tensor:
        """Returns the states; keeps every gate for the way back."""
        (space, name), (models, positions, rows), width = memory, words.shape, recurrent.shape[2]
        gates = space.empty(f"{name}.gates", models, positions, rows, 3 * width)
        states, passed = (
            space.empty(f"{name}.{what}", models, positions, rows, width) for what in ("states", "passed")
        )
        torch.index_select(table, 0, words.reshape(-1), out=gates.view(-1, 3 * width))
        weights = recurrent.transpose(1, 2)
        of_gates, of_content = weights[..., : 2 * width], weights[..., 2 * width :]
        before = hidden
        for place in range(positions):
            gate, offered, now = gates[:, place, :, : 2 * width], passed[:, place], states[:, place]
            offered.copy_(bias[:, None].expand_as(offered))
            if before is not None:
                gate.baddbmm_(before, of_gates)
                offered.baddbmm_(before, of_content)
            reset, update = gate.sigmoid_().chunk(2, 2)
            content = gates[:, place, :, 2 * width :].addcmul_(reset, offered).mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)
            torch.sub(content, torch.mul(update, content, out=now), out=now)
            if before is not None:
                now.addcmul_(update, before)
            before = now
        context.kept = (recurrent, words, gates, states, passed)
        context.initial, context.memory, context.entries = hidden, memory, len(table)
        return states.detach()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of table, weights, bias and initial state; gates become their gradients in place."""
        recurrent, words, gates, states, passed = context.kept
        (space, name), (models, positions, rows), width = context.memory, words.shape, recurrent.shape[2]
        (of_states,), hidden = gradients, context.initial
        of_gates, of_content = recurrent[:, : 2 * width], recurrent[:, 2 * width :]
        inward, spare = (space.empty(f"{name}.{what}", models, rows, width) for what in ("inward", "spare"))
        inward.copy_(of_states[:, -1])
        for place in reversed(range(positions)):
            reset, update, content = gates[:, place].chunk(3, 2)
            offered, before = passed[:, place], states[:, place - 1] if place else hidden
            kept = update * inward
            torch.neg(content, out=spare) if before is None else torch.sub(before, content, out=spare)
            spare.mul_(inward)
            _tanh_back(inward.sub_(kept), content, grad_input=content)
            _sigmoid_back(spare, update, grad_input=update)
            torch.mul(content, offered, out=spare)
            torch.mul(content, reset, out=offered)
            _sigmoid_back(spare, reset, grad_input=reset)
            if before is None:
                break
            torch.add(kept, of_states[:, place - 1], out=inward) if place else inward.copy_(kept)
            inward.baddbmm_(gates[:, place, :, : 2 * width], of_gates).baddbmm_(offered, of_content)
        of_recurrent = torch.cat(
            (_over_positions(gates[..., : 2 * width], states, hidden), _over_positions(passed, states, hidden)), 1
        )
        initial = None if hidden is None else inward.clone()
        return _by_word(gates, words, context.entries), of_recurrent, passed.sum((1, 2)), None, initial, None


def _by_word(gates: Tensor, words: Tensor, entries: int) -> Tensor:
    """Returns the gradient of the table (model and word, gates) of those of gates (model, position, row, gates)."""
    flat = gates.flatten(0, 2)
    return flat.new_zeros(entries, flat.shape[1]).index_add_(0, words.reshape(-1), flat)


def _over_positions(gates: Tensor, states: Tensor, hidden: Tensor | None) -> Tensor:
    """Returns the gradient of recurrent weights (model, gates, hidden): what follows a state, times the state."""
    gradient = torch.bmm(gates[:, 1:].flatten(1, 2).transpose(1, 2), states[:, :-1].flatten(1, 2))
    return gradient if hidden is None else gradient.baddbmm_(gates[:, 0].transpose(1, 2), hidden)
