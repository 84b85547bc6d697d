"""Cleaning: what goes and why, what stays where it was, and the small tokeniser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignlens.corpora.cleaning import (
    REASONS,
    clean_pairs,
    normalise,
    normalise_held_out,
    tokenise,
)
from alignlens.corpora.settings import CleaningSettings
from alignlens.errors import InputError
from alignlens.io.text import words

OFF = CleaningSettings(max_words=1000, max_ratio=1000, drop_duplicates=False, drop_test_overlap=False)


def test_normalise_blanks_but_not_no_break_spaces() -> None:
    assert normalise("  a\tb   c ") == "a b c"
    assert normalise("10\u00a0000 \u3000x") == "10\u00a0000 \u3000x"
    assert normalise("A\rB\x0bC") == "A B C"
    assert normalise("ÄRGER Éa", lowercase=True) == "ärger éa"
    assert normalise("Și țară façade", strip_accents=True) == "Si tara facade"
    assert normalise("한국어", strip_accents=True) == "한국어"


def test_each_pair_is_counted_once_under_the_first_reason() -> None:
    pairs = [
        ("a", "b"),
        ("x ||| y", ""),  # also empty: the separator comes first
        ("", "b"),
        ("a", ""),
        ("w " * 9 + "w", "b"),  # ten words, also a bad ratio
        ("a b c d", "e"),
        ("T est", "pai r"),
        ("T est", "pai r"),  # also a duplicate: the overlap comes first
        ("a", "b"),
        ("a", "c"),
    ]
    settings = CleaningSettings(max_words=9, max_ratio=3.0)
    cleaned = clean_pairs(*zip(*pairs, strict=True), settings, [("te st", "PAIR")])
    assert list(zip(cleaned.source, cleaned.target, strict=True)) == [("a", "b"), ("a", "c")]
    assert cleaned.dropped == {
        "separator": 1,
        "empty": 2,
        "too_long": 1,
        "ratio": 1,
        "test_overlap": 2,
        "duplicate": 1,
    }
    assert tuple(cleaned.dropped) == REASONS
    assert len(cleaned) + sum(cleaned.dropped.values()) == len(pairs)


def test_limits_are_inclusive() -> None:
    settings = CleaningSettings(max_words=4, max_ratio=2.0)
    cleaned = clean_pairs(["a b c d", "a b c d e", "a b c"], ["e f", "f g h", "d"], settings)
    assert cleaned.source == ["a b c d"]
    assert (cleaned.dropped["too_long"], cleaned.dropped["ratio"]) == (1, 1)


def test_switches_switch() -> None:
    source, target = ["a", "a"], ["b", "b"]
    assert len(clean_pairs(source, target, OFF, [("a", "b")])) == 2
    assert len(clean_pairs(source, target, CleaningSettings(drop_test_overlap=False), [("a", "b")])) == 1
    assert len(clean_pairs(source, target, CleaningSettings(), [("a", "b")])) == 0


def test_one_side_of_a_test_pair_is_no_overlap() -> None:
    assert len(clean_pairs(["a", "c"], ["x", "b"], CleaningSettings(), [("a", "b")])) == 2


def test_held_out_text_keeps_every_line_and_word() -> None:
    lines = ["A  b\tc", "", "x\u00a0y Z"]
    assert normalise_held_out(lines, "t.de", lowercase=True) == ["a b c", "", "x\u00a0y z"]


def test_held_out_text_that_cannot_be_kept_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^t\.de:2: '\|\|\|' inside a sentence"):
        normalise_held_out(["a", "b ||| c"], "t.de")
    with pytest.raises(InputError, match=r"^t\.de:1: a control character .* number of words"):
        normalise_held_out(["a\x0bb"], "t.de")


@given(st.lists(st.text(alphabet="aB\u00a0 \té\u0301|1", max_size=8), max_size=6))
def test_word_counts_never_change(lines: list[str]) -> None:
    try:
        result = normalise_held_out(lines, "t", lowercase=True, strip_accents=True)
    except InputError:
        return
    assert [len(words(line)) for line in result] == [len(words(line)) for line in lines]


@pytest.mark.parametrize(
    ("language", "raw", "text"),
    [
        ("en", 'He said: "It\'s 3,000.50 km, no?"', 'He said : " It \'s 3,000.50 km , no ? "'),
        ("en", "the dogs' bowls (all 'new').", "the dogs ' bowls ( all ' new ' ) ."),
        ("fr", "L'eau qu'il boit, c'est tout.", "L' eau qu' il boit , c' est tout ."),
        ("de", "Am 17. Mai kam z.B. der BND-Chef etc. nach Bonn.", "Am 17. Mai kam z.B. der BND-Chef etc. nach Bonn ."),
        ("ro", "amin. sfarsit... da; nu!", "amin . sfarsit ... da ; nu !"),
        ("fr", "..''", ".. ' '"),
        ("en", "'a'.", "' a ' ."),
        ("en", "a\u00a0b", "a b"),
        ("en", "It ends here.\u201d", "It ends here . \u201d"),
        ("en", "in the U.S.", "in the U.S."),
        ("de", "e\u0301t\u0301", "e\u0301t\u0301"),
        ("en", "", ""),
    ],
)
def test_tokenise(language: str, raw: str, text: str) -> None:
    assert tokenise(raw, language) == text


@given(st.text(alphabet="ab Z1.,'’-\"!()é\u0301\u00a0:", max_size=16), st.sampled_from(["en", "fr", "de"]))
def test_tokenised_text_stays_as_it_is_and_no_letter_is_lost(raw: str, language: str) -> None:
    once = tokenise(raw, language)
    assert tokenise(once, language) == once
    assert "".join(once.split()) == "".join(raw.split())
