"""Sizes and difficulty of the synthetic bitext; plain data, so that a configuration is checked without the grammar."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import Limits
from alignlens.io.typed import setting

SPLITS = ("train", "dev", "test")
_HELD_OUT = Limits(1, 100_000)
_CHANCE = Limits(0, 1)


@dataclass(frozen=True)
class SyntheticSettings:
    """Sizes and difficulty of the corpus; all but the first seven fields are probabilities."""

    seed: int = setting(1, "Which pair of languages and which sentences.", Limits(0, 2**63 - 1))
    train: int = setting(6000, "Sentence pairs to train on.", Limits(1, 10_000_000))
    dev: int = setting(200, "Sentence pairs to validate on.", _HELD_OUT)
    test: int = setting(300, "Sentence pairs to score.", _HELD_OUT)
    vocabulary: int = setting(140, "Content lemmas of the source language.", Limits(40, 20_000))
    min_words: int = setting(4, "Shortest source sentence, punctuation included.", Limits(3, 40))
    max_words: int = setting(18, "Longest source sentence, punctuation included.", Limits(6, 40))
    reordering: float = setting(
        0.7, "Chance that an adjective or verb stands where the target would not have it.", _CHANCE
    )
    long_moves: float = setting(
        0.35,
        "Chance that a time word or a subordinate clause stands at the end, though the target begins with it.",
        _CHANCE,
    )
    untranslated: float = setting(
        0.2, "Chance that a sentence holds a politeness particle, which the target leaves out.", _CHANCE
    )
    insertions: float = setting(0.05, "Chance of a target particle that nothing in the source caused.", _CHANCE)
    two_words: float = setting(0.12, "Chance that the target says a noun or verb in two words.", _CHANCE)
    merging: float = setting(
        0.12,
        "Chance that a noun is a compound or a verb has a particle: two source words for one target word.",
        _CHANCE,
    )
    ambiguity: float = setting(0.15, "Chance that another word selects the translation of a noun or verb.", _CHANCE)
    repetition: float = setting(0.45, "Chance that a phrase repeats a noun of the same sentence.", _CHANCE)
    adjectives: float = setting(0.3, "Chance that a phrase has an adjective.", _CHANCE)
    places: float = setting(0.3, "Chance that a clause has a prepositional phrase.", _CHANCE)
    adverbs: float = setting(0.25, "Chance of a manner adverb in a clause, and separately of a time word.", _CHANCE)
    negation: float = setting(0.12, "Chance that a clause is negated.", _CHANCE)
    pronouns: float = setting(
        0.15, "Chance that the subject is a pronoun, which only shows in the target verb's ending.", _CHANCE
    )
    second_clause: float = setting(0.3, "Chance that a sentence has a coordinate or subordinate clause.", _CHANCE)

    def __post_init__(self) -> None:
        if self.min_words > self.max_words:
            raise ConfigError(
                f"settings.min_words: {self.min_words} must be at most max_words, which is {self.max_words}"
            )

    def size(self, split: str) -> int:
        """Returns the number of sentence pairs of a split."""
        if split not in SPLITS:
            raise ConfigError(unknown_name("split", split, SPLITS))
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]
