"""What an objective is: the losses of a micro-batch, the parameters that follow each, and where its numbers come from.

The loop knows nothing else about it. An objective may read a batch in a changed form, ask the model several times, draw
translations from it, have parameters of its own, and let some parameters follow another loss than others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from alignlens.corpora.batches import Batch
    from alignlens.corpora.tokens import TokenStore
    from alignlens.models.contract import Seq2Seq
    from alignlens.models.settings import ModelSpec
    from alignlens.training.settings import TrainingSettings


@dataclass(frozen=True)
class Material:
    """What an objective is built from, besides its options."""

    spec: ModelSpec
    training: TrainingSettings
    source: TokenStore  # the training text
    target: TokenStore


@dataclass(frozen=True)
class Moment:
    """Identifies a micro-batch of a training; all random numbers derive from it, so that stopping changes none.

    The loop seeds torch's generator from it before the objective is asked: dropout needs nothing else.
    """

    seed: int
    update: int
    place: int  # among the micro-batches of the update

    @property
    def torch_seed(self) -> int:
        """Returns a number for torch, distinct for distinct moments of any practical size."""
        # torch takes 64 bits; only seeds of ten digits have more.
        return ((self.seed * 1_000_003 + self.update) * 10_007 + self.place) % 2**64

    def generator(self, purpose: str) -> np.random.Generator:
        """Returns numbers for one purpose: drawing them changes neither dropout nor those for another purpose."""
        return np.random.default_rng([self.seed, self.update, self.place, crc32(purpose.encode())])


@dataclass(frozen=True)
class Player:
    """Parameters that minimise a loss of their own, with a gradient norm of their own."""

    parameters: tuple[nn.Parameter, ...]
    rate: float = 1.0  # what the learning rate is multiplied with


@dataclass(frozen=True)
class Outcome:
    """Losses and measures of a micro-batch: sums, which the loop divides by the ``count`` of the whole update."""

    losses: Mapping[str, Tensor]  # by player
    measured: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # sum and number, by metric


class Objective(nn.Module, ABC):
    """One objective; its parameters, if it has any, are saved with the training and beside the model.

    What it keeps between updates but does not train must be a parameter without gradient, or resuming would lose it; it
    must not depend on micro-batches that another process sees.
    """

    #: What it measures besides the loss; mean values are in the curves as ``train_NAME``.
    metrics: ClassVar[tuple[str, ...]] = ()
    #: What ``validation`` measures; in the curves as ``dev_NAME``.
    dev_metrics: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Any, material: Material) -> None:
        super().__init__()
        self.options = options
        self._smoothing = material.training.label_smoothing
        self._precision = material.training.precision

    @abstractmethod
    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns losses and measures of a micro-batch; ``model`` is in training mode, before and after."""

    def players(self, model: Seq2Seq) -> dict[str, Player]:
        """Returns the players by name; the loss of the first is the training loss. No parameter belongs to two."""
        return {"model": Player(tuple(each for each in model.parameters() if each.requires_grad))}

    def count(self, batch: Batch) -> int:
        """Returns what the losses of a batch are divided by, known before it is computed: its labels."""
        return batch.target_tokens

    def validation(self, model: Seq2Seq, batches: Iterable[Batch]) -> Mapping[str, float]:
        """Returns measures of pairs of the dev text, the same for the same weights; ``model`` is in evaluation mode."""
        return {}

    def in_precision(self, model: Seq2Seq) -> torch.autocast:
        """Returns a context in which a model computes in the precision of the training."""
        device = next(model.parameters()).device
        return torch.autocast(device.type, getattr(torch, self._precision), enabled=self._precision != "float32")

    def logits(self, model: Seq2Seq, batch: Batch) -> Tensor:
        """Returns (labels, vocabulary) in the precision of the training."""
        device = model.output.weight.device
        with self.in_precision(model):
            logits: Tensor = model(
                torch.from_numpy(batch.source).to(device),
                torch.from_numpy(batch.source_mask).to(device),
                torch.from_numpy(batch.prefix).to(device),
                torch.from_numpy(batch.labels_mask).to(device),
            )
        return logits
