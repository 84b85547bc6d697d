"""Chooses the propagation of a model, and runs it on some sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alignlens.attribution.outputs import states_at_once
from alignlens.attribution.relevance.calibrated import CalibratedRelevance
from alignlens.attribution.relevance.contract import Relevance, by_token, start
from alignlens.attribution.relevance.fconv import FconvRelevance
from alignlens.attribution.relevance.lstm import LstmRelevance
from alignlens.attribution.relevance.transformer import TransformerRelevance
from alignlens.attribution.rows import check_finite
from alignlens.attribution.spec import Contributions
from alignlens.errors import ConfigError
from alignlens.models.calibrated import Calibrated
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.relevance.rules import Rules
    from alignlens.models.contract import Seq2Seq

#: By the exact class of the model: a subclass may compute something else.
RELEVANCE: dict[type[Seq2Seq], type[Relevance]] = {
    Transformer: TransformerRelevance,
    Calibrated: CalibratedRelevance,
    Lstm: LstmRelevance,
    Fconv: FconvRelevance,
}
_NUMBERS_AT_ONCE = 1 << 25  # of one tensor of relevances, as far as a single sentence is not larger
_WIDEST = 4  # times the width of token vectors: feed-forward nets, windows


def relevance_of(model: Seq2Seq) -> type[Relevance]:
    """Returns the propagation of a model."""
    if type(model) not in RELEVANCE:
        raise ConfigError(f"relevance propagation has no rules for models of class {type(model).__name__}.")
    return RELEVANCE[type(model)]


def contributions(inputs: Inputs, rules: Rules, label: str) -> Contributions:
    """Returns the relevance of source tokens and of the prefix for every target position.

    ``label`` says what is explained: the ``reference``, the ``top`` token of the model, or the ``runner_up``, its best
    other than the reference.
    """
    model, kind = inputs.model, relevance_of(inputs.model)
    (rows, target), source = inputs.labels.shape, inputs.source.shape[1]
    at_once = max(1, _NUMBERS_AT_ONCE // (target * max(source, target) * _WIDEST * inputs.vectors.shape[2]))
    relevance, parts = kind(model, rules), []
    for some in torch.split(torch.arange(rows, device=inputs.labels.device), at_once):
        states = relevance.read(inputs.vectors[some], inputs.source_mask[some], inputs.prefix_vectors[some])
        wanted = inputs.wanted[some] & inputs.labels_mask[some]
        tokens = _tokens(model, states, inputs.labels[some], label)
        parts.append([by_token(each) for each in relevance.propagate(start(model, rules, states, tokens, wanted))])
    sides = [torch.cat(each) for each in zip(*parts, strict=True)]
    for side in sides:
        check_finite(side, "relevances")
    inputs.statistics.forward_passes += rows
    inputs.statistics.backward_passes += int((inputs.wanted & inputs.labels_mask).sum())
    return Contributions(*sides)


def _tokens(model: Seq2Seq, states: Tensor, labels: Tensor, label: str) -> Tensor:
    """Returns (row, target): the tokens whose scores are explained."""
    if label == "reference":
        return labels
    flat, references = states.transpose(0, 1).flatten(0, 1), labels.flatten()
    best = []
    for some in torch.split(torch.arange(len(flat), device=labels.device), states_at_once(model)):
        logits = model.logits(flat[some])
        if label == "runner_up":
            logits = logits.scatter(1, references[some, None], float("-inf"))
        best.append(logits.argmax(-1))
    return torch.cat(best).view(labels.shape)
