"""The keyword task: several classifiers with uniform attention as one, and where their evidence stands.

The score of a text is the mean over positions of gamma_l = w . h_l + b, with h_l the states of an LSTM of one or two
directions; it is positive where the keyword is said to occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from alignlens.toys.recurrence import Workspace, lstm
from alignlens.toys.samples import draw_questions
from alignlens.toys.seeding import seeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from alignlens.toys.settings import KeywordSettings

_SUFFIXES = ("", "_reverse")


@dataclass(frozen=True, eq=False)
class Texts:
    """Samples of several models."""

    words: Tensor  # (model, position, row)
    positive: Tensor  # (model, row): 1 where the keyword occurs
    places: Tensor  # (model, row): where it is


def initial_weights(settings: KeywordSettings, directions: int, seed: int) -> dict[str, Tensor]:
    """Returns what a classifier of this seed starts from."""
    with seeded(seed):
        parts = nn.ModuleDict(
            {
                "table": nn.Embedding(settings.vocabulary, settings.dim),
                "encoder": nn.LSTM(settings.dim, settings.hidden, bidirectional=directions == len(_SUFFIXES)),
                "score": nn.Linear(directions * settings.hidden, 1),
            }
        )
    return {name: parameter.detach() for name, parameter in parts.named_parameters()}


class Classifiers:
    """Several classifiers of the same shape."""

    def __init__(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        self.weights = {name: torch.stack([each[name] for each in weights]).requires_grad_() for name in weights[0]}
        self._space = Workspace()

    def losses(self, batch: Texts) -> Tensor:
        """Returns the mean cross-entropy of every model."""
        scores = self.evidence(batch.words).mean(1)
        return functional.binary_cross_entropy_with_logits(scores, batch.positive, reduction="none").mean(1)

    def evidence(self, words: Tensor) -> Tensor:
        """Returns gamma of all positions, (model, position, row)."""
        directions = [suffix for suffix in _SUFFIXES if f"encoder.weight_ih_l0{suffix}" in self.weights]
        summed = self.weights["score.bias"][:, :, None]
        parts = self.weights["score.weight"].chunk(len(directions), 2)
        for suffix, part in zip(directions, parts, strict=True):
            states = self._states(words, suffix)
            added = torch.bmm(states.flatten(1, 2), part.transpose(1, 2)).view(words.shape)
            summed = summed + (added.flip(1) if suffix else added)
        return summed

    def _states(self, words: Tensor, suffix: str) -> Tensor:
        """Returns the states in the order in which the direction reads."""
        inputs, recurrent, first, second = (
            self.weights[f"encoder.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = torch.baddbmm((first + second)[:, None], self.weights["table.weight"], inputs.transpose(1, 2))
        name = f"encoder{suffix}"
        return lstm(gates, recurrent, words.flip(1) if suffix else words, None, self._space, name)[0]


class KeywordLesson:
    """Where the evidence of texts with the keyword stands: at it, after it, in the mean, and at the end."""

    measures: tuple[str, ...] = ("keyword", "next", "mean", "last", "accuracy")

    def __init__(self, settings: KeywordSettings) -> None:
        self.settings = settings

    def build(self, weights: Sequence[Mapping[str, Tensor]]) -> Classifiers:
        """Returns the stacked models."""
        return Classifiers(weights)

    def batch(self, seeds: Sequence[int], step: int, evaluation: bool) -> Texts:
        """Returns the samples of a step."""
        drawn = [draw_questions(self.settings, seed, step, evaluation) for seed in seeds]
        return Texts(
            torch.from_numpy(np.stack([each.words.T for each in drawn])),
            torch.from_numpy(np.stack([each.positive for each in drawn])).float(),
            torch.from_numpy(np.stack([each.places for each in drawn])),
        )

    def measured(self, models: Classifiers, batch: Texts) -> dict[str, Tensor]:
        """Returns the means over texts with the keyword, and the accuracy on all.

        Texts that end with the keyword have nothing after it. Where it stands near the end, the last state has just
        read it, which says nothing about how long it is remembered.
        """
        evidence, length = models.evidence(batch.words).double(), batch.words.shape[1]
        right = (evidence.mean(1) > 0) == (batch.positive > 0)
        has, places = batch.positive > 0, batch.places
        after = evidence.gather(1, (places + 1).clamp(max=length - 1)[:, None])[:, 0]
        early = has & (places < length - self.settings.near_end)
        return {
            "keyword": _mean(evidence.gather(1, places[:, None])[:, 0], has),
            "next": _mean(after, has & (places < length - 1)),
            "mean": _mean(evidence.mean(1), has),
            "last": _mean(evidence[:, -1], early),
            "accuracy": right.double().mean(1),
        }


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Returns the mean of the chosen values (model, row) of each model."""
    return (values * chosen).sum(1) / chosen.sum(1)
