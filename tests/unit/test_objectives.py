"""Objectives: what a configuration may say, word dropout by counting, and what stays bit for bit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from training_files import CopyTask
from trainings import curve, cut_at, finished, same, state, training_of

from alignlens.cli.main import main
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.errors import ConfigError
from alignlens.io.typed import schema_of
from alignlens.training.objectives.contract import Moment
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.registry import OBJECTIVES, ChosenObjective
from alignlens.training.objectives.word_dropout import pieces_of, replaced
from alignlens.workflow.settings import load_settings

WORD_DROPOUTS = ("source_word_dropout", "target_word_dropout")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


# ---- what a configuration may say


def test_every_objective_is_what_a_configuration_may_name(project: Path) -> None:
    for name, spec in OBJECTIVES.items():
        assert spec.summary
        presets = {"bag_of_words": "demo_snell_proxy", "calibrated": "demo_calibrated"}
        model = {"preset": presets[spec.only[0]] if spec.only else "demo_lstm"}
        config = {"preset": "mine", "datasets": ["demo"], "models": {"x": model}}
        config["models"]["x"]["training"] = {"objective": {"name": name}}
        (run,) = load_settings(config, project).models
        assert run.training.objective == ChosenObjective(name, spec.options())
        told = json.loads(run.as_json())["training"]["objective"]
        assert ChosenObjective.from_json(told) == run.training.objective


def test_the_manual_names_every_objective_and_every_option_with_its_default(project: Path) -> None:
    manual = (project / "docs/models.md").read_text()
    for name, spec in OBJECTIVES.items():
        (row,) = re.findall(rf"^\| `{name}` \| (.*?) ?\|", manual, flags=re.MULTILINE)
        told = {key: yaml.safe_load(value) for key, value in re.findall(r"`(\w+): (.+?)`", row)}
        assert told == {key: rule["default"] for key, rule in schema_of(spec.options)["properties"].items()}


def test_every_option_that_is_a_number_has_limits() -> None:
    for name, spec in OBJECTIVES.items():
        for key, rule in schema_of(spec.options)["properties"].items():
            assert "enum" in rule or rule["type"] == "boolean" or {"minimum", "maximum"} <= rule.keys(), (name, key)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ({"name": "cross_entropi"}, r"\.name: unknown objective 'cross_entropi'; known: .*mean cross_entropy"),
        ({"name": "cross_entropy", "share": 0.1}, r"\.share: unknown key 'share'"),
        ({"name": "source_word_dropout", "share": 1.1}, r"\.share: 1.1 must be at most 1"),
        ({"name": "source_word_dropout", "by": "noise"}, r"\.by: 'noise' is not one of random, unknown"),
        ({"name": "minimum_risk", "samples": 0}, r"\.samples: 0 must be at least 1"),
        ({"name": "mask_game", "alpha": -1}, r"\.alpha: -1 must be at least 0"),
        ({"name": "mask_game", "penalty": "none"}, r"\.penalty: 'none' is not one of length, released"),
        ({"name": "minimum_risk", "bleu": "nltk"}, r"\.bleu: 'nltk' is not one of sacrebleu, nltk1"),
        ({"share": 0.1}, ": missing key name"),
        ("cross_entropy", ": 'cross_entropy' is not a mapping"),
    ],
)
def test_a_wrong_objective_is_one_line_in_a_configuration_and_on_the_command_line(
    project: Path, objective: Any, message: str, task: CopyTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"x": {"preset": "demo_lstm", "training": {"objective": objective}}}
    with pytest.raises(ConfigError, match=rf"^config\.models\.x\.training\.objective{message}"):
        load_settings({"preset": "mine", "datasets": ["demo"], "models": models}, project)
    assert main(task.arguments(tmp_path, objective=objective)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("alignlens train: --settings.training.objective")


# ---- word dropout


def ids_of(rows: int, pieces: int, first: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A side of a batch: control symbols at both ends, an unknown one among pieces of id 9."""
    ids = np.full((rows, pieces + 3), 9)
    ids[:, 0] = BEGIN_ID
    ids[:, first + 1] = UNKNOWN_ID
    ids[:, -2], ids[:, -1] = END_ID, PADDING_ID
    return ids


@pytest.mark.parametrize("first", [1, 2])
def test_a_share_of_the_pieces_is_replaced_and_nothing_else(first: int) -> None:
    ids = ids_of(200, 30, first)
    kept = (ids <= PADDING_ID) | (np.arange(ids.shape[1]) < first)
    choices = np.array([20, 21, 22, 23])
    for share in (0.0, 0.1, 0.5, 1.0):
        found, number, among = replaced(ids, first, share, choices, np.random.default_rng(3))
        changed = found != ids
        assert not (changed & kept).any()
        assert (number, among) == (changed.sum(), (~kept).sum())
        # Five standard deviations of so many independent draws; exact where there is nothing to draw.
        assert abs(number - share * among) <= 5 * np.sqrt(share * (1 - share) * among)
        drawn = np.bincount(found[changed], minlength=24)[20:]
        assert (np.abs(drawn - number / 4) <= 5 * np.sqrt(number * 3 / 16)).all()
    assert (ids == ids_of(200, 30, first)).all(), "the batch itself stays as it is"


