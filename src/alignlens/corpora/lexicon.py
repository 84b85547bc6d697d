"""The words of the two invented languages: Velnish (source) and Okaru (target).

Every Velnish word ends in a consonant and every Okaru word in a vowel, so no word belongs to both.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Item = TypeVar("Item")

# Velnish function words and endings.
DEFINITE, INDEFINITE = "vim", "es"
PRONOUNS = ("zam", "zamit", "hes", "hesit")  # first singular, first plural, third singular, third plural
FUTURE, NOT = "wol", "nuk"
POLITE = ("plim", "dosk", "shen")
SOURCE_PLURAL = "en"
SOURCE_TENSE = {"present": "is", "past": "ut", "future": ""}

# Okaru function words and endings; pairs are (gender 0, gender 1), inner pairs (singular, plural).
TARGET_DEFINITE = (("se", "sei"), ("sa", "sai"))
SUBJECT_MARKER = ("ga", "go")
OBJECT_MARKER = (("wo", "woi"), ("ne", "nei"))  # by the kind of the verb, then by number
LINKER = "i"
TARGET_NOT = ("ma", "bo")
INSERTED = ("yo", "ela", "hui")
TARGET_PLURAL = "ri"
ADJECTIVE_ENDING = (("na", "nai"), ("ko", "koi"))
TARGET_TENSE = {"present": "", "past": "ra", "future": "lu"}
PERSON_ENDING = ("mi", "mu", "te", "ta")  # in the order of PRONOUNS
LIGHT_VERBS = ("hako", "zemu", "doni")
CLASSIFIERS = ("kane", "molo", "tibu")

_VOWELS = tuple("aeiou")
_ONSETS = (*"bdfghklmnprstvwz", "br", "dr", "fl", "gr", "kl", "kr", "pr", "sk", "st", "tr")
_INNER_CODAS = ("", "", *"lmnrs")
_CODAS = (*"bdfgklmnprst", "lk", "ld", "mp", "nd", "nk", "rm", "rt", "sk", "st")
_TARGET_CONSONANTS = tuple("bdfghjklmnprstwyz")


class Sense(NamedTuple):
    """One Okaru translation of a noun, and its grammatical gender (0 or 1)."""

    stem: str
    gender: int


class Noun(NamedTuple):
    """A noun; with two senses the kind of the clause's verb selects one, with a classifier it is two words."""

    source: str
    senses: tuple[Sense, ...]
    animate: int
    classifier: str = ""


class Verb(NamedTuple):
    """A verb; with two stems its object selects one, with a particle or preverb it is two words on one side."""

    source: str
    stems: tuple[str, ...]
    kind: int
    particle: str = ""
    preverb: str = ""


class Word(NamedTuple):
    """A word with one translation whatever its context (adjectives: stems)."""

    source: str
    target: str


class Determiner(NamedTuple):
    """A determiner and the numbers it may stand with; the articles have no ``target`` of their own."""

    source: str
    target: str
    singular: bool
    plural: bool


DETERMINERS = (
    Determiner(DEFINITE, "", True, True),
    Determiner(INDEFINITE, "", True, False),
    Determiner("drul", "hiko", True, True),
    Determiner("polk", "tuma", True, False),
    Determiner("sket", "zobe", False, True),
    Determiner("twan", "rini", False, True),
)
PREPOSITIONS = (Word("ip", "uke"), Word("ors", "tano"), Word("fand", "fira"), Word("gel", "mopa"))
COORDINATORS = (Word("ont", "zoto"),)
SUBORDINATORS = (Word("bik", "dake"), Word("kwar", "yubi"))
PARTICLES = ("uv", "ast", "rog")


