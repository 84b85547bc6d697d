"""How translations are searched or drawn; plain data, so that reading a configuration loads no tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignlens.errors import ConfigError
from alignlens.io.limits import (
    BATCH_TOKENS,
    BEAM,
    DRAWS,
    LENGTH_PENALTY,
    MAX_OFFSET,
    MAX_RATIO,
    SEED,
    TEMPERATURE,
    Limits,
)
from alignlens.io.typed import check_limits, setting

#: What sacreBLEU splits text with; part of its signature.
Tokenizer = Literal["13a", "none", "intl", "char", "zh"]


@dataclass(frozen=True)
class BeamSettings:
    """Beam search.

    Hypotheses are compared by ``log P / length ** length_penalty``, where the length counts the end symbol: 0 is
    plain probability, 1 the mean per token. A translation has at most ``max_ratio * source + max_offset`` pieces,
    where ``source`` is the length of the source as the model reads it, special symbols included; a hypothesis that
    long can only end. ``n_best`` is how many hypotheses of a sentence are wanted.
    """

    beam: int = setting(
        5,
        "Hypotheses kept at every step; 1 is greedy search.",
        BEAM,
        "every hypothesis is a row of the batch in memory",
    )
    length_penalty: float = setting(
        1.0,
        "Log probabilities are compared after division by length to this power: 0 favours short "
        "translations, 1 is the mean per piece.",
        LENGTH_PENALTY,
        "a float cannot hold a length to a higher power",
    )
    max_ratio: float = setting(
        2.0,
        "A translation has at most `max_ratio` × source pieces + `max_offset` pieces.",
        MAX_RATIO,
        "no language needs a larger ratio",
    )
    max_offset: int = setting(
        10, "See `decoding.max_ratio`.", MAX_OFFSET, "a translation that never ends takes that many steps"
    )
    n_best: int = 1

    def __post_init__(self) -> None:
        check_limits(self, "decoding")
        if not 1 <= self.n_best <= self.beam:
            raise ConfigError(f"decoding.n_best: {self.n_best} must lie between 1 and the beam, {self.beam}.")
        _check_longest(self.max_ratio, self.max_offset)

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence a model reads at once."""
        return self.beam


@dataclass(frozen=True)
class TranslationSettings(BeamSettings):
    """How the models of a configuration translate the test text, and how that is scored."""

    batch_tokens: int = setting(
        4000,
        "Most padded source pieces of a batch; lower it if memory runs out. Translations do not depend on it.",
        BATCH_TOKENS,
        "a whole batch must fit in memory",
    )
    bleu_tokenize: Tokenizer = setting(
        "none",
        "Tokeniser of sacreBLEU: `none` (prepared text is already tokenised), `13a`, `intl`, `char` or `zh`; it "
        "is part of the signature.",
    )


@dataclass(frozen=True)
class SamplingSettings:
    """Translations drawn piece by piece from the model's own distribution (ancestral sampling).

    Logits are divided by ``temperature``: 1 is the model, less is sharper. What is drawn for a sentence depends on
    ``seed`` and on the sentence's number, not on its company. Lengths are limited as in ``BeamSettings``.
    """

    samples: int = 1
    temperature: float = 1.0
    seed: int = 1
    max_ratio: float = BeamSettings.max_ratio
    max_offset: int = BeamSettings.max_offset

    def __post_init__(self) -> None:
        _check("samples", self.samples, DRAWS)
        _check("temperature", self.temperature, TEMPERATURE)
        _check("seed", self.seed, SEED)
        _check("max_ratio", self.max_ratio, MAX_RATIO)
        _check("max_offset", self.max_offset, MAX_OFFSET)
        _check_longest(self.max_ratio, self.max_offset)

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence a model reads at once."""
        return self.samples


DecodingSettings = BeamSettings | SamplingSettings


def _check_longest(ratio: float, offset: int) -> None:
    if offset == 0 and ratio == 0:
        raise ConfigError("decoding.max_offset: 0 must be more than 0 where max_ratio is 0.")


def _check(key: str, value: float, limits: Limits) -> None:
    if value not in limits:
        raise ConfigError(f"decoding.{key}: {value} must lie {limits}.")
