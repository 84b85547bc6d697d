from __future__ import annotations

import math

import numpy as np
import pytest

from alignlens.metrics.bleu import bleu_interval, bleu_of, corpus_bleu, sentence_counts, signature


def test_bleu_in_closed_form_with_its_signature() -> None:
    # Six words, one wrong in the middle: n-gram precisions 5/6, 3/5, 2/4, 1/3, no brevity penalty.
    result = corpus_bleu(["a b c x d e"], ["a b c y d e"], tokenize="none")
    with pytest.raises(ValueError, match="2 hypotheses for 1"):
        corpus_bleu(["a", "b"], ["a"])
    smoothed = [5 / 6, 3 / 5, 1 / 4, 1 / (2 * 3)]
    assert result.bleu == pytest.approx(100 * math.exp(sum(map(math.log, smoothed)) / 4))
    assert result.precisions == pytest.approx([100 * value for value in smoothed])
    assert (result.hypothesis_words, result.reference_words, result.brevity_penalty) == (6, 6, 1.0)
    assert "tok:none" in result.signature
    assert "version:" in result.signature
    assert corpus_bleu(["a b c d"], ["a b c d"]).bleu == pytest.approx(100)
    assert corpus_bleu(["a b c d"], ["a b c d e"]).brevity_penalty == pytest.approx(math.exp(-1 / 4))


def text(seed: int, lines: int) -> tuple[list[str], list[str]]:
    generator = np.random.default_rng(seed)
    references = [" ".join(generator.choice(list("abcdefg"), size=11)) for _ in range(lines)]
    hypotheses = [line if generator.random() < 0.5 else line.replace("a", "x") for line in references]
    return hypotheses, references


def test_the_counts_of_sentences_add_up_to_the_corpus_score() -> None:
    hypotheses, references = text(3, 53)
    totals = sentence_counts(hypotheses, references, "none").sum(axis=0)
    assert bleu_of(totals[None]) == pytest.approx([corpus_bleu(hypotheses, references, "none").bleu])


def test_scores_of_summed_counts_are_those_of_sacrebleu_smoothed_short_or_empty() -> None:
    from sacrebleu.metrics.bleu import BLEU

    generator = np.random.default_rng(5)
    all_of = generator.integers(0, 5, (400, 4))
    right = np.minimum(generator.integers(0, 5, (400, 4)), all_of)
    totals = np.concatenate([right, all_of, generator.integers(1, 20, (400, 2))], axis=1)
    totals[:2] = 0
    totals[1, 9] = 7  # an empty translation
    expected = [
        BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp").score for row in totals.tolist()
    ]
    found = bleu_of(totals)
    assert found == pytest.approx(expected, rel=1e-12)
    assert 0 < np.count_nonzero(found) < 400


def test_a_signature_tells_what_was_drawn() -> None:
    assert signature("none") == corpus_bleu(["a"], ["a"], "none").signature
    assert signature("13a", seed=3, bs=20).startswith("nrefs:1|bs:20|seed:3|case:mixed|eff:no|tok:13a|smooth:exp|")


def test_the_interval_holds_the_score_repeats_and_narrows_with_more_text() -> None:
    hypotheses, references = text(3, 53)
    interval = bleu_interval(hypotheses, references, "none", samples=200, seed=5)
    assert interval == bleu_interval(hypotheses, references, "none", samples=200, seed=5)
    assert interval != bleu_interval(hypotheses, references, "none", samples=200, seed=6)
    assert interval.low < corpus_bleu(hypotheses, references, "none").bleu < interval.high
    wide = bleu_interval(hypotheses, references, "none", level=99, samples=200, seed=5)
    assert wide.low <= interval.low
    assert wide.high >= interval.high
    longer = bleu_interval(hypotheses * 9, references * 9, "none", samples=200, seed=5)
    # Nine times the text: about a third of the width.
    assert 0.2 < (longer.high - longer.low) / (interval.high - interval.low) < 0.5
    same = bleu_interval(["a b c d"] * 7, ["a b c d"] * 7, samples=10)
    assert same.low == pytest.approx(100)
    assert same.high == pytest.approx(100)