class Zipf(Generic[Item]):
    """Items drawn with weight 1 / (rank + 2), rank from one, in integers so that every machine draws the same."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(items)
        self._cumulative = list(accumulate(10**9 // (rank + 3) for rank in range(len(self.items))))

    def at(self, fraction: float) -> Item:
        """Returns the item at ``fraction`` (0 <= fraction < 1) of the total weight."""
        return self.items[bisect_right(self._cumulative, int(fraction * self._cumulative[-1]))]


class Lexicon(NamedTuple):
    """The content words, by what they do in a sentence; most frequent first."""

    nouns: Zipf[Noun]
    homonyms: Zipf[Noun]
    double_nouns: Zipf[Noun]
    transitives: Zipf[Verb]
    intransitives: Zipf[Verb]
    ambiguous_verbs: Zipf[Verb]
    double_verbs: Zipf[Verb]
    particle_verbs: Zipf[Verb]
    adjectives: Zipf[Word]
    manners: Zipf[Word]
    times: Zipf[Word]


class _Coiner:
    """Makes new words; a stem is refused if one of its inflected forms already exists."""

    def __init__(self, seed: int) -> None:
        digest = hashlib.sha256(f"alignlens lexicon {seed}".encode()).digest()
        self._random = Random(int.from_bytes(digest[:8], "big")).random
        self._taken = {DEFINITE, INDEFINITE, FUTURE, NOT, LINKER, *PRONOUNS, *POLITE, *PARTICLES}
        self._taken |= {*TARGET_NOT, *INSERTED, *CLASSIFIERS, *SUBJECT_MARKER}
        for forms in (*TARGET_DEFINITE, *OBJECT_MARKER):
            self._taken.update(forms)
        for word in (*DETERMINERS, *PREPOSITIONS, *COORDINATORS, *SUBORDINATORS):
            self._taken |= {word.source, word.target}
        for stem in LIGHT_VERBS:
            self._taken.update(stem + ending for ending in _VERB_ENDINGS)

    def bit(self) -> int:
        """Returns 0 or 1."""
        return int(self._random() * 2)

    def one_of(self, options: Sequence[str]) -> str:
        """Returns one of ``options``, all equally likely."""
        return options[int(self._random() * len(options))]

    def source(self, endings: Sequence[str] = ("",)) -> str:
        """Returns a new Velnish stem of one or two syllables."""
        while True:
            stem = self.one_of(_ONSETS) + self.one_of(_VOWELS) + self.one_of(_CODAS)
            if self.bit():
                stem = self.one_of(_ONSETS) + self.one_of(_VOWELS) + self.one_of(_INNER_CODAS) + stem
            if self._take(stem, endings):
                return stem

    def target(self, endings: Sequence[str] = ("",)) -> str:
        """Returns a new Okaru stem of two or three open syllables."""
        while True:
            stem = "".join(self.one_of(_TARGET_CONSONANTS) + self.one_of(_VOWELS) for _ in range(2 + self.bit()))
            if self._take(stem, endings):
                return stem

    def _take(self, stem: str, endings: Sequence[str]) -> bool:
        forms = [stem + ending for ending in endings]
        if any(form in self._taken for form in forms):
            return False
        self._taken.update(forms)
        return True


_NOUN_ENDINGS = ("", TARGET_PLURAL)
_VERB_ENDINGS = tuple(tense + person for tense in TARGET_TENSE.values() for person in PERSON_ENDING)
_GENDER_AND_ANIMACY = ((0, 0), (1, 1), (0, 1), (1, 0))
_ADJECTIVE_ENDINGS = tuple(ending for forms in ADJECTIVE_ENDING for ending in forms)


@lru_cache(maxsize=8)
def build_lexicon(seed: int, vocabulary: int) -> Lexicon:
    """Returns the lexicon of ``vocabulary`` content lemmas (at least 40) that belongs to ``seed``."""
    coin = _Coiner(seed)

    # Features go round instead of being drawn: every class, however small, has every contrast.
    def noun(rank: int, senses: int, classified: bool) -> Noun:
        gender, animate = _GENDER_AND_ANIMACY[rank % 4]
        # The two senses differ in gender, so the verb that selects one shows in the agreement too.
        translations = tuple(Sense(coin.target(_NOUN_ENDINGS), (gender + sense) % 2) for sense in range(senses))
        classifier = CLASSIFIERS[rank % len(CLASSIFIERS)] if classified else ""
        return Noun(coin.source(("", SOURCE_PLURAL)), translations, animate, classifier)

    def verb(rank: int, stems: int, doubled: bool) -> Verb:
        source = coin.source(tuple(SOURCE_TENSE.values()))
        if doubled:
            return Verb(source, (LIGHT_VERBS[rank % len(LIGHT_VERBS)],), rank % 2, preverb=coin.target())
        return Verb(source, tuple(coin.target(_VERB_ENDINGS) for _ in range(stems)), rank % 2)

    def word(endings: Sequence[str]) -> Word:
        return Word(coin.source(), coin.target(endings))

    nouns, verbs, adjectives = vocabulary * 40 // 100, vocabulary * 30 // 100, vocabulary * 15 // 100
    manners = (vocabulary - nouns - verbs - adjectives) // 2
    times = vocabulary - nouns - verbs - adjectives - manners
    few_nouns, few_verbs = nouns // 8, verbs // 6
    intransitive = (verbs - 2 * few_verbs) * 2 // 5
    transitives = [verb(rank, 1, False) for rank in range(verbs - 2 * few_verbs - intransitive)]
    # A particle verb shares its first word with a plain verb, so the particle decides what both mean.
    particle_verbs = [
        Verb(plain.source, (coin.target(_VERB_ENDINGS),), plain.kind, particle=PARTICLES[rank % len(PARTICLES)])
        for rank, plain in enumerate(transitives[1::3])
    ]
    return Lexicon(
        Zipf(noun(rank, 1, False) for rank in range(nouns - 2 * few_nouns)),
        Zipf(noun(rank, 2, False) for rank in range(few_nouns)),
        Zipf(noun(rank, 1, True) for rank in range(few_nouns)),
        Zipf(transitives),
        Zipf(verb(rank, 1, False) for rank in range(intransitive)),
        Zipf(verb(rank, 2, False) for rank in range(few_verbs)),
        Zipf(verb(rank, 1, True) for rank in range(few_verbs)),
        Zipf(particle_verbs),
        Zipf(word(_ADJECTIVE_ENDINGS) for _ in range(adjectives)),
        Zipf(word(("",)) for _ in range(manners)),
        Zipf(word(("",)) for _ in range(times)),
    )
