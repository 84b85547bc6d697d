"""How translations are searched or drawn; plain data, so that reading a configuration loads no tensor library."""

from __future__ import annotations

import math
from dataclasses import dataclass

from alignlens.errors import ConfigError


@dataclass(frozen=True)
class BeamSettings:
    """Beam search.

    Hypotheses are compared by ``log P / length ** length_penalty``, where the length counts the end symbol: 0 is
    plain probability, 1 the mean per token. A translation has at most ``max_ratio * source + max_offset`` pieces,
    where ``source`` is the length of the source as the model reads it, special symbols included; a hypothesis that
    long can only end. ``n_best`` is how many hypotheses of a sentence are wanted.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_ratio: float = 2.0
    max_offset: int = 10
    n_best: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"decoding.beam: {self.beam} must be at least 1.")
        if not 1 <= self.n_best <= self.beam:
            raise ConfigError(f"decoding.n_best: {self.n_best} must lie between 1 and the beam, {self.beam}.")
        if not 0 <= self.length_penalty < math.inf:
            raise ConfigError(f"decoding.length_penalty: {self.length_penalty} must be 0 or more.")
        _check_longest(self.max_ratio, self.max_offset)

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence a model reads at once."""
        return self.beam


@dataclass(frozen=True)
class SamplingSettings:
    """Translations drawn piece by piece from the model's own distribution (ancestral sampling).

    Logits are divided by ``temperature``: 1 is the model, less is sharper. What is drawn for a sentence depends on
    ``seed`` and on the sentence's number, not on its company. Lengths are limited as in ``BeamSettings``.
    """

    samples: int = 1
    temperature: float = 1.0
    seed: int = 1
    max_ratio: float = 2.0
    max_offset: int = 10

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError(f"decoding.samples: {self.samples} must be at least 1.")
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"decoding.temperature: {self.temperature} must be more than 0.")
        if self.seed < 0:
            raise ConfigError(f"decoding.seed: {self.seed} must be 0 or more.")
        _check_longest(self.max_ratio, self.max_offset)

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence a model reads at once."""
        return self.samples


DecodingSettings = BeamSettings | SamplingSettings


def _check_longest(ratio: float, offset: int) -> None:
    if not 0 <= ratio < math.inf:
        raise ConfigError(f"decoding.max_ratio: {ratio} must be 0 or more.")
    if offset < 0 or (offset == 0 and ratio == 0):
        raise ConfigError(f"decoding.max_offset: {offset} must be 0 or more, and not 0 if max_ratio is.")
