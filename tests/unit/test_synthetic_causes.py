"""Causes really cause: a meaning with one word changed has another target exactly where that word is a cause."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from alignlens.corpora import lexicon as lx
from alignlens.corpora.grammar import Clause, Meaning, Phrase, Sentence, express
from alignlens.corpora.lexicon import build_lexicon
from alignlens.corpora.synthetic import SyntheticSettings, candidate_meanings, causes_line, gold_line

DEFAULT = SyntheticSettings()
LEXICON = build_lexicon(DEFAULT.seed, DEFAULT.vocabulary)


@pytest.fixture(scope="module")
def meanings() -> list[Meaning]:
    return [next(candidate_meanings(DEFAULT, "test", index)) for index in range(400)]


def changed(before: Sentence, after: Sentence) -> set[int]:
    assert len(before.target) == len(after.target)
    return {j for j, (a, b) in enumerate(zip(before.target, after.target, strict=True)) if a != b}


def source_change(before: Sentence, after: Sentence) -> int | None:
    assert len(before.source) == len(after.source)
    places = [i for i, (a, b) in enumerate(zip(before.source, after.source, strict=True)) if a != b]
    assert len(places) <= 1
    return places[0] if places else None


def check_exact(before: Sentence, variants: list[Sentence], ignore: str = "") -> None:
    """All variants together change the target words the changed word causes, and no others."""
    at: set[int] = set()
    differing: set[int] = set()
    for after in variants:
        place = source_change(before, after)
        if place is not None:
            at.add(place)
            differing |= changed(before, after)
    (i,) = at
    effects = {j for j, causes in enumerate(before.causes) if i in causes and before.target[j] != ignore}
    assert differing == effects


def phrases_of(meaning: Meaning) -> list[tuple[str, Phrase]]:
    parts = ((name, getattr(meaning.main, name)) for name in ("subject", "object", "place"))
    return [(name, part) for name, part in parts if isinstance(part, Phrase)]


def with_main(meaning: Meaning, **parts: Any) -> Sentence:
    return express(meaning._replace(main=meaning.main._replace(**parts)))


def test_changing_a_noun_changes_exactly_what_it_causes(meanings: list[Meaning]) -> None:
    for meaning in meanings[:100]:
        for name, phrase in phrases_of(meaning):
            table = LEXICON.nouns
            if len(phrase.noun.senses) == 2:
                table = LEXICON.homonyms
            elif phrase.noun.classifier:
                table = LEXICON.double_nouns
            variants = [
                with_main(meaning, **{name: phrase._replace(noun=noun, plural=plural)})
                for noun in table.items
                for plural in (False, True)
            ]
            check_exact(express(meaning), variants)


def test_changing_a_verb_changes_exactly_what_it_causes(meanings: list[Meaning]) -> None:
    for meaning in meanings[:100]:
        verb = meaning.main.verb
        table = LEXICON.transitives
        if len(verb.stems) == 2:
            table = LEXICON.ambiguous_verbs
        elif verb.preverb:
            table = LEXICON.double_verbs
        variants = [with_main(meaning, verb=other._replace(particle=verb.particle)) for other in table.items]
        check_exact(express(meaning), variants)


def test_changing_adjectives_and_pronouns_changes_exactly_what_they_cause(meanings: list[Meaning]) -> None:
    checked = Counter[str]()
    for meaning in meanings:
        before = express(meaning)
        for name, phrase in phrases_of(meaning):
            if phrase.adjective:
                variants = [
                    with_main(meaning, **{name: phrase._replace(adjective=word)}) for word in LEXICON.adjectives.items
                ]
                check_exact(before, variants, ignore=lx.LINKER)  # the linker needs an adjective, any adjective
                checked["adjective"] += 1
        if isinstance(meaning.main.subject, int):
            check_exact(before, [with_main(meaning, subject=person) for person in range(4)])
            checked["pronoun"] += 1
    assert min(checked["adjective"], checked["pronoun"]) > 40


def test_changing_small_words_changes_exactly_what_they_cause(meanings: list[Meaning]) -> None:
    checked = Counter[str]()
    tables = {"time": LEXICON.times.items, "manner": LEXICON.manners.items, "preposition": lx.PREPOSITIONS}
    for meaning in meanings:
        before = express(meaning)
        for name, table in tables.items():
            if getattr(meaning.main, name):
                check_exact(before, [with_main(meaning, **{name: word}) for word in table])
                checked[name] += 1
        for name, phrase in phrases_of(meaning):
            if phrase.determiner.target:
                translated = [d for d in lx.DETERMINERS if d.target]
                variants = [with_main(meaning, **{name: phrase._replace(determiner=d)}) for d in translated]
                check_exact(before, variants)
                checked["determiner"] += 1
            elif phrase.determiner.source == lx.DEFINITE:
                after = with_main(meaning, **{name: phrase._replace(determiner=lx.DETERMINERS[1])})
                at = source_change(before, after)
                (gone,) = [j for j, causes in enumerate(before.causes) if at in causes]
                assert before.target[:gone] + before.target[gone + 1 :] == after.target
                checked["article"] += 1
    assert len(checked) == 5
    assert min(checked.values()) > 40


def test_the_auxiliary_causes_the_ending_of_the_verb(meanings: list[Meaning]) -> None:
    futures = [meaning for meaning in meanings if meaning.main.tense == "future" and not meaning.second]
    assert len(futures) > 30
    for meaning in futures:
        before = express(meaning)
        at = before.source.index(lx.FUTURE)
        effects = {j for j, causes in enumerate(before.causes) if at in causes}
        assert changed(before, with_main(meaning, tense="present")) == effects
        assert not any(i == at for i, _ in before.sure)


def test_a_particle_far_away_changes_its_verb() -> None:
    verb = LEXICON.particle_verbs.items[0]
    plain = next(v for v in LEXICON.transitives.items if v.source == verb.source)
    thing = Phrase(lx.DETERMINERS[0], LEXICON.nouns.items[0])
    place = Phrase(lx.DETERMINERS[0], LEXICON.nouns.items[1])
    clause = Clause(0, verb, "past", thing, preposition=lx.PREPOSITIONS[0], place=place)
    with_particle, without = express(Meaning(clause)), express(Meaning(clause._replace(verb=plain)))
    (last,) = changed(with_particle, without)
    particle = with_particle.source.index(verb.particle)
    assert {(1, last), (particle, last)} <= with_particle.sure
    assert particle - 1 == 6


def test_homonyms_occur_in_both_senses_with_the_selecting_verb_among_the_causes(meanings: list[Meaning]) -> None:
    seen = Counter[int]()
    for meaning in meanings:
        for name, phrase in phrases_of(meaning):
            if len(phrase.noun.senses) == 2 and not meaning.second and not phrase.modifier:
                sentence = express(meaning)
                kind = meaning.main.verb.kind
                word = phrase.noun.senses[kind].stem + (lx.TARGET_PLURAL if phrase.plural else "")
                verb = sentence.source.index(meaning.main.verb.source + lx.SOURCE_TENSE[meaning.main.tense])
                assert verb in sentence.causes[sentence.target.index(word)], name
                assert (verb, sentence.target.index(word)) not in sentence.possible
                seen[kind] += 1
    assert min(seen[0], seen[1]) > 10


def test_ambiguous_verbs_are_chosen_by_their_object() -> None:
    verb = LEXICON.ambiguous_verbs.items[0]
    nouns = [next(n for n in LEXICON.nouns.items if n.animate == animate) for animate in (0, 1)]
    sentences = [express(Meaning(Clause(2, verb, "present", Phrase(lx.DETERMINERS[1], noun)))) for noun in nouns]
    assert [s.target[2] for s in sentences] == [stem + "te" for stem in verb.stems]
    for sentence in sentences:
        assert sentence.causes[2] == {0, 1, 3}
        assert {i for i, j in sentence.sure if j == 2} == {1}
        assert {i for i, j in sentence.possible if j == 2} == {0, 1}


def test_one_sentence_in_full() -> None:
    """Adjective, compound, verb-final order, negation around the verb and a time word from the far end."""
    noun, modifier, thing = LEXICON.nouns.items[:3]
    adjective, time, verb = LEXICON.adjectives.items[0], LEXICON.times.items[0], LEXICON.transitives.items[0]
    subject = Phrase(lx.DETERMINERS[0], noun, plural=True, adjective=adjective)
    object_phrase = Phrase(lx.DETERMINERS[1], thing, modifier=modifier)
    clause = Clause(subject, verb, "past", object_phrase, negated=True, time=time, time_last=True)
    sentence = express(Meaning(clause, polite="plim"))
    assert sentence.source == (
        *("vim", adjective.source, noun.source + "en", "nuk", verb.source + "ut"),
        *("es", modifier.source, thing.source, time.source, "plim", "."),
    )
    gender = noun.senses[0].gender
    assert sentence.target == (
        *(time.target, noun.senses[0].stem + "ri", "i", adjective.target + ("nai", "koi")[gender]),
        *(("sei", "sai")[gender], ("ga", "go")[gender]),
        *(modifier.senses[0].stem + thing.senses[0].stem, ("wo", "ne")[verb.kind]),
        *("ma", verb.stems[0] + "rata", "bo", "."),
    )
    assert gold_line(sentence) == "0p4 1-3 2-1 2p3 2p4 2p5 2p9 3-8 3-10 4p7 4-9 6-6 7-6 7p7 8-0 10-11"
    assert causes_line(sentence) == "8 2 1 1,2 0,2 2 6,7 4,7 3 2,4 3 10"
