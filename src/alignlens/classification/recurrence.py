"""A recurrent layer over texts of different lengths that computes nothing for padding.

torch's own layer takes a packed batch, too, but its derivative makes a tensor of the size of the whole batch at every
step: the time grows with the square of the length. Here steps stand one after the other in memory. Step ``t`` has a row
for every text that is longer than ``t``, first those of the direction from the left, then, if there is one, those of
the direction from the right, whose step ``t`` reads a text's last word but ``t``. Both make their steps together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """Where the tokens of a batch stand: texts one after the other, the longest first, or step by step."""

    lengths: Tensor  # (text), never growing
    directions: int

    @cached_property
    def rows(self) -> list[int]:
        """How many texts make each step."""
        longest = int(self.lengths[0])
        ends = torch.bincount(self.lengths, minlength=longest + 1)
        return (len(self.lengths) - torch.cumsum(ends, 0))[:longest].tolist()

    @cached_property
    def starts(self) -> list[int]:
        """Where each step begins, and where the last ends, in rows of one direction."""
        return [0, *torch.cumsum(torch.tensor(self.rows), 0).tolist()]

    @cached_property
    def tokens(self) -> Tensor:
        """(direction, row of all steps): the token that is read there, counted from the first of the first text."""
        rows = torch.tensor(self.rows)
        step = torch.repeat_interleave(torch.arange(len(rows)), rows)
        text = torch.arange(len(step)) - torch.tensor(self.starts[:-1])[step]
        first = torch.cumsum(self.lengths, 0) - self.lengths
        from_left = first[text] + step
        from_right = first[text] + self.lengths[text] - 1 - step
        return torch.stack([from_left, from_right][: self.directions])

    @cached_property
    def places(self) -> Tensor:
        """(direction, row of all steps): where that row stands in memory."""
        rows, starts = torch.tensor(self.rows), torch.tensor(self.starts[:-1])
        step = torch.repeat_interleave(torch.arange(len(rows)), rows)
        text = torch.arange(len(step)) - starts[step]
        base = self.directions * starts[step] + text
        return torch.stack([base + number * rows[step] for number in range(self.directions)])

    def blocks(self, flat: Tensor) -> list[Tensor]:
        """Returns (direction, text, width) of every step, as views of (row, width) in memory."""
        return [
            flat[self.directions * start : self.directions * stop].view(self.directions, stop - start, -1)
            for start, stop in pairwise(self.starts)
        ]


class _Recurrence(torch.autograd.Function):
    """From what inputs add to the gates, step by step in memory, to hidden states in the same order.

    The gates are computed in the memory of the first argument, which nothing else uses (``hidden_states``).
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, steps: Steps) -> Tensor:
        size = recurrent.shape[2]
        hidden, cell, visible = (gates.new_empty(len(gates), size) for _ in range(3))
        turned = recurrent.transpose(1, 2)
        before: tuple[Tensor, Tensor] | None = None
        for gate, shown, kept, seen in zip(*map(steps.blocks, (gates, hidden, cell, visible)), strict=True):
            if before is not None:
                torch.baddbmm(gate, before[0][:, : gate.shape[1]], turned, out=gate)
            gate[..., : 2 * size].sigmoid_()
            gate[..., 2 * size : 3 * size].tanh_()
            gate[..., 3 * size :].sigmoid_()
            admit, keep, content, show = gate.chunk(4, -1)
            torch.mul(admit, content, out=kept)
            if before is not None:
                kept.addcmul_(keep, before[1][:, : gate.shape[1]])
            torch.mul(torch.tanh(kept, out=seen), show, out=shown)
            before = shown, kept
        ctx.steps, ctx.kept = steps, (gates, recurrent, hidden.detach(), cell, visible)
        return hidden

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        if ctx.kept is None:
            raise RuntimeError("the derivative of these steps was already taken, which used up what they had kept")
        (gates, recurrent, hidden, cell, visible), ctx.kept = ctx.kept, None
        steps: Steps = ctx.steps
        earlier = _earlier(steps)
        cell_before = torch.where(earlier[:, None] >= 0, cell[earlier], 0)
        # What a step multiplies cotangents by does not depend on them: computed for all steps at once.
        admit, keep, content, show = gates.chunk(4, -1)
        cell_from_hidden = show * (1 - visible * visible)
        kept = keep.clone()
        show.copy_(show * (1 - show) * visible)
        keep.copy_(keep * (1 - keep) * cell_before)
        slope = admit * (1 - content * content)
        admit.copy_(admit * (1 - admit) * content)
        content.copy_(slope)
        arriving: tuple[Tensor, Tensor] | None = None
        blocks = zip(*map(steps.blocks, (gates, cotangent.contiguous(), cell_from_hidden, kept)), strict=True)
        for gate, given, through, keeping in reversed(list(blocks)):
            to_hidden, size = given.clone(), given.shape[2]
            if arriving is not None:
                to_hidden[:, : arriving[0].shape[1]] += arriving[0]
            to_cell = to_hidden * through
            if arriving is not None:
                to_cell[:, : arriving[1].shape[1]] += arriving[1]
            parts = gate.view(*gate.shape[:2], 4, size)
            parts[:, :, :3] *= to_cell[:, :, None]
            parts[:, :, 3] *= to_hidden
            arriving = torch.bmm(gate, recurrent), to_cell * keeping
        to_recurrent = _to_recurrent(steps, gates, hidden, earlier) if ctx.needs_input_grad[1] else None
        return gates, to_recurrent, None


