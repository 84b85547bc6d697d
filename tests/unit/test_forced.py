"""Forced decoding against the table it reads from, and against everything that could be scored by mistake."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from table_model import VOCABULARY, TableModel, log_prob_of
from tiny_folder import SMALL

from alignlens.corpora.batches import Batch, make_batch
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.forced import Forced, check_labels, force, force_all
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.errors import ToolError
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_settings

SOURCES = [[4], [5, 4, 6], [6, 6], [4, 5, 6, 4, 5], [5], []]
TARGETS = [[4, 5, 6], [5], [6, 6, 4, 5, 4, 6, 4], [4, 4], [], [6]]


def batch_of_pairs(*indices: int) -> Batch:
    return make_batch(SentencesInMemory(SOURCES), SentencesInMemory(TARGETS), np.array(indices))


def test_every_label_has_the_probability_of_the_table() -> None:
    model = TableModel(3)
    forced = force(model, batch_of_pairs(3, 0, 2, 4))
    assert [len(row) for row in forced.log_probs] == [3, 4, 8, 1]
    # By hand: the class is the sum of the source ids modulo 3, the context the last two tokens.
    kind = (4 + 5 + 6 + 4 + 5 + END_ID) % 3
    read = [PADDING_ID, BEGIN_ID, 4, 4]
    for place, label in enumerate([4, 4, END_ID]):
        row = model.table[(kind * VOCABULARY + read[place]) * VOCABULARY + read[place + 1]]
        assert forced.log_probs[0][place] == pytest.approx(float(row.log_softmax(-1)[label].detach()), abs=1e-6)
        assert forced.correct[0][place] == (int(row.argmax()) == label)
    assert forced.log_probs[0].dtype == np.float32
    assert any(row.any() for row in forced.correct)
    assert not all(row.all() for row in forced.correct)


@pytest.mark.parametrize("architecture", SMALL)
def test_scores_do_not_depend_on_the_batch(architecture: str) -> None:
    spec = ModelSpec(architecture, architecture_settings(architecture, SMALL[architecture]), 11, 13)
    model = build(spec, seed=3).eval()
    together = force_all(model, SOURCES, TARGETS, vocabulary=13, tokens=1000)
    apart = force_all(model, SOURCES, TARGETS, vocabulary=13, tokens=1)
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        np.testing.assert_allclose(together.log_probs[number], apart.log_probs[number], atol=1e-5)
        assert together.correct[number].tolist() == apart.correct[number].tolist()
        total = float(together.log_probs[number].sum())
        assert total == pytest.approx(log_prob_of(model, source, target), abs=1e-4)


def test_results_are_in_the_order_of_the_text_and_progress_adds_up() -> None:
    model = TableModel(1)
    heard: list[int] = []
    forced = force_all(model, SOURCES, TARGETS, vocabulary=VOCABULARY, tokens=17, advance=heard.append)
    assert [len(row) for row in forced.log_probs] == [len(target) + 1 for target in TARGETS]
    assert sum(heard) == len(TARGETS)
    assert len(heard) > 1
    for source, target, row in zip(SOURCES, TARGETS, forced.log_probs, strict=True):
        assert float(row.sum()) == pytest.approx(log_prob_of(model, source, target), abs=1e-4)


def test_the_summary_counts_labels_and_not_sentences() -> None:
    halves = [np.log(np.array([0.5, 0.25], np.float32)), np.log(np.array([0.5], np.float32))]
    summary = Forced(halves, [np.array([True, False]), np.array([True])]).summary()
    assert (summary["sentences"], summary["tokens"]) == (2, 3)
    assert summary["accuracy"] == pytest.approx(2 / 3)
    assert summary["sentence_accuracy"] == pytest.approx(1 / 2)
    assert summary["loss"] == pytest.approx(math.log(16) / 3)
    assert summary["perplexity"] == pytest.approx(16 ** (1 / 3))
    with pytest.raises(ValueError, match="no sentences"):
        Forced([], []).summary()


def changed(array: np.ndarray, place: tuple[int, int], value: int) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


def test_what_is_not_the_reference_is_never_scored() -> None:
    batch = batch_of_pairs(0, 3)  # 4 5 6 END and 4 4 END padding
    check_labels(batch, TARGETS, VOCABULARY)
    wrong = {
        "labels are not the reference": replace(batch, labels=changed(batch.labels, (0, 1), 6)),
        "do not end where": replace(batch, labels=changed(batch.labels, (1, 3), 4)),
        "shifted by one": replace(batch, prefix=batch.labels),
        "1 labels and 4 prefix positions for 3 pieces": replace(batch, labels=batch.labels[:, :1]),
        "sentence 1: the labels are not the reference": replace(batch, indices=np.array([0, 1])),
    }
    for problem, broken in wrong.items():
        with pytest.raises(ToolError, match=problem):
            check_labels(broken, TARGETS, VOCABULARY)
    with pytest.raises(ToolError, match="id 6 in a vocabulary of 5"):
        force_all(TableModel(1), SOURCES, TARGETS, vocabulary=5)
    with pytest.raises(ToolError, match="padding inside the reference"):
        force_all(TableModel(1), SOURCES[:1], [[4, PADDING_ID, 5]], vocabulary=VOCABULARY)


def test_a_diverged_model_or_one_in_training_mode_says_so() -> None:
    model = TableModel(1)
    with pytest.raises(ValueError, match="training mode"):
        force(model.train(), batch_of_pairs(0))
    with torch.no_grad():
        model.table.fill_(math.nan)
    with pytest.raises(ToolError, match="not numbers"):
        force(model.eval(), batch_of_pairs(0))
