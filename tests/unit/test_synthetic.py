"""The synthetic bitext: same bytes everywhere, every phenomenon present."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from alignlens.corpora import lexicon as lx
from alignlens.corpora.grammar import Sentence
from alignlens.corpora.lexicon import Zipf, build_lexicon
from alignlens.corpora.registry import Registry
from alignlens.corpora.synthetic import (
    SyntheticSettings,
    generate,
    gold_line,
    write_corpus,
)
from alignlens.errors import ConfigError

PINNED_TEST_SPLIT = "772c5f2612d513e7dd2250206ae3f8138e18118991383f092f533c178aa0c7b9"
DEFAULT = SyntheticSettings()
LEXICON = build_lexicon(DEFAULT.seed, DEFAULT.vocabulary)
PUNCTUATION = {".", ",", "?", "!"}
DIGEST_PROGRAM = """
import hashlib
from alignlens.corpora.synthetic import SyntheticSettings, causes_line, generate, gold_line
digest = hashlib.sha256()
for s in generate(SyntheticSettings(), "test"):
    digest.update("\\n".join((" ".join(s.source), " ".join(s.target), gold_line(s), causes_line(s), "")).encode())
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def corpus() -> list[Sentence]:
    return list(generate(SyntheticSettings(train=2000), "train"))


