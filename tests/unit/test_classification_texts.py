"""Generated labelled texts, and batches of any."""

from __future__ import annotations

import numpy as np

from alignlens.classification.examples import Examples, batches_of, in_order, shuffled
from alignlens.classification.keywords import Lexicon, generate
from alignlens.corpora.labelled import KeywordSettings


def test_generated_texts_have_keywords_of_their_class() -> None:
    settings = KeywordSettings(train=400, dev=100)
    lexicon = Lexicon.of(settings)
    texts = generate(settings, "train")
    assert texts == generate(settings, "train")
    assert texts[:100] != generate(settings, "dev")
    assert texts != generate(KeywordSettings(seed=2, train=400, dev=100), "train")
    every = [*lexicon.neutral, *lexicon.positive, *lexicon.negative, *lexicon.ambiguous]
    assert len(set(every)) == len(every) == 150
    noisy = ambiguous = 0
    for text in texts:
        assert settings.min_words <= len(text.words) <= settings.max_words
        own, other = (lexicon.positive, lexicon.negative) if text.positive else (lexicon.negative, lexicon.positive)
        counts = [sum(word in words for word in text.words) for words in (own, other, lexicon.ambiguous)]
        assert counts[0] > counts[1]
        assert set(text.words) <= set(every)
        noisy, ambiguous = noisy + counts[1], ambiguous + counts[2]
    assert 10 < noisy < 80
    assert 80 < ambiguous < 160
    assert sum(text.positive for text in texts) == 200


def test_batches_hold_every_text_once_the_longest_first() -> None:
    random = np.random.default_rng(1)
    texts = [random.integers(0, 50, random.integers(1, 30)).tolist() for _ in range(101)]
    examples = Examples.of(texts, random.random(101) < 0.5)
    epochs = [list(shuffled(examples, 8, 3, epoch)) for epoch in (0, 1)]
    for batches in (*epochs, list(in_order(examples, 60))):
        assert sorted(number for batch in batches for number in batch.numbers) == list(range(101))
        for batch in batches:
            assert (np.diff(batch.lengths) <= 0).all()
            found = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
            assert [ids.tolist() for ids in found] == [texts[number] for number in batch.numbers]
            np.testing.assert_array_equal(batch.labels, examples.labels[batch.numbers])
    assert [len(batch.numbers) for batch in epochs[0]] == [8] * 12 + [5]
    assert len(epochs[0]) == batches_of(examples, 8)
    assert not np.array_equal(epochs[0][0].numbers, epochs[1][0].numbers)
    later = list(shuffled(examples, 8, 3, 1, first=5))
    assert [batch.numbers.tolist() for batch in later] == [batch.numbers.tolist() for batch in epochs[1][5:]]
    assert all(batch.lengths.sum() <= 60 for batch in in_order(examples, 60))
    assert [len(batch.numbers) for batch in in_order(examples, 1)] == [1] * 101
    assert len(examples.first(7)) == 7
    assert examples.first(7).starts[-1] == sum(map(len, texts[:7]))
    assert len(examples.first(1000)) == len(examples.first(None)) == 101
