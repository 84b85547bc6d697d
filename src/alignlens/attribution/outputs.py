"""The output layer's part of a gradient, in closed form: d log p(y) / d state = W_y - sum over v of p(v) W_v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from alignlens.models.contract import Seq2Seq

_POSITIONS_AT_ONCE = 512  # whose probabilities over the vocabulary exist at the same time


@dataclass(frozen=True)
class Outputs:
    """For every decoder state: of one token, its probability, and the gradient of its logarithm."""

    cotangents: Tensor  # (row, target, dim)
    probabilities: Tensor  # (row, target)
    labels: Tensor  # (row, target): the tokens


def outputs_of(model: Seq2Seq, states: Tensor, labels: Tensor, runner_up: bool) -> Outputs:
    """Returns what starts the backward passes of states (row, target, dim), for their ``labels`` (row, target).

    With ``runner_up`` the token is the most probable one that is not the label.
    """
    weight = model.output.weight
    cotangents, probabilities, chosen = [], [], []
    parts = (torch.split(tensor, _POSITIONS_AT_ONCE) for tensor in (states.flatten(0, 1), labels.flatten()))
    for some_states, some_labels in zip(*parts, strict=True):
        scores = torch.softmax(model.logits(some_states), -1)
        if runner_up:
            others = scores.scatter(1, some_labels[:, None], -1.0)
            some_labels = others.argmax(-1)
        cotangents.append(weight[some_labels].addmm_(scores, weight, alpha=-1))
        probabilities.append(scores.gather(1, some_labels[:, None])[:, 0])
        chosen.append(some_labels)
    shape = labels.shape
    return Outputs(
        torch.cat(cotangents).view(*shape, -1), torch.cat(probabilities).view(shape), torch.cat(chosen).view(shape)
    )
