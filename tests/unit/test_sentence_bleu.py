"""BLEU of single sentences: by hand, and against sacreBLEU's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alignlens.metrics.sentence_bleu import Form, SentenceBleu

FORMS: tuple[Form, ...] = ("sacrebleu", "nltk1")


def mean(*precisions: float) -> float:
    """Returns the geometric mean."""
    return math.prod(precisions) ** (1 / len(precisions))


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 1.0),
        # One of six wrong: 5 of 6, 3 of 5, 1 of 4, and of three n-grams of four none.
        ([1, 2, 3, 9, 4, 5], [1, 2, 3, 8, 4, 5], mean(5 / 6, 3 / 5, 1 / 4, 0.1 / 3)),
        # Two thirds of the length of the reference.
        ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6], math.exp(1 - 6 / 4)),
        # A longer one has no bonus; what comes twice is right once.
        ([1, 1, 2], [1, 2], mean(2 / 3, 1 / 2, 0.1, 0.1)),
        # Too short for n-grams of three and four: they count a tenth of one, even for the reference itself.
        ([1, 2], [1, 2], mean(1, 1, 0.1, 0.1)),
        ([1], [1], mean(1, 0.1, 0.1, 0.1)),
        ([9, 8, 7], [1, 2, 3], 0.0),
        ([], [1, 2, 3], 0.0),
        ([1, 2], [], 0.0),
        ([], [], 0.0),
    ],
)
def test_bleu_in_the_form_of_nltk_counted_by_hand(candidate: list[int], reference: list[int], expected: float) -> None:
    assert SentenceBleu(reference, "nltk1")(candidate) == pytest.approx(expected, rel=1e-12)


def test_bleu_is_that_of_sacrebleu() -> None:
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", effective_order=True, force=True)
    generator = np.random.default_rng(5)
    seen = set()
    for _ in range(400):
        lengths = generator.integers(0, 12, size=2)
        candidate, reference = (generator.integers(0, 6, size=length).tolist() for length in lengths)
        if generator.random() < 0.5:  # like the reference, so that long n-grams are right, too
            candidate = [*reference[: lengths[0]], *candidate[:2]]
        theirs = metric.sentence_score(" ".join(map(str, candidate)), [" ".join(map(str, reference))])
        assert SentenceBleu(reference, "sacrebleu")(candidate) == pytest.approx(theirs.score / 100, rel=1e-9)
        seen.add(tuple(number > 0 for number in theirs.counts))
    assert len(seen) == 5, "no right n-gram, and right ones of every length, were tried"


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_worth_more_than_the_reference(form: Form) -> None:
    generator = np.random.default_rng(6)
    for _ in range(200):
        reference = generator.integers(0, 4, size=generator.integers(1, 7)).tolist()
        candidate = generator.integers(0, 4, size=generator.integers(1, 9)).tolist()
        bleu = SentenceBleu(reference, form)
        assert bleu(candidate) <= bleu(reference)
        assert form == "nltk1" or bleu(reference) == pytest.approx(1.0)
