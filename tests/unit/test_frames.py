"""Frames: what a model reads where sentences have BEGIN, and scores without it."""

from __future__ import annotations

import numpy as np

from alignlens.attribution.frames import of_prefix, of_source
from alignlens.corpora.batches import make_batch
from alignlens.corpora.symbols import END_ID as E
from alignlens.corpora.symbols import PADDING_ID as P
from alignlens.corpora.symbols import PLAIN, Frame
from alignlens.decoding.sentences import SentencesInMemory

SOURCE, TARGET = SentencesInMemory([[4, 5, 6], [5]]), SentencesInMemory([[4], [5, 5]])


def test_a_frame_says_what_stands_where_sentences_have_begin() -> None:
    batch = make_batch(SOURCE, TARGET, np.arange(2), source_begin=True)
    assert batch.framed(PLAIN) is batch
    first = batch.framed(Frame(source=9, target=(E, 8)))
    assert first.source.tolist() == [[9, 4, 5, 6, E], [9, 5, E, P, P]]
    assert first.prefix.tolist() == [[E, 8, 4, P], [E, 8, 5, 5]]
    assert first.labels.tolist() == [[8, 4, E, P], [8, 5, 5, E]]
    assert first.labels_mask.sum(1).tolist() == [3, 4]
    last = batch.framed(Frame(source=9, source_last=True, target=(8,)))
    assert last.source.tolist() == [[4, 5, 6, E, 9], [5, E, 9, P, P]]
    assert last.prefix[:, 0].tolist() == [8, 8]
    assert np.array_equal(last.labels, batch.labels)
    untouched = make_batch(SOURCE, None, np.arange(2)).framed(Frame(target=(P,)))
    assert untouched.source.tolist() == [[4, 5, 6, E], [5, E, P, P]]


def test_scores_have_begin_first_and_no_rows_of_the_frame() -> None:
    scores = np.arange(12.0).reshape(3, 4)
    assert of_source(scores, PLAIN) is scores
    assert of_source(scores, Frame(target=(E, 8))).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert of_source(scores, Frame(source=9, source_last=True)).tolist() == [[3, 0, 1, 2], [7, 4, 5, 6], [11, 8, 9, 10]]
    assert of_prefix(scores, Frame(source=9)) is scores
    assert of_prefix(scores, Frame(target=(E, 8))).tolist() == [[9, 6, 7], [17, 10, 11]]
