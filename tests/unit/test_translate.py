"""Whole texts: order, budget, empty lines, and the way from a model folder to words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from table_model import TableModel, batch_of
from tiny_folder import SMALL, SOURCE, TARGET, write_folder

from alignlens.corpora.tokens import TokenStore, TokenWriter
from alignlens.decoding.beam import beam_search
from alignlens.decoding.forced import force_all
from alignlens.decoding.given import Given
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.decoding.translate import TrainedModel, decode, translate
from alignlens.errors import InputError

SOURCES = [[4], [], [5, 4, 6], [6, 6], [4, 5, 6, 4, 5], [], [5], [6, 4, 5, 5, 4, 6, 4]]
SETTINGS = BeamSettings(3, max_ratio=1, max_offset=3)


def test_translations_come_in_the_order_of_the_text_whatever_the_budget() -> None:
    model = TableModel(3, spread=3.0)
    expected = [beam_search(model, *batch_of(ids), SETTINGS)[0][0].ids if ids else () for ids in SOURCES]
    assert len(set(expected)) > 3
    for tokens in (1, 30, 10_000):
        heard: list[int] = []
        found = translate(model, SOURCES, SETTINGS, tokens=tokens, advance=heard.append)
        assert [hypothesis.ids for hypothesis in found] == expected
        assert sum(heard) == len(SOURCES)


def test_the_budget_counts_every_hypothesis() -> None:
    model = TableModel(5)
    translate(model, [[4, 5, 6]] * 7, SETTINGS, tokens=3 * 4 * 2)  # two sentences of four tokens, three times
    assert max(model.rows_read) == 3 * 2
    model.rows_read.clear()
    decode(model, [[4, 5, 6]] * 7, SamplingSettings(5), tokens=5 * 4 * 2)
    assert max(model.rows_read) == 5 * 2


def test_draws_belong_to_the_place_in_the_text() -> None:
    model = TableModel(5, spread=0.5)
    settings = SamplingSettings(3, max_ratio=1, max_offset=5)
    small, large = (decode(model, SOURCES, settings, tokens=tokens) for tokens in (1, 10_000))
    assert small == large
    assert [len(draws) for draws in small] == [3] * len(SOURCES)
    assert small[1] == small[5]
    assert {draw.ids for draw in small[1]} == {()}


def test_a_token_store_is_as_good_as_lists(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "store", 7, "bpe") as writer:
        for ids in SOURCES:
            writer.append(ids)
    model = TableModel(5)
    store = TokenStore.open(tmp_path / "store")
    assert translate(model, store, SETTINGS) == translate(model, SOURCES, SETTINGS)
    arrays = [np.array(ids, dtype=np.uint16) for ids in SOURCES]
    assert translate(model, arrays, SETTINGS) == translate(model, SOURCES, SETTINGS)
    assert translate(model, [], SETTINGS) == []


def test_a_model_folder_turns_words_into_ids_and_back(tmp_path: Path) -> None:
    trained = TrainedModel.load(write_folder(tmp_path / "model"))
    assert not trained.model.training
    ids = trained.target_ids(Given("target", TARGET))
    assert [trained.text(ids[number]) for number in range(len(ids))] == TARGET
    assert trained.source_ids(Given("source", SOURCE)).gather(np.arange(4))[0].max() < trained.spec.source_vocab
    other = TrainedModel.load(tmp_path / "model", "best")
    assert not all(
        (one == two).all() for one, two in zip(trained.model.parameters(), other.model.parameters(), strict=True)
    )


@pytest.mark.parametrize("architecture", SMALL)
def test_forced_scores_of_what_was_found_are_those_of_the_search(tmp_path: Path, architecture: str) -> None:
    trained = TrainedModel.load(write_folder(tmp_path / "model", architecture))
    sources = trained.source_ids(Given("source", SOURCE))
    found = decode(trained.model, sources, BeamSettings(3, max_ratio=0, max_offset=7, n_best=2))
    drawn = decode(trained.model, sources, SamplingSettings(2, 1.3, max_ratio=0, max_offset=7))
    for hypotheses in zip(*found, strict=True), zip(*drawn, strict=True):
        for those in hypotheses:
            targets = [hypothesis.ids for hypothesis in those]
            forced = force_all(trained.model, sources, targets, vocabulary=trained.spec.target_vocab)
            for hypothesis, log_probs in zip(those, forced.log_probs, strict=True):
                assert hypothesis.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-4)


def test_a_folder_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    other = write_folder(tmp_path / "other", vocab=290)
    (other / "target.model").replace(folder / "target.model")
    (folder / "seal.json").unlink(missing_ok=True)  # It would tell first.
    with pytest.raises(InputError, match=r"target\.model: 290 pieces, but the model .* 300"):
        TrainedModel.load(folder)
    with pytest.raises(InputError, match="The folder has: best, weights"):
        TrainedModel.load(folder, "averaged")


def test_a_sentence_without_positions_is_named_by_file_and_line(tmp_path: Path) -> None:
    trained = TrainedModel.load(write_folder(tmp_path / "model", "fconv"))
    with pytest.raises(InputError, match=r"^text\.de:2: \d+ pieces; this model has positions for at most 31"):
        trained.source_ids(Given("text.de", ["der hund", "der hund " * 40]))