def _earlier(steps: Steps) -> Tensor:
    """Returns for every row in memory where the same text's step before stands, -1 for the first."""
    rows, starts, before = steps.rows, steps.starts, []
    for step, count in enumerate(rows):
        if step == 0:
            before.append(torch.full((steps.directions * count,), -1))
        else:
            first = steps.directions * starts[step - 1] + torch.arange(steps.directions) * rows[step - 1]
            before.append((first[:, None] + torch.arange(count)).flatten())
    return torch.cat(before)


def _to_recurrent(steps: Steps, gates: Tensor, hidden: Tensor, earlier: Tensor) -> Tensor:
    """Returns the derivative of the recurrent weights: one product for all steps of a direction."""
    first = steps.rows[0]
    return torch.stack([gates[places[first:]].t() @ hidden[earlier[places[first:]]] for places in steps.places])


def hidden_states(lstm: torch.nn.LSTM, vectors: Tensor, which: Tensor, lengths: Tensor) -> Tensor:
    """Returns what a layer makes of texts one after the other: (token, width of all directions).

    ``vectors`` are (word, width), and token ``n`` is word ``which[n]``: equal words are read once.
    """
    steps = Steps(lengths, 2 if lstm.bidirectional else 1)
    names = ["l0", "l0_reverse"][: steps.directions]
    read = [
        torch.nn.functional.linear(
            vectors,
            getattr(lstm, f"weight_ih_{name}"),
            getattr(lstm, f"bias_ih_{name}") + getattr(lstm, f"bias_hh_{name}"),
        )
        for name in names
    ]
    words = which[steps.tokens] + torch.arange(steps.directions)[:, None] * len(vectors)
    order = torch.empty(steps.places.numel(), dtype=torch.long)
    order[steps.places.flatten()] = words.flatten()
    recurrent = torch.stack([getattr(lstm, f"weight_hh_{name}") for name in names])
    hidden: Tensor = _Recurrence.apply(torch.cat(read)[order], recurrent, steps)  # type: ignore[no-untyped-call]
    back = torch.empty_like(steps.tokens)
    for places, tokens, place_of in zip(steps.places, steps.tokens, back, strict=True):
        place_of[tokens] = places
    return torch.cat([hidden[places] for places in back], 1)
