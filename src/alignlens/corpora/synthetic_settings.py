"""Sizes and difficulty of the synthetic bitext; plain data, so that a configuration is checked without the grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from alignlens.errors import ConfigError, nearest, unknown_name

SPLITS = ("train", "dev", "test")
_INTEGER_RANGES = {
    "seed": (0, 2**63 - 1),
    "train": (1, 10_000_000),
    "dev": (1, 100_000),
    "test": (1, 100_000),
    "vocabulary": (40, 20_000),
    "min_words": (3, 40),
    "max_words": (6, 40),
}


@dataclass(frozen=True)
class SyntheticSettings:
    """Sizes and difficulty of the corpus; all but the first seven fields are probabilities."""

    seed: int = 1
    """Which pair of languages and which sentences."""
    train: int = 6000
    """Sentence pairs to train on."""
    dev: int = 200
    """Sentence pairs to validate on."""
    test: int = 300
    """Sentence pairs to score."""
    vocabulary: int = 140
    """Content lemmas of the source language."""
    min_words: int = 4
    """Shortest source sentence, punctuation included."""
    max_words: int = 18
    """Longest source sentence, punctuation included."""
    reordering: float = 0.7
    """That an adjective or a verb stands where the target would not have it."""
    long_moves: float = 0.35
    """That a time word or a subordinate clause stands at the end, though the target begins with it."""
    untranslated: float = 0.2
    """That a sentence holds a politeness particle, which the target leaves out."""
    insertions: float = 0.05
    """That the target holds a particle that nothing in the source caused."""
    two_words: float = 0.12
    """That a noun or verb is of the kind the target says in two words."""
    merging: float = 0.12
    """That a noun is a compound or a verb has a particle: two source words for one target word."""
    ambiguity: float = 0.15
    """That a noun or verb is of the kind whose translation another word selects."""
    repetition: float = 0.45
    """That a phrase repeats a noun of the same sentence."""
    adjectives: float = 0.3
    """That a phrase has an adjective."""
    places: float = 0.3
    """That a clause has a prepositional phrase."""
    adverbs: float = 0.25
    """That a clause has a manner adverb, and apart from that a time word."""
    negation: float = 0.12
    """That a clause is negated."""
    pronouns: float = 0.15
    """That the subject is a pronoun, which only shows in the target verb's ending."""
    second_clause: float = 0.3
    """That a sentence has a coordinate or subordinate clause."""

    def __post_init__(self) -> None:
        """Raises for a value of the wrong type or outside its range."""
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _INTEGER_RANGES.get(field.name, (0, 1))
            integer = field.name in _INTEGER_RANGES
            types = int if integer else (int, float)
            if isinstance(value, bool) or not isinstance(value, types) or not low <= value <= high:
                kind = "an integer" if integer else "a number"
                raise ConfigError(f"synthetic setting {field.name} is {value!r}; use {kind} from {low} to {high}")
        if self.min_words > self.max_words:
            raise ConfigError(
                f"synthetic setting min_words is {self.min_words}; use an integer from 3 to max_words, "
                f"which is {self.max_words}"
            )

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> SyntheticSettings:
        """Returns the settings of ``mapping``, with defaults for what it leaves out."""
        names = [field.name for field in fields(cls)]
        for key in mapping:
            if key not in names:
                known = ", ".join(names)
                raise ConfigError(f"unknown synthetic setting {key!r}{nearest(str(key), names)}; known: {known}")
        return cls(**mapping)

    def size(self, split: str) -> int:
        """Returns the number of sentence pairs of a split."""
        if split not in SPLITS:
            raise ConfigError(unknown_name("split", split, SPLITS))
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]
