"""The output layer on decoder states: probabilities of tokens, and its part of a gradient.

The latter has a closed form: d log p(y) / d state = W_y - sum over v of p(v) W_v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from alignlens.attribution.room import room

if TYPE_CHECKING:
    from alignlens.models.contract import Seq2Seq

_PROBABILITIES_AT_ONCE = 2**20  # that exist at the same time: about what a processor's caches hold


@dataclass(frozen=True)
class Outputs:
    """For every decoder state: of one token, its probability, and the gradient of its logarithm."""

    cotangents: Tensor  # (row, target, dim)
    probabilities: Tensor  # (row, target)
    labels: Tensor  # (row, target): the tokens


def states_at_once(model: Seq2Seq) -> int:
    """Returns for how many states the probabilities of the vocabulary should exist at the same time."""
    return max(64, room(_PROBABILITIES_AT_ONCE, model.output.weight) // model.output.out_features)


def outputs_of(model: Seq2Seq, states: Tensor, labels: Tensor, wanted: Tensor, runner_up: bool) -> Outputs:
    """Returns what starts the backward passes of states (row, target, dim), for their ``labels`` (row, target).

    With ``runner_up`` the token is the most probable one that is not the label. Where not ``wanted`` (row, target),
    everything is zero.
    """
    weight = model.output.weight
    flat = states.reshape(-1, states.shape[-1])
    cotangents, probabilities = states.new_zeros(flat.shape), states.new_zeros(len(flat))
    tokens = labels.new_zeros(len(flat))
    for part in torch.split(wanted.flatten().nonzero()[:, 0], states_at_once(model)):
        scores = torch.softmax(model.logits(flat[part]), -1)
        chosen = labels.flatten()[part]
        if runner_up:
            chosen = scores.scatter(1, chosen[:, None], -1.0).argmax(-1)
        cotangents[part] = weight[chosen].addmm_(scores, weight, alpha=-1)
        probabilities[part] = scores.gather(1, chosen[:, None])[:, 0]
        tokens[part] = chosen
    return Outputs(cotangents.view(states.shape), probabilities.view(labels.shape), tokens.view(labels.shape))


def log_probabilities(model: Seq2Seq, states: Tensor, labels: Tensor, wanted: Tensor, bias: bool = True) -> Tensor:
    """Returns (row, target, source) of states (row, target, source, dim): log p of the label of the target position.

    ``labels`` are (row, target). States with one target position are those of all. Where not ``wanted`` (row, target,
    source), it is zero. Without ``bias`` that of the output layer is left out. Probabilities of the vocabulary exist
    for some states at a time.
    """
    weight, added = model.output.weight, model.output.bias if bias else None
    asked = wanted if states.shape[1] > 1 else wanted.any(1, keepdim=True)
    labels = labels[:, :, None] if states.shape[1] > 1 else labels[:, None]  # (row, target or 1, those of a state)
    chosen = states.new_zeros(*asked.shape, labels.shape[-1])
    places = (torch.split(each, states_at_once(model)) for each in asked.nonzero(as_tuple=True))
    for row, target, source in zip(*places, strict=True):
        # Not logsumexp: it takes several times as long as all log-probabilities.
        logs = functional.linear(states[row, target, source], weight, added).log_softmax(-1)
        chosen[row, target, source] = logs.gather(1, labels[row, target])
    return (chosen[..., 0] if states.shape[1] > 1 else chosen[:, 0].transpose(1, 2)).where(wanted, 0.0)