def test_replacements_are_pieces_of_the_text_and_no_bytes_that_it_never_has(task: CopyTask, tmp_path: Path) -> None:
    store = training_of(task, tmp_path).batches._source
    found = set(pieces_of(store).tolist())
    assert found == {piece for number in range(len(store)) for piece in store[number]}
    assert len(found) < store.vocabulary_size - 200
    assert min(found) > PADDING_ID


@pytest.mark.parametrize(("name", "side"), list(zip(WORD_DROPOUTS, ("source", "prefix"), strict=True)))
@pytest.mark.parametrize("by", ["random", "unknown"])
def test_the_model_reads_wrong_tokens_on_one_side_and_predicts_the_right_ones(
    task: CopyTask, tmp_path: Path, name: str, side: str, by: str
) -> None:
    training = training_of(task, tmp_path, objective={"name": name, "share": 1.0, "by": by})
    batch = next(training.batches.at(training.progress.position))[0]
    read: dict[str, np.ndarray[Any, Any]] = {}

    class Reader(type(training.model)):  # type: ignore[misc]
        def forward(self, source: Any, mask: Any, prefix: Any, keep: Any = None) -> torch.Tensor:
            read.update(source=source.numpy(), prefix=prefix.numpy(), keep=keep.numpy())
            return super().forward(source, mask, prefix, keep)

    training.model.__class__ = Reader
    outcome = training.objective(training.model, batch, Moment(5, 1, 0))
    other = "prefix" if side == "source" else "source"
    first = {"source": 1, "prefix": 2}[side]
    given = getattr(batch, side)
    may = (given > PADDING_ID) & (np.arange(given.shape[1]) >= first)
    assert (read[other] == getattr(batch, other)).all()
    assert (read["keep"] == batch.labels_mask).all()
    assert (read[side][~may] == given[~may]).all()
    if by == "unknown":
        assert (read[side][may] == UNKNOWN_ID).all()
    else:
        assert (read[side][may] > PADDING_ID).all()
        assert (read[side][may] != given[may]).any()
    assert outcome.measured == {"replaced": (may.sum(), may.sum())}
    # The loss is that of the right labels, given what was read.
    torch.manual_seed(1)
    training.model.eval()
    corrupted = replace(batch, **{side: read[side]})
    labels = torch.from_numpy(batch.labels[batch.labels_mask])
    expected = smoothed_cross_entropy(training.objective.logits(training.model, corrupted), labels, 0.1)
    again = training.objective(training.model, batch, Moment(5, 1, 0)).losses["model"]
    torch.testing.assert_close(again, expected)


@pytest.mark.parametrize("name", WORD_DROPOUTS)
def test_without_replacements_it_is_cross_entropy_to_the_last_bit(task: CopyTask, tmp_path: Path, name: str) -> None:
    plain = finished(task, tmp_path / "plain", max_updates=9)
    none = finished(task, tmp_path / "none", max_updates=9, objective={"name": name, "share": 0.0})
    some = finished(task, tmp_path / "some", max_updates=9, objective={"name": name, "share": 0.3})
    assert same(state(plain), state(none))
    assert not same(state(plain), state(some))
    assert curve(none.history, "train_replaced") == [0.0] * len(none.history)
    assert all(0.15 < share < 0.45 for share in curve(some.history, "train_replaced"))
    assert "train_replaced" not in plain.history[0]["values"]


@pytest.mark.parametrize("name", WORD_DROPOUTS)
def test_word_dropout_goes_on_bit_for_bit(task: CopyTask, tmp_path: Path, name: str) -> None:
    changes = {"objective": {"name": name, "share": 0.3}, "validate_sentences": 0}
    whole = finished(task, tmp_path / "whole", **changes)
    for update in (1, 13, 24):
        cut_at(task, tmp_path / str(update), update, **changes)
        resumed = finished(task, tmp_path / str(update), **changes)
        assert same(state(whole), state(resumed)), update
        assert curve(resumed.history, "train_replaced") == curve(whole.history, "train_replaced")


def test_moments_have_numbers_of_their_own_for_every_purpose() -> None:
    drawn = {
        (moment, purpose): tuple(moment.generator(purpose).random(3))
        for moment in (Moment(1, 1, 0), Moment(1, 1, 1), Moment(1, 2, 0), Moment(2, 1, 0))
        for purpose in ("samples", "word dropout")
    }
    assert len(set(drawn.values())) == len(drawn)
    assert tuple(Moment(1, 2, 0).generator("samples").random(3)) == drawn[Moment(1, 2, 0), "samples"]
