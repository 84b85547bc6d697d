from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignlens.alignment.gold import Gold
from alignlens.alignment.links import Alignment
from alignlens.metrics.aer import count_hits
from alignlens.metrics.bootstrap import aer_interval, paired_test

link_sets = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)
corpora = st.lists(st.tuples(link_sets, link_sets, link_sets), min_size=1, max_size=6)


def gold_of(sure: list[set[tuple[int, int]]], possible: list[set[tuple[int, int]]]) -> Gold:
    both = [a | b for a, b in zip(sure, possible, strict=True)]
    return Gold(Alignment.from_pairs(sure), Alignment.from_pairs(both))


def test_counted_by_hand() -> None:
    # A = 4 links: 1 sure, 1 possible only, 2 wrong; S = 2. AER = 1 - (1 + 2) / (4 + 2) = 50 %.
    gold = gold_of([{(0, 0), (1, 1)}], [{(2, 2)}])
    scores = count_hits(Alignment.from_pairs([[(0, 0), (2, 2), (3, 0), (0, 3)]]), gold).scores()
    assert (scores.aer, scores.precision, scores.recall, scores.f1) == (50, 50, 50, 50)


@given(corpora)
def test_equals_sums_over_python_sets(corpus: list[tuple[set[tuple[int, int]], ...]]) -> None:
    links, sure, possible = ([row[k] for row in corpus] for k in range(3))
    counts = count_hits(Alignment.from_pairs(links), gold_of(sure, possible))
    a_s = sum(len(a & s) for a, s in zip(links, sure, strict=True))
    a_p = sum(len(a & (s | p)) for a, s, p in zip(links, sure, possible, strict=True))
    size_a, size_s = sum(map(len, links)), sum(map(len, sure))
    scores = counts.scores()
    if size_a + size_s:
        assert scores.aer == pytest.approx(100 * (1 - (a_s + a_p) / (size_a + size_s)))
    else:
        assert math.isnan(scores.aer)
    assert scores.precision == pytest.approx(100 * a_p / size_a) if size_a else math.isnan(scores.precision)
    assert scores.recall == pytest.approx(100 * a_s / size_s) if size_s else math.isnan(scores.recall)


def test_gold_against_itself_is_perfect_and_a_shift_is_not() -> None:
    links = [{(k, k) for k in range(n)} for n in (3, 5, 7)]
    gold = gold_of(links, [set()] * 3)
    assert count_hits(gold.sure, gold).scores().aer == 0
    shifted = Alignment.from_pairs([{(i + 1, j) for i, j in row} for row in links])
    assert count_hits(shifted, gold).scores().aer == 100


def test_the_corpus_score_is_a_ratio_of_sums() -> None:
    gold = gold_of([{(0, 0)}, {(k, k) for k in range(9)}], [set(), set()])
    links = Alignment.from_pairs([[], [(k, k) for k in range(9)]])
    counts = count_hits(links, gold)
    assert counts.scores().aer == pytest.approx(100 * (1 - 18 / 19))
    assert [round(scores.aer) for scores in counts.sentence_scores()] == [100, 0]


def random_counts(seed: int, error: float, sentences: int = 200) -> object:
    rng = np.random.default_rng(seed)
    gold = gold_of([{(k, k) for k in range(10)} for _ in range(sentences)], [set()] * sentences)
    links = [{(k, k if rng.random() > error else (k + 1) % 10) for k in range(10)} for _ in range(sentences)]
    return count_hits(Alignment.from_pairs(links), gold)


def test_the_interval_is_that_of_binomial_noise() -> None:
    # 2,000 independent links, error 0.2: the standard error of the AER is 100 * sqrt(0.2 * 0.8 / 2000) = 0.894.
    counts = random_counts(3, 0.2)
    interval = aer_interval(counts, samples=4000)
    centre = counts.scores().aer
    assert interval.low < centre < interval.high
    assert (interval.high - interval.low) / 2 == pytest.approx(1.96 * 0.894, rel=0.12)
    assert aer_interval(counts, samples=4000) == interval
    narrow = aer_interval(counts, level=50, samples=4000)
    assert interval.low < narrow.low < narrow.high < interval.high


def test_the_paired_test_finds_a_difference_and_only_then() -> None:
    better, worse, like_better = random_counts(1, 0.2), random_counts(2, 0.3), random_counts(4, 0.2)
    test = paired_test(better, worse)
    assert test.difference == pytest.approx(better.scores().aer - worse.scores().aer)
    assert test.low < test.difference < test.high < 0
    assert test.p_value < 0.01
    assert paired_test(worse, better).p_value == test.p_value
    assert paired_test(better, like_better).p_value > 0.05
    assert paired_test(better, better).p_value == 1.0
