"""Generated texts: neutral words, and keywords of one class, so that it is known which words matter.

The same settings give the same texts on every machine: only ``Random.random`` is used, whose stream Python promises
not to change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from alignlens.classification.reading import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.corpora.labelled import KeywordSettings

_CONSONANTS, _VOWELS = "bdfgklmnprstv", "aeiou"


@dataclass(frozen=True)
class Lexicon:
    """The words of the texts, grouped by the class that they indicate."""

    neutral: tuple[str, ...]
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    ambiguous: tuple[str, ...]

    @classmethod
    def of(cls, settings: KeywordSettings) -> Lexicon:
        """Returns the words that a seed stands for; no word twice."""
        random, known = _stream(settings.seed, "words"), dict[str, None]()
        sizes = (settings.neutral, settings.keywords, settings.keywords, settings.ambiguous)
        while len(known) < sum(sizes):
            known[_word(random)] = None
        rest = iter(known)
        return cls(*(tuple(next(rest) for _ in range(size)) for size in sizes))

    def facts(self) -> dict[str, list[str]]:
        """Returns the words that are not neutral, for the record."""
        return {name: list(getattr(self, name)) for name in ("positive", "negative", "ambiguous")}


def generate(settings: KeywordSettings, split: str) -> list[Text]:
    """Returns the texts of a split: half of them positive, in turn."""
    lexicon, size = Lexicon.of(settings), {"train": settings.train, "dev": settings.dev}[split]
    random = _stream(settings.seed, split)
    return [_text(settings, lexicon, random, positive=number % 2 == 0) for number in range(size)]


def _text(settings: KeywordSettings, lexicon: Lexicon, random: Random, positive: bool) -> Text:
    own, other = (lexicon.positive, lexicon.negative) if positive else (lexicon.negative, lexicon.positive)
    length = settings.min_words + int(random.random() * (settings.max_words - settings.min_words + 1))
    count = 1 + int(random.random() * settings.max_keywords)
    special = [_even(random, own) for _ in range(count)]
    if count > 1 and random.random() < settings.noise:
        special.append(_even(random, other))
    if lexicon.ambiguous and random.random() < settings.ambiguity:
        special.append(_even(random, lexicon.ambiguous))
    words = [_frequent(random, lexicon.neutral) for _ in range(length - len(special))]
    for word in special:
        words.insert(int(random.random() * (len(words) + 1)), word)
    return Text(positive, words)


def _stream(seed: int, part: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(f"alignlens keywords {seed} {part}".encode()).digest()[:8], "big"))


def _word(random: Random) -> str:
    syllables = 2 + int(random.random() * 2)
    return "".join(_even(random, _CONSONANTS) + _even(random, _VOWELS) for _ in range(syllables))


def _even(random: Random, items: Sequence[str]) -> str:
    return items[int(random.random() * len(items))]


def _frequent(random: Random, items: Sequence[str]) -> str:
    """Draws the first words more often than the last, as in any text."""
    return items[int(random.random() ** 2 * len(items))]
