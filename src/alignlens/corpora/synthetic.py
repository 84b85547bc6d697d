"""A bitext drawn from a small grammar, with gold links and the true causes of every target word.

The same settings give the same bytes on every machine: only ``Random.random`` is used, whose stream
Python promises not to change, and every sentence has a stream of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from zlib import crc32

from alignlens.corpora import lexicon as lx
from alignlens.corpora.grammar import Clause, Meaning, Phrase, Sentence, express
from alignlens.corpora.lexicon import Lexicon, Noun, Verb, Zipf, build_lexicon
from alignlens.errors import ConfigError, nearest, unknown_name
from alignlens.io.atomic import write_lines

__all__ = ["Sentence", "SyntheticSettings", "candidate_meanings", "generate", "write_corpus"]

Item = TypeVar("Item")

SPLITS = ("train", "dev", "test")
_ATTEMPTS = 2000
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


class _Drawing:
    """Draws one meaning after another from one stream; every random decision of a sentence is taken here."""

    def __init__(self, settings: SyntheticSettings, lexicon: Lexicon, random: Random) -> None:
        self._settings, self._lexicon, self._random = settings, lexicon, random.random
        self._used: list[Noun] = []

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def zipf(self, items: Zipf[Item]) -> Item:
        return items.at(self._random())

    def even(self, items: tuple[Item, ...]) -> Item:
        return items[int(self._random() * len(items))]

    def meaning(self) -> Meaning:
        settings = self._settings
        self._used = []
        main = self.clause()
        conjunction, second, subordinate = None, None, False
        if self.chance(settings.second_clause):
            subordinate = self.chance(0.6)
            conjunction = self.even(lx.SUBORDINATORS if subordinate else lx.COORDINATORS)
            second = self.clause()
        return Meaning(
            main,
            conjunction,
            second,
            subordinate,
            second_last=self.chance(settings.long_moves),
            polite=self.even(lx.POLITE) if self.chance(settings.untranslated) else "",
            polite_first=self.chance(0.5),
            mark=self.even((".", ".", ".", ".", "?", "?", "?", "!", "!", "!")),
            inserted=self.even(lx.INSERTED) if self.chance(settings.insertions) else "",
            inserted_first=self.chance(0.5),
        )

    def clause(self) -> Clause:
        settings, lexicon = self._settings, self._lexicon
        subject = int(self._random() * 4) if self.chance(settings.pronouns) else self.phrase()
        verb, with_object = self.verb()
        has_place = self.chance(settings.places)
        return Clause(
            subject,
            verb,
            self.even(("present", "present", "past", "past", "future")),
            self.phrase() if with_object else None,
            self.chance(settings.negation),
            manner=self.zipf(lexicon.manners) if self.chance(settings.adverbs) else None,
            manner_first=self.chance(0.5),
            time=self.zipf(lexicon.times) if self.chance(settings.adverbs) else None,
            time_last=self.chance(settings.long_moves),
            preposition=self.even(lx.PREPOSITIONS) if has_place else None,
            place=self.phrase() if has_place else None,
            verb_second=self.chance(settings.reordering),
        )

    def verb(self) -> tuple[Verb, bool]:
        """Returns a verb and whether it takes an object."""
        settings, lexicon = self._settings, self._lexicon
        if self.chance(settings.ambiguity):
            return self.zipf(lexicon.ambiguous_verbs), True
        if self.chance(settings.two_words):
            return self.zipf(lexicon.double_verbs), self.chance(0.6)
        if self.chance(settings.merging):
            return self.zipf(lexicon.particle_verbs), True
        if self.chance(0.6):
            return self.zipf(lexicon.transitives), True
        return self.zipf(lexicon.intransitives), False

    def phrase(self) -> Phrase:
        settings, lexicon = self._settings, self._lexicon
        determiner = self.even(_DETERMINERS)
        noun = self.noun()
        return Phrase(
            determiner,
            noun,
            plural=determiner.plural and (not determiner.singular or self.chance(0.35)),
            modifier=self.zipf(lexicon.nouns) if self.chance(settings.merging) else None,
            adjective=self.zipf(lexicon.adjectives) if self.chance(settings.adjectives) else None,
            adjective_first=self.chance(settings.reordering),
        )

    def noun(self) -> Noun:
        settings, lexicon = self._settings, self._lexicon
        if self._used and self.chance(settings.repetition):
            return self._used[int(self._random() * len(self._used))]
        if self.chance(settings.ambiguity):
            noun = self.zipf(lexicon.homonyms)
        elif self.chance(settings.two_words):
            noun = self.zipf(lexicon.double_nouns)
        else:
            noun = self.zipf(lexicon.nouns)
        self._used.append(noun)
        return noun


# The articles are as frequent as all other determiners together, and more.
_DETERMINERS = (lx.DETERMINERS[0],) * 4 + (lx.DETERMINERS[1],) * 2 + (lx.DETERMINERS[2],) * 2 + lx.DETERMINERS[2:]


def _split_of(source: tuple[str, ...]) -> str:
    """Returns the only split that may hold a source sentence, so that splits never share one at any size."""
    bucket = crc32(" ".join(source).encode()) % 6
    return "dev" if bucket == 0 else "test" if bucket == 1 else "train"


def candidate_meanings(settings: SyntheticSettings, split: str, index: int) -> Iterator[Meaning]:
    """Yields the endless candidates for sentence ``index`` of a split, from the stream of that sentence."""
    digest = hashlib.sha256(f"alignlens sentence {settings.seed} {split} {index}".encode()).digest()
    random = Random(int.from_bytes(digest[:8], "big"))
    drawing = _Drawing(settings, build_lexicon(settings.seed, settings.vocabulary), random)
    while True:
        yield drawing.meaning()


def generate(settings: SyntheticSettings, split: str) -> Iterator[Sentence]:
    """Yields the sentence pairs of a split; dev and test hold no source sentence twice."""
    seen: set[tuple[str, ...]] = set()
    for index in range(settings.size(split)):
        for attempt, meaning in enumerate(candidate_meanings(settings, split, index)):
            if attempt == _ATTEMPTS:
                raise ConfigError(
                    f"no new {split} sentence of {settings.min_words} to {settings.max_words} words in {_ATTEMPTS} "
                    f"draws (sentence {index}); widen min_words and max_words, lower {split} or raise vocabulary"
                )
            sentence = express(meaning)
            if not settings.min_words <= len(sentence.source) <= settings.max_words:
                continue
            if _split_of(sentence.source) != split or sentence.source in seen:
                continue
            if split != "train":
                seen.add(sentence.source)
            yield sentence
            break


def gold_line(sentence: Sentence) -> str:
    """Returns the links as ``i-j`` (sure) and ``ipj`` (possible only), sorted."""
    return " ".join(f"{i}{'-' if (i, j) in sentence.sure else 'p'}{j}" for i, j in sorted(sentence.possible))


def causes_line(sentence: Sentence) -> str:
    """Returns one field per target word: its causes with commas between them, or ``-`` for none."""
    return " ".join(",".join(map(str, sorted(positions))) or "-" for positions in sentence.causes)


def write_corpus(settings: SyntheticSettings, directory: Path) -> None:
    """Writes ``{train,dev,test}.{source,target}`` and ``{dev,test}.{gold,causes}``."""
    for split in SPLITS:
        columns: dict[str, list[str]] = {"source": [], "target": []}
        if split != "train":
            columns |= {"gold": [], "causes": []}
        for sentence in generate(settings, split):
            columns["source"].append(" ".join(sentence.source))
            columns["target"].append(" ".join(sentence.target))
            if split != "train":
                columns["gold"].append(gold_line(sentence))
                columns["causes"].append(causes_line(sentence))
        for name, lines in columns.items():
            write_lines(directory / f"{split}.{name}", lines)
