"""The output layer's part of a gradient, in closed form: d log p(y) / d state = W_y - sum over v of p(v) W_v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from alignlens.models.contract import Seq2Seq

_PROBABILITIES_AT_ONCE = 2**20  # that exist at the same time: about what a processor's caches hold


@dataclass(frozen=True)
class Outputs:
    """For every decoder state: of one token, its probability, and the gradient of its logarithm."""

    cotangents: Tensor  # (row, target, dim)
    probabilities: Tensor  # (row, target)
    labels: Tensor  # (row, target): the tokens


def outputs_of(model: Seq2Seq, states: Tensor, labels: Tensor, wanted: Tensor, runner_up: bool) -> Outputs:
    """Returns what starts the backward passes of states (row, target, dim), for their ``labels`` (row, target).

    With ``runner_up`` the token is the most probable one that is not the label. Where not ``wanted`` (row, target),
    everything is zero.
    """
    weight = model.output.weight
    flat = states.reshape(-1, states.shape[-1])
    cotangents, probabilities = states.new_zeros(flat.shape), states.new_zeros(len(flat))
    tokens = labels.new_zeros(len(flat))
    at_once = max(64, _PROBABILITIES_AT_ONCE // len(weight))
    for part in torch.split(wanted.flatten().nonzero()[:, 0], at_once):
        scores = torch.softmax(model.logits(flat[part]), -1)
        chosen = labels.flatten()[part]
        if runner_up:
            chosen = scores.scatter(1, chosen[:, None], -1.0).argmax(-1)
        cotangents[part] = weight[chosen].addmm_(scores, weight, alpha=-1)
        probabilities[part] = scores.gather(1, chosen[:, None])[:, 0]
        tokens[part] = chosen
    return Outputs(cotangents.view(states.shape), probabilities.view(labels.shape), tokens.view(labels.shape))
