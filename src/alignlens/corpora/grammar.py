"""From a meaning to a sentence pair: what is said in both languages, and which word caused which.

A meaning is drawn in ``synthetic``; everything here is a function of it, so that changing one part of
a meaning and saying it again shows what that part causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from alignlens.corpora import lexicon as lx
from alignlens.corpora.lexicon import Determiner, Noun, Verb, Word


@dataclass(frozen=True)
class Sentence:
    """A sentence pair with its links (0-based, source first) and the causes of every target word."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]  # includes the sure links
    causes: tuple[frozenset[int], ...]


class Phrase(NamedTuple):
    """A noun with what belongs to it; ``modifier`` is the first half of a compound."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    modifier: Noun | None = None
    adjective: Word | None = None
    adjective_first: bool = True


class Clause(NamedTuple):
    """Who does what; the booleans choose between the word orders of the source language."""

    subject: Phrase | int  # an int is a pronoun: its place in ``lexicon.PRONOUNS``
    verb: Verb
    tense: str
    object: Phrase | None = None
    negated: bool = False
    manner: Word | None = None
    manner_first: bool = False
    time: Word | None = None
    time_last: bool = False
    preposition: Word | None = None
    place: Phrase | None = None
    verb_second: bool = True


class Meaning(NamedTuple):
    """One or two clauses and what surrounds them."""

    main: Clause
    conjunction: Word | None = None
    second: Clause | None = None
    subordinate: bool = False
    second_last: bool = True  # a subordinate clause may also stand first in the source
    polite: str = ""
    polite_first: bool = False
    mark: str = "."
    inserted: str = ""
    inserted_first: bool = False


class _HeardPhrase(NamedTuple):
    determiner: int
    noun: int
    modifier: int | None
    adjective: int | None


class _HeardClause(NamedTuple):
    subject: _HeardPhrase
    verb: int
    particle: int | None
    future: int | None
    negation: int | None
    object: _HeardPhrase | None
    manner: int | None
    time: int | None
    preposition: int | None
    place: _HeardPhrase | None


class _Speaker:
    """Collects both sides word by word: first all of the source, then the target with its reasons."""

    def __init__(self) -> None:
        self.source: list[str] = []
        self.target: list[str] = []
        self.sure: list[tuple[int, int]] = []
        self.possible: list[tuple[int, int]] = []
        self.causes: list[frozenset[int]] = []

    def hear(self, word: str) -> int:
        """Returns the position of a new source word."""
        self.source.append(word)
        return len(self.source) - 1

    def say(
        self, word: str, sure: tuple[int, ...] = (), possible: tuple[int, ...] = (), others: tuple[int, ...] = ()
    ) -> None:
        """Adds a target word; ``others`` are causes that no annotator would link."""
        here = len(self.target)
        self.target.append(word)
        self.sure.extend((i, here) for i in sure)
        self.possible.extend((i, here) for i in possible)
        self.causes.append(frozenset(sure + possible + others))

    def hear_phrase(self, phrase: Phrase) -> _HeardPhrase:
        determiner = self.hear(phrase.determiner.source)
        adjective = modifier = None
        if phrase.adjective and phrase.adjective_first:
            adjective = self.hear(phrase.adjective.source)
        if phrase.modifier:
            modifier = self.hear(phrase.modifier.source)
        noun = self.hear(phrase.noun.source + (lx.SOURCE_PLURAL if phrase.plural else ""))
        if phrase.adjective and not phrase.adjective_first:
            adjective = self.hear(phrase.adjective.source)
        return _HeardPhrase(determiner, noun, modifier, adjective)

    def hear_clause(self, clause: Clause) -> _HeardClause:
        future = negation = manner = time = preposition = place = heard_object = particle = None
        if clause.time and not clause.time_last:
            time = self.hear(clause.time.source)
        if isinstance(clause.subject, int):
            pronoun = self.hear(lx.PRONOUNS[clause.subject])
            subject = _HeardPhrase(pronoun, pronoun, None, None)
        else:
            subject = self.hear_phrase(clause.subject)
        if clause.object and not clause.verb_second:
            heard_object = self.hear_phrase(clause.object)
        if clause.tense == "future":
            future = self.hear(lx.FUTURE)
        if clause.negated:
            negation = self.hear(lx.NOT)
        if clause.manner and clause.manner_first:
            manner = self.hear(clause.manner.source)
        verb = self.hear(clause.verb.source + lx.SOURCE_TENSE[clause.tense])
        if clause.object and clause.verb_second:
            heard_object = self.hear_phrase(clause.object)
        if clause.manner and not clause.manner_first:
            manner = self.hear(clause.manner.source)
        if clause.preposition and clause.place:
            preposition = self.hear(clause.preposition.source)
            place = self.hear_phrase(clause.place)
        if clause.verb.particle:
            particle = self.hear(clause.verb.particle)
        if clause.time and clause.time_last:
            time = self.hear(clause.time.source)
        return _HeardClause(subject, verb, particle, future, negation, heard_object, manner, time, preposition, place)

    def say_phrase(self, phrase: Phrase, heard: _HeardPhrase, verb: Verb, verb_at: int) -> tuple[int, tuple[int, ...]]:
        """Says a phrase; returns its gender, and the position of the verb if that chose the sense."""
        ambiguous = len(phrase.noun.senses) == 2
        sense = phrase.noun.senses[verb.kind if ambiguous else 0]
        selector = (verb_at,) if ambiguous else ()
        if phrase.determiner.target:
            self.say(phrase.determiner.target, (heard.determiner,))
        word = sense.stem + (lx.TARGET_PLURAL if phrase.plural else "")
        if phrase.modifier and heard.modifier is not None:
            self.say(phrase.modifier.senses[0].stem + word, (heard.modifier, heard.noun), (), selector)
        else:
            self.say(word, (heard.noun,), (), selector)
        if phrase.noun.classifier:
            self.say(phrase.noun.classifier, (heard.noun,))
        if phrase.adjective and heard.adjective is not None:
            self.say(lx.LINKER, others=(heard.adjective,))
            ending = lx.ADJECTIVE_ENDING[sense.gender][phrase.plural]
            self.say(phrase.adjective.target + ending, (heard.adjective,), (heard.noun,), selector)
        if phrase.determiner.source == lx.DEFINITE:
            article = lx.TARGET_DEFINITE[sense.gender][phrase.plural]
            self.say(article, (), (heard.determiner, heard.noun), selector)
        return sense.gender, selector

    def say_clause(self, clause: Clause, heard: _HeardClause) -> None:
        """Says time, subject, preverb, place, object, manner and verb, in this order whatever was heard."""
        verb, verb_at = clause.verb, heard.verb
        if clause.time and heard.time is not None:
            self.say(clause.time.target, (heard.time,))
        subject_at = heard.subject.noun
        if isinstance(clause.subject, int):  # the ending of the verb is all that is said of a pronoun
            person = clause.subject
        else:
            gender, selector = self.say_phrase(clause.subject, heard.subject, verb, verb_at)
            self.say(lx.SUBJECT_MARKER[gender], (), (subject_at,), selector)
            person = 3 if clause.subject.plural else 2
        if verb.preverb:
            self.say(verb.preverb, (verb_at,))
        if clause.preposition and clause.place and heard.place and heard.preposition is not None:
            self.say_phrase(clause.place, heard.place, verb, verb_at)
            self.say(clause.preposition.target, (heard.preposition,))
        chooser: tuple[int, ...] = ()
        stem = verb.stems[0]
        if clause.object and heard.object:
            self.say_phrase(clause.object, heard.object, verb, verb_at)
            marker = lx.OBJECT_MARKER[verb.kind][clause.object.plural]
            self.say(marker, (), (heard.object.noun, verb_at))
            if len(verb.stems) == 2:
                stem, chooser = verb.stems[clause.object.noun.animate], (heard.object.noun,)
        if clause.manner and heard.manner is not None:
            self.say(clause.manner.target, (heard.manner,))
        if heard.negation is not None:
            self.say(lx.TARGET_NOT[0], (heard.negation,))
        translated = (verb_at,) if heard.particle is None else (verb_at, heard.particle)
        helpers = (subject_at,) if heard.future is None else (subject_at, heard.future)
        self.say(stem + lx.TARGET_TENSE[clause.tense] + lx.PERSON_ENDING[person], translated, helpers, chooser)
        if heard.negation is not None:
            self.say(lx.TARGET_NOT[1], (heard.negation,))


def express(meaning: Meaning) -> Sentence:
    """Returns the sentence pair that says ``meaning``."""
    speaker = _Speaker()
    polite_first = meaning.polite if meaning.polite_first else ""
    if polite_first:
        speaker.hear(polite_first)
    second = comma = conjunction = None
    if meaning.second is None or meaning.conjunction is None:
        main = speaker.hear_clause(meaning.main)
    elif meaning.second_last or not meaning.subordinate:
        main = speaker.hear_clause(meaning.main)
        comma = speaker.hear(",")
        conjunction = speaker.hear(meaning.conjunction.source)
        second = speaker.hear_clause(meaning.second)
    else:
        conjunction = speaker.hear(meaning.conjunction.source)
        second = speaker.hear_clause(meaning.second)
        comma = speaker.hear(",")
        main = speaker.hear_clause(meaning.main)
    if meaning.polite and not polite_first:
        speaker.hear(meaning.polite)
    mark = speaker.hear(meaning.mark)

    if meaning.inserted and meaning.inserted_first:
        speaker.say(meaning.inserted)
    if meaning.second and meaning.conjunction and second and comma is not None and conjunction is not None:
        if meaning.subordinate:
            speaker.say_clause(meaning.second, second)
            speaker.say(meaning.conjunction.target, (conjunction,))
            speaker.say(",", (comma,))
            speaker.say_clause(meaning.main, main)
        else:
            speaker.say_clause(meaning.main, main)
            speaker.say(",", (comma,))
            speaker.say(meaning.conjunction.target, (conjunction,))
            speaker.say_clause(meaning.second, second)
    else:
        speaker.say_clause(meaning.main, main)
    if meaning.inserted and not meaning.inserted_first:
        speaker.say(meaning.inserted)
    speaker.say(meaning.mark, (mark,))
    return Sentence(
        tuple(speaker.source),
        tuple(speaker.target),
        frozenset(speaker.sure),
        frozenset(speaker.sure + speaker.possible),
        tuple(speaker.causes),
    )
