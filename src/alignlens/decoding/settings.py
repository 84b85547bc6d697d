"""How translations are searched or drawn; plain data, so that reading a configuration loads no tensor library."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.errors import ConfigError
from alignlens.io.limits import BEAM, DRAWS, LENGTH_PENALTY, MAX_OFFSET, MAX_RATIO, SEED, TEMPERATURE, Limits


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
        _check("beam", self.beam, BEAM)
        if not 1 <= self.n_best <= self.beam:
            raise ConfigError(f"decoding.n_best: {self.n_best} must lie between 1 and the beam, {self.beam}.")
        _check("length_penalty", self.length_penalty, LENGTH_PENALTY)
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
        _check("samples", self.samples, DRAWS)
        _check("temperature", self.temperature, TEMPERATURE)
        _check("seed", self.seed, SEED)
        _check_longest(self.max_ratio, self.max_offset)

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence a model reads at once."""
        return self.samples


DecodingSettings = BeamSettings | SamplingSettings


def _check_longest(ratio: float, offset: int) -> None:
    _check("max_ratio", ratio, MAX_RATIO)
    _check("max_offset", offset, MAX_OFFSET)
    if offset == 0 and ratio == 0:
        raise ConfigError("decoding.max_offset: 0 must be more than 0 where max_ratio is 0.")


def _check(key: str, value: float, limits: Limits) -> None:
    if value not in limits:
        raise ConfigError(f"decoding.{key}: {value} must lie {limits}.")
