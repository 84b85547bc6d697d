"""Relevance of one model's predictions: what every architecture offers, and where all of them begin and end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from alignlens.attribution.relevance.rules import Rules
    from alignlens.models.contract import Seq2Seq


class Found(NamedTuple):
    """The relevance of all numbers that the network was given, by position of source and prefix."""

    source: Tensor  # (source, row, step, dim)
    prefix: Tensor  # (target, row, step, dim)


class Relevance(ABC):
    """A forward pass of some rows, which is kept, and what of it speaks for tokens that follow the prefixes."""

    #: The rule inside attention that suits the architecture.
    usual_attention: ClassVar[Literal["taylor", "constant"]] = "taylor"

    def __init__(self, model: Any, rules: Rules) -> None:
        self.rules = rules

    @abstractmethod
    def read(self, vectors: Tensor, mask: Tensor, prefix: Tensor) -> Tensor:
        """Returns decoder states (target, row, dim), and keeps what ``propagate`` needs.

        Source vectors (row, source, dim) and prefix vectors (row, target, dim) are those of ``embed_source`` and
        ``embed_target``; ``mask`` (row, source) is True at real positions.
        """

    @abstractmethod
    def propagate(self, relevance: Tensor) -> Found:
        """Returns what the relevance of decoder states, (target, row, step, dim), is made of.

        At a position only the step of the same number has any.
        """


def start(model: Seq2Seq, rules: Rules, states: Tensor, tokens: Tensor, wanted: Tensor) -> Tensor:
    """Returns the relevance of decoder states (target, row, dim) if the score of one token at each of them has 1.

    ``tokens`` and ``wanted`` are (row, target); steps that are not wanted have none.
    """
    weight, bias = model.output.weight[tokens.t()], model.output.bias
    of_states = rules.output("output", states, weight, None if bias is None else bias[tokens.t()])
    of_states = of_states * wanted.t()[..., None]
    target, rows, dim = of_states.shape
    places = torch.arange(target, device=of_states.device)
    relevance = of_states.new_zeros(target, rows, target, dim)
    relevance[places, :, places] = of_states
    return relevance


def by_token(relevance: Tensor) -> Tensor:
    """Returns (row, step, position) of the relevance (position, row, step, dim) of all numbers of a token."""
    return relevance.abs().sum(-1).permute(1, 2, 0)
