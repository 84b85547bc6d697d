"""The released loss of the bag of words: start symbols and padding in closed form, and as random batches have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_files import CopyTask
from trainings import curve, cut_at, finished, same, state, training_of

from alignlens.corpora.batches import Batch, make_batch
from alignlens.corpora.symbols import BEGIN_ID, PADDING_ID
from alignlens.training.loop import Training
from alignlens.training.objectives.contract import Moment

NAME = "padded_cross_entropy"
BAG: dict[str, Any] = {"architecture": "bag_of_words", "model": {"dim": 8}, "validate_sentences": 0}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def bag(task: CopyTask, folder: Path, sentences: int) -> tuple[Training, Batch]:
    training = training_of(task, folder, objective={"name": NAME, "sentences": sentences}, **BAG)
    return training, next(training.batches.at(training.progress.position))[0]


@pytest.mark.parametrize("sentences", [1, 64])
def test_the_loss_is_that_of_padded_rows_written_out(task: CopyTask, tmp_path: Path, sentences: int) -> None:
    training, batch = bag(task, tmp_path, sentences)
    padding = training.objective.padding(batch)
    outcome = training.objective(training.model, batch, Moment(5, 1, 0))
    model, expected, symbols = training.model.double(), 0.0, 0
    for row in range(batch.sentences):
        source = batch.source[row][batch.source_mask[row]]
        mean = model.source_table.weight[source].mean(0)
        log_p = torch.log_softmax(model.output.weight @ mean + model.output.bias, 0)
        said = [BEGIN_ID, *batch.labels[row][batch.labels_mask[row]], *[PADDING_ID] * padding[row]]
        expected -= float(log_p[said].sum().detach())
        symbols += len(said)
    assert float(outcome.losses["model"]) == pytest.approx(expected, rel=1e-5)
    assert training.objective.count(batch) == symbols
    assert outcome.measured == {"padding": (padding.sum(), symbols)}
    assert (padding.sum() == 0) == (sentences == 1)


def test_padding_is_that_of_batches_drawn_at_random(task: CopyTask, tmp_path: Path) -> None:
    training, _ = bag(task, tmp_path, 16)
    source, target = training.batches._source, training.batches._target
    lengths = target.lengths(np.arange(len(target))) + 1
    random = np.random.default_rng(1)
    drawn = [random.choice(lengths, 16) for _ in range(4000)]
    expected = np.mean([each.max() - each.mean() for each in drawn])
    rows = np.arange(len(target))
    found = np.mean(
        [training.objective.padding(make_batch(source, target, part)).mean() for part in np.array_split(rows, 4)]
    )
    # Draws of a quarter of the text at a time: a few hundred rows, whose own lengths are exact.
    assert found == pytest.approx(expected, rel=0.1)
    assert expected > 1


def test_padding_does_not_depend_on_when_it_is_asked_for(task: CopyTask, tmp_path: Path) -> None:
    training, batch = bag(task, tmp_path, 64)
    first = training.objective.padding(batch)
    training.objective(training.model, batch, Moment(5, 3, 1))
    assert (training.objective.padding(batch) == first).all()


def test_it_goes_on_bit_for_bit(task: CopyTask, tmp_path: Path) -> None:
    changes = {"objective": {"name": NAME}, **BAG}
    whole = finished(task, tmp_path / "whole", **changes)
    cut_at(task, tmp_path / "cut", 13, **changes)
    resumed = finished(task, tmp_path / "cut", **changes)
    assert same(state(whole), state(resumed))
    assert curve(resumed.history, "train_padding") == curve(whole.history, "train_padding")
    assert all(0 < share < 1 for share in curve(whole.history, "train_padding"))
    losses = curve(whole.history, "train_loss")
    assert losses[-1] < losses[0]
