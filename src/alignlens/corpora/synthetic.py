"""A bitext drawn from a small grammar, with gold links and the true causes of every target word.

The same settings give the same bytes on every machine: only ``Random.random`` is used, whose stream
Python promises not to change, and every sentence has a stream of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TypeVar
from zlib import crc32

from alignlens.corpora import lexicon as lx
from alignlens.corpora.grammar import Clause, Meaning, Phrase, Sentence, express
from alignlens.corpora.lexicon import Lexicon, Noun, Verb, Zipf, build_lexicon
from alignlens.corpora.synthetic_settings import SPLITS, SyntheticSettings
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_lines

__all__ = ["Sentence", "SyntheticSettings", "candidate_meanings", "generate", "write_corpus"]

Item = TypeVar("Item")

_ATTEMPTS = 2000


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