def digest(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", DIGEST_PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_the_default_test_split_has_pinned_bytes_under_any_hash_seed(hash_seed: str) -> None:
    assert digest(hash_seed) == PINNED_TEST_SPLIT


def test_sizes_of_splits_do_not_change_sentences() -> None:
    small = SyntheticSettings(train=30, dev=20, test=10)
    large = SyntheticSettings(train=60, dev=40, test=50)
    for split in ("train", "dev", "test"):
        short = list(generate(small, split))
        assert len(short) == small.size(split)
        assert short == list(generate(large, split))[: len(short)]


def test_seed_changes_the_languages_and_the_sentences() -> None:
    other = build_lexicon(2, DEFAULT.vocabulary)
    # Two languages may share a short word by chance, but not its translation.
    pairs = [{(n.source, n.senses[0].stem) for n in lexicon.nouns.items} for lexicon in (LEXICON, other)]
    assert not pairs[0] & pairs[1]
    assert next(generate(DEFAULT, "test")) != next(generate(SyntheticSettings(seed=2), "test"))


def test_splits_share_no_sentence_and_held_out_ones_hold_none_twice() -> None:
    # Few lemmas and short sentences, so that chance alone would give many overlaps.
    tiny = SyntheticSettings(vocabulary=40, max_words=6, train=3000, dev=100, test=100)
    train, dev, test = ([s.source for s in generate(tiny, split)] for split in ("train", "dev", "test"))
    assert len(set(train)) < len(train)
    assert len(set(dev)) == 100
    assert len(set(test)) == 100
    assert not set(train) & (set(dev) | set(test))
    assert not set(dev) & set(test)


def test_links_and_causes_are_well_formed(corpus: list[Sentence]) -> None:
    for sentence in corpus:
        positions = range(len(sentence.source))
        assert DEFAULT.min_words <= len(sentence.source) <= DEFAULT.max_words
        assert sentence.source[-1] in PUNCTUATION
        assert (len(sentence.source) - 1, len(sentence.target) - 1) in sentence.sure
        assert sentence.sure < sentence.possible
        assert len(sentence.causes) == len(sentence.target)
        assert all(i in positions and i in sentence.causes[j] for i, j in sentence.possible)
        assert all(i in positions for causes in sentence.causes for i in causes)


def test_words_are_lowercase_ascii_and_of_one_language_only(corpus: list[Sentence]) -> None:
    source = {word for sentence in corpus for word in sentence.source} - PUNCTUATION
    target = {word for sentence in corpus for word in sentence.target} - PUNCTUATION
    assert all(re.fullmatch("[a-z]*[b-df-hj-np-tv-z]", word) for word in source)
    assert all(re.fullmatch("[a-z]*[aeiou]", word) for word in target)
    assert not source & target


def test_inflected_forms_are_never_shared_by_two_lemmas() -> None:
    nouns = [n for table in (LEXICON.nouns, LEXICON.homonyms, LEXICON.double_nouns) for n in table.items]
    verbs = [
        v
        for t in (LEXICON.transitives, LEXICON.intransitives, LEXICON.ambiguous_verbs, LEXICON.double_verbs)
        for v in t.items
    ]
    words = [w for table in (LEXICON.adjectives, LEXICON.manners, LEXICON.times) for w in table.items]
    assert len(nouns) + len(verbs) + len(words) == DEFAULT.vocabulary
    forms = Counter(n.source + ending for n in nouns for ending in ("", lx.SOURCE_PLURAL))
    forms.update(v.source + ending for v in verbs for ending in lx.SOURCE_TENSE.values())
    forms.update(w.source for w in words)
    assert set(forms.values()) == {1}


@pytest.mark.parametrize("vocabulary", [40, 41, 57, 140])
def test_every_class_of_words_has_every_contrast(vocabulary: int) -> None:
    """Otherwise a cause could be recorded that causes nothing."""
    lexicon = build_lexicon(7, vocabulary)
    for nouns in (lexicon.nouns, lexicon.homonyms, lexicon.double_nouns):
        assert {n.senses[0].gender for n in nouns.items} == {n.animate for n in nouns.items} == {0, 1}
    assert all(a.gender != b.gender for a, b in (n.senses for n in lexicon.homonyms.items))
    assert len({n.classifier for n in lexicon.double_nouns.items}) > 1
    verbs = (lexicon.transitives, lexicon.intransitives, lexicon.ambiguous_verbs, lexicon.double_verbs)
    for table in (*verbs, lexicon.particle_verbs):
        assert {v.kind for v in table.items} == {0, 1}


def share(corpus: list[Sentence], found: Any) -> float:
    return sum(map(bool, map(found, corpus))) / len(corpus)


def targets_of(sentence: Sentence, i: int) -> list[int]:
    return sorted(j for x, j in sentence.sure if x == i)


def test_every_phenomenon_is_frequent_and_none_is_everywhere(corpus: list[Sentence]) -> None:
    def moved(s: Sentence) -> bool:
        return any(abs(i - j) >= 5 for i, j in s.sure)

    def crossed(s: Sentence) -> bool:
        return any(a < b and x > y for a, x in s.sure for b, y in s.sure)

    def untranslated(s: Sentence) -> bool:
        return any(all(i != x for x, _ in s.possible) for i in range(len(s.source)))

    def two_words(s: Sentence) -> bool:
        return any(len(targets_of(s, i)) == 2 for i in range(len(s.source)))

    def discontinuous(s: Sentence) -> bool:
        pairs = [targets_of(s, i) for i in range(len(s.source))]
        return any(len(pair) == 2 and pair[1] - pair[0] > 1 for pair in pairs)

    def merged(s: Sentence) -> bool:
        return max(Counter(j for _, j in s.sure).values()) == 2

    def repeated(s: Sentence) -> bool:
        content = [word for word in s.source if word not in PUNCTUATION | {lx.DEFINITE, lx.INDEFINITE}]
        return len(set(content)) < len(content)

    def unaligned_target(s: Sentence) -> bool:
        return any(all(j != y for _, y in s.possible) for j in range(len(s.target)))

    def unlinked_cause(s: Sentence) -> bool:
        return any((i, j) not in s.possible for j, causes in enumerate(s.causes) for i in causes)

    def uncaused(s: Sentence) -> bool:
        return frozenset() in s.causes

    expected = {
        moved: (0.3, 0.7),
        crossed: (0.5, 0.98),
        untranslated: (0.3, 0.8),
        two_words: (0.25, 0.6),
        discontinuous: (0.1, 0.4),
        merged: (0.2, 0.5),
        repeated: (0.2, 0.5),
        unaligned_target: (0.3, 0.7),
        unlinked_cause: (0.2, 0.7),
        uncaused: (0.02, 0.1),
    }
    for phenomenon, (low, high) in expected.items():
        assert low < share(corpus, phenomenon) < high, phenomenon.__name__


def test_mean_length_is_moderate(corpus: list[Sentence]) -> None:
    assert 9 < sum(len(s.source) for s in corpus) / len(corpus) < 10.5


@pytest.mark.parametrize(
    ("knob", "gone"),
    [
        ("two_words", lambda s: any(word in lx.CLASSIFIERS for word in s.target)),
        ("merging", lambda s: len({j for _, j in s.sure}) < len(s.sure)),
        ("untranslated", lambda s: any(word in lx.POLITE for word in s.source)),
        ("insertions", lambda s: frozenset() in s.causes),
        ("negation", lambda s: lx.NOT in s.source),
        ("adjectives", lambda s: lx.LINKER in s.target),
        ("second_clause", lambda s: "," in s.source),
        ("pronouns", lambda s: any(word in lx.PRONOUNS for word in s.source)),
        ("places", lambda s: any(word in s.source for word in ("ip", "ors", "fand", "gel"))),
        ("ambiguity", lambda s: any((i, j) not in s.possible for j, c in enumerate(s.causes) for i in c - {0})),
    ],
)
def test_a_knob_at_zero_switches_its_phenomenon_off(knob: str, gone: Any) -> None:
    # The linker's cause is no link either, so adjectives are off where ambiguity is looked for.
    off: dict[str, Any] = {knob: 0} | ({"adjectives": 0} if knob == "ambiguity" else {})
    assert any(gone(s) for s in generate(SyntheticSettings(train=300), "train"))
    assert not any(gone(s) for s in generate(SyntheticSettings(train=300, **off), "train"))


def test_without_reordering_and_its_like_links_are_monotone() -> None:
    names = ("reordering", "long_moves", "two_words", "merging", "adverbs", "places", "second_clause")
    plain = SyntheticSettings(train=200, **dict.fromkeys(names, 0))
    for sentence in generate(plain, "train"):
        one_to_one = sorted(link for link in sentence.sure if sentence.source[link[0]] != lx.NOT)
        assert [j for _, j in one_to_one] == sorted(j for _, j in one_to_one)


def test_zipf_weights_in_closed_form() -> None:
    table = Zipf("abc")  # 1/3, 1/4, 1/5: shares 20/47, 15/47, 12/47
    drawn = Counter(table.at(k / 47_000) for k in range(47_000))
    assert drawn["a"] == pytest.approx(20_000, abs=2)
    assert drawn["b"] == pytest.approx(15_000, abs=2)
    assert table.at(0.0) == "a"
    assert table.at(1 - 2**-53) == "c"


def test_word_frequencies_in_the_corpus_follow_the_ranks(corpus: list[Sentence]) -> None:
    lemma = {v.source + e: r for r, v in enumerate(LEXICON.intransitives.items) for e in lx.SOURCE_TENSE.values()}
    counts = Counter(lemma[word] for sentence in corpus for word in sentence.source if word in lemma)
    assert counts[0] / counts[9] == pytest.approx((9 + 3) / (0 + 3), rel=0.5)
    assert sum(counts[rank] for rank in range(3)) > 2 * sum(counts[rank] for rank in range(7, 10))


def test_write_corpus_writes_what_generate_yields(tmp_path: Path) -> None:
    settings = SyntheticSettings(train=20, dev=5, test=8)
    write_corpus(settings, tmp_path)
    names = [f"{split}.{side}" for split in ("dev", "test", "train") for side in ("source", "target")]
    names += ["dev.gold", "dev.causes", "test.gold", "test.causes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    test = list(generate(settings, "test"))
    assert (tmp_path / "test.gold").read_bytes().decode() == "".join(gold_line(s) + "\n" for s in test)
    for sentence, line in zip(test, (tmp_path / "test.causes").read_text().splitlines(), strict=True):
        read = tuple(frozenset(map(int, f.split(","))) if f != "-" else frozenset() for f in line.split(" "))
        assert read == sentence.causes
    assert (tmp_path / "train.source").read_text().count("\n") == 20


def settings_of(**values: Any) -> SyntheticSettings | None:
    """The settings of a dataset that is declared with these values."""
    entry = {"kind": "synthetic", "pair": ["xa", "xb"], "settings": values}
    return Registry({}).merged({"mine": entry}).get("mine").settings


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("adjectives", 1.5, "must be at most 1 and at least 0"),
        ("reordering", -0.1, "must be at least 0 and at most 1"),
        ("ambiguity", float("nan"), "is not a finite number"),
        ("negation", "often", "is not a number"),
        ("places", True, "is not a number"),
        ("train", 0, "must be at least 1"),
        ("train", 10.0, "is not a whole number"),
        ("vocabulary", 39, "must be at least 40"),
        ("seed", -1, "must be at least 0"),
        ("min_words", 19, "max_words, which is 18"),
    ],
)
def test_wrong_values_name_key_value_and_range(key: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings_of(**{key: value})
    assert str(error.value).startswith(f"datasets: mine.settings.{key}: ")
    assert repr(value) in str(error.value)
    assert allowed in str(error.value)


def test_unknown_keys_and_splits_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"mine\.settings\.reorderings: .*did you mean reordering\?\)"):
        settings_of(reorderings=0.5)
    with pytest.raises(ConfigError, match=r"unknown split 'tests'.*did you mean test\?"):
        next(generate(DEFAULT, "tests"))
    assert settings_of(seed=3, negation=0) == SyntheticSettings(seed=3, negation=0)


def test_lengths_that_cannot_be_met_are_an_error_not_a_hang() -> None:
    with pytest.raises(ConfigError, match="no new dev sentence of 40 to 40 words"):
        next(generate(SyntheticSettings(min_words=40, max_words=40), "dev"))
