"""The copying models of several seeds as one: the mathematics of ``Lstm``, every parameter with a leading axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from alignlens.models.lstm import Lstm
from alignlens.models.settings import LstmSettings
from alignlens.toys.recurrence import Workspace, gru, lstm
from alignlens.toys.samples import FIRST_WORD
from alignlens.toys.seeding import seeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from alignlens.toys.samples import CopyTask
    from alignlens.toys.settings import ToySettings, Variant


def model_settings(settings: ToySettings, variant: Variant = "printed", heads: int = 1) -> LstmSettings:
    """Returns the model of the copying tasks: one layer, one direction, a tanh layer before the output."""
    released = variant == "released"
    return LstmSettings(
        dim=settings.dim,
        hidden=settings.hidden,
        embeddings="separate" if released else "shared",
        input_feeding=False,
        output="two_layer",
        activation="tanh",
        cell="gru" if released else "lstm",
        heads=heads,
        head_projection="own" if released else "shared",
        head_contexts="mean" if released else "sum",
        output_dropout=0.0,
    )


def initial_weights(settings: LstmSettings, words: int, seed: int) -> dict[str, Tensor]:
    """Returns the weights that a model of this seed starts from, by the names of ``Lstm``."""
    with seeded(seed):
        model = Lstm(settings, FIRST_WORD + words, FIRST_WORD + words)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@dataclass(frozen=True, eq=False)
class Copies:
    """Samples of several models, ids of (model, position, row)."""

    source: Tensor
    prefix: Tensor
    labels: Tensor


class Copiers:
    """Several models of the same shape. No method mixes numbers of two of them."""

    def __init__(self, settings: LstmSettings, weights: Sequence[Mapping[str, Tensor]]) -> None:
        self.settings = settings
        self.weights = {name: torch.stack([each[name] for each in weights]).requires_grad_() for name in weights[0]}
        self._space = Workspace()

    def losses(self, batch: Copies) -> Tensor:
        """Returns the mean negative log-likelihood of every model."""
        logits = self.logits(batch.source, batch.prefix)
        lost = functional.cross_entropy(logits.flatten(0, 2), batch.labels.reshape(-1), reduction="none")
        return lost.view(len(batch.labels), -1).mean(1)

    def accuracies(self, batch: Copies) -> Tensor:
        """Returns the share of words that every model predicts rightly after the right ones."""
        return (self.logits(batch.source, batch.prefix).argmax(-1) == batch.labels).flatten(1).double().mean(1)

    def logits(self, source: Tensor, prefix: Tensor) -> Tensor:
        """Returns the scores of the next word (model, position, row, word)."""
        source_table = self.weights["source_table.weight"]
        target_table = self.weights.get("target_table.weight", source_table)
        memory, final = self._recurrent("encoder", source_table, source, None)
        states, _ = self._recurrent("decoder", target_table, prefix, final)
        weight = self.weights["inner.weight"]
        from_state, from_context = weight[..., : self.settings.hidden], weight[..., self.settings.hidden :]
        inner = torch.baddbmm(self._inner_bias(from_context)[:, None], states.flatten(1, 2), from_state.transpose(1, 2))
        inner = inner.view(*states.shape[:3], -1) + self._contexts(states, memory, from_context)
        output = self.weights["output.weight"].transpose(1, 2)
        logits = torch.baddbmm(self.weights["output.bias"][:, None], torch.tanh(inner).flatten(1, 2), output)
        return logits.view(*states.shape[:3], -1)

    def _recurrent(
        self, part: str, vectors: Tensor, words: Tensor, initial: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the states (model, position, row, hidden) of encoder or decoder, and its last."""
        inputs, recurrent, first, second = (
            self.weights[f"{part}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        if self.settings.cell == "lstm":
            gates = torch.baddbmm((first + second)[:, None], vectors, inputs.transpose(1, 2))
            return lstm(gates, recurrent, words, initial, self._space, part)
        gates = torch.baddbmm(first[:, None], vectors, inputs.transpose(1, 2))
        states = gru(gates, recurrent, second, words, None if initial is None else initial[0], self._space, part)
        return states, (states[:, -1], states[:, -1])  # a GRU has no cell

    def _contexts(self, states: Tensor, memory: Tensor, from_context: Tensor) -> Tensor:
        """Returns what the contexts add to the inner layer, (model, position, row, dim).

        Their projection and the inner layer are one matrix: the product of both is small.
        """
        models, heads, own = len(states), self.settings.heads, self.settings.head_projection == "own"
        width = memory.shape[-1]
        by_row = memory.transpose(1, 2).reshape(-1, memory.shape[1], width)
        projections = self.weights["from_context.weight"].view(models, heads if own else 1, -1, width)
        weights = [self._attention(head, states, by_row) for head in range(heads)]
        if not own:
            weights = [torch.stack(weights).sum(0)] if heads > 1 else weights
        added = []
        for weight, projection in zip(weights, projections.unbind(1), strict=True):
            context = torch.bmm(weight, by_row).view(models, -1, width)
            added.append(torch.bmm(context, torch.bmm(from_context, projection).transpose(1, 2)))
        summed = added[0] if len(added) == 1 else torch.stack(added).sum(0)
        if self.settings.head_contexts == "mean" and heads > 1:
            summed = summed / heads
        return summed.view(models, states.shape[2], states.shape[1], -1).transpose(1, 2)

    def _attention(self, head: int, states: Tensor, by_row: Tensor) -> Tensor:
        """Returns the weights of a head (model and row, target, source)."""
        models, width = len(states), by_row.shape[-1]
        matrix = self.weights["bilinear.weight"].view(models, -1, width, states.shape[-1])[:, head]
        bias = self.weights["bilinear.bias"].view(models, -1, width)[:, head]
        queries = torch.baddbmm(bias[:, None], states.flatten(1, 2), matrix.transpose(1, 2))
        queries = queries.view(*states.shape[:3], width).transpose(1, 2).reshape(-1, states.shape[1], width)
        return torch.softmax(torch.bmm(queries, by_row.transpose(1, 2)), -1)

    def _inner_bias(self, from_context: Tensor) -> Tensor:
        """Returns the bias of the inner layer with that of the contexts in it, (model, dim)."""
        bias = self.weights["from_context.bias"]
        if self.settings.head_projection == "own":
            bias = bias.view(len(bias), self.settings.heads, -1).sum(1)
            bias = bias / self.settings.heads if self.settings.head_contexts == "mean" else bias
        return self.weights["inner.bias"] + torch.bmm(from_context, bias[..., None])[..., 0]


class CopyLesson:
    """A copy task for models of one shape."""

    measures: tuple[str, ...] = ("accuracy",)

    def __init__(self, task: CopyTask, settings: LstmSettings) -> None:
        self.task, self.settings = task, settings

    def build(self, weights: Sequence[Mapping[str, Tensor]]) -> Copiers:
        """Returns the stacked models."""
        return Copiers(self.settings, weights)

    def batch(self, seeds: Sequence[int], step: int, evaluation: bool) -> Copies:
        """Returns the samples of a step."""
        drawn = [self.task.draw(seed, step, evaluation) for seed in seeds]
        sides = ([each.source for each in drawn], [each.prefix for each in drawn], [each.target for each in drawn])
        return Copies(*(torch.from_numpy(np.stack(side).swapaxes(1, 2).copy()) for side in sides))

    def measured(self, models: Copiers, batch: Copies) -> dict[str, Tensor]:
        """Returns the accuracies."""
        return {"accuracy": models.accuracies(batch)}
