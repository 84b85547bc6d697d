"""Objectives: word dropout by counting, what stays bit for bit, and a new one that the loop knows nothing about."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from training_files import MODELS, TRAINING, CopyTask

from alignlens.cli.main import main
from alignlens.corpora.batches import Batch
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.decoding.sampling import sample
from alignlens.decoding.settings import SamplingSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.limits import Limits
from alignlens.io.typed import schema_of, setting
from alignlens.models.checkpoint import load_tensors
from alignlens.models.contract import Seq2Seq
from alignlens.training.assembly import assemble
from alignlens.training.loop import Training, Watcher
from alignlens.training.objectives.contract import Material, Moment, Objective, Outcome, Player
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.registry import OBJECTIVES, ChosenObjective, ObjectiveSpec
from alignlens.training.objectives.word_dropout import pieces_of, replaced
from alignlens.training.processes import Processes
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.settings import load_settings

SILENT = Watcher(lambda record: None, lambda note: None)
WORD_DROPOUTS = ("source_word_dropout", "target_word_dropout")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def training_of(task: CopyTask, work: Path, start_from: Path | None = None, **changes: Any) -> Training:
    torch.set_num_threads(1)
    settings = TrainingSettings.from_json({**TRAINING, **changes})
    alone = Processes(0, 1, torch.device("cpu"))
    model = MODELS["transformer"]
    return assemble(task.files, "transformer", model, False, settings, 5, work, alone, start_from)[0]


def finished(task: CopyTask, work: Path, **changes: Any) -> Training:
    training = training_of(task, work, **changes)
    training.run(SILENT)
    return training


def state(training: Training) -> dict[str, torch.Tensor]:
    return load_tensors(training.work.folder / "state.safetensors")[0]


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def cut_at(task: CopyTask, work: Path, update: int, **changes: Any) -> None:
    training = training_of(task, work, **changes)

    def count(note: str) -> None:
        if training.progress.update == update:
            raise PowerCut

    with pytest.raises(PowerCut):
        training.run(Watcher(lambda record: None, count))


def curve(records: Iterable[dict[str, Any]], name: str) -> list[float]:
    return [record["values"][name] for record in records]


# ---- what a configuration may say


def test_every_objective_is_what_a_configuration_may_name(project: Path) -> None:
    for name, spec in OBJECTIVES.items():
        assert spec.summary
        config = {"preset": "mine", "datasets": ["demo"], "models": {"x": {"preset": "demo_lstm"}}}
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


# ---- an objective that the loop knows nothing about


@dataclass(frozen=True)
class GameOptions:
    """A game of two."""

    penalty: float = setting(0.5, "What a change of the logits costs the second player.", Limits(0, 10), "enough")


class Game(Objective):
    """The model lowers its loss and the expected length of its samples; a factor of its logits raises the loss."""

    metrics = ("length", "factor")

    def __init__(self, options: GameOptions, material: Material) -> None:
        super().__init__(options, material)
        self.penalty = options.penalty
        self.factor = torch.nn.Parameter(1 + 0.1 * torch.randn(()))
        self.mean_length = torch.nn.Parameter(torch.zeros(()), requires_grad=False)

    def players(self, model: Seq2Seq) -> dict[str, Player]:
        return {"model": Player(tuple(model.parameters())), "factor": Player((self.factor,), rate=10.0)}

    def count(self, batch: Batch) -> int:
        return batch.sentences

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        samples = self._sampled(model, batch, moment)
        lengths = [len(ids) for ids in samples]
        self.mean_length.mul_(0.9).add_(0.1 * sum(lengths) / len(lengths))
        labels = torch.from_numpy(batch.labels[batch.labels_mask])
        loss = smoothed_cross_entropy(self.logits(model, batch), labels, 0.0)
        weighted = loss * (1 + 0.01 * self.mean_length) + self._risk(model, batch, samples)
        perturbed = smoothed_cross_entropy(self.factor * self.logits(model, batch), labels, 0.0)
        penalty = self.penalty * len(labels) * (1 - self.factor) ** 2
        measured = {"length": (sum(lengths), len(lengths)), "factor": (self.factor.item(), 1)}
        return Outcome({"model": weighted, "factor": penalty - perturbed}, measured)

    @staticmethod
    def _sampled(model: Seq2Seq, batch: Batch, moment: Moment) -> list[tuple[int, ...]]:
        seed = int(moment.generator("samples").integers(2**31))
        settings = SamplingSettings(samples=2, seed=seed, max_ratio=1.0, max_offset=3)
        model.eval()
        source, mask = torch.from_numpy(batch.source), torch.from_numpy(batch.source_mask)
        drawn = sample(model, source, mask, settings, batch.indices.tolist())
        model.train()
        return [hypothesis.ids for hypotheses in drawn for hypothesis in hypotheses]

    def _risk(self, model: Seq2Seq, batch: Batch, samples: list[tuple[int, ...]]) -> torch.Tensor:
        """Returns the length of the two samples of every sentence, weighted by what the model thinks of them."""
        labels = np.full((len(samples), max(map(len, samples)) + 1), PADDING_ID)
        prefix = labels.copy()
        prefix[:, 0] = BEGIN_ID
        for row, ids in enumerate(samples):
            prefix[row, 1 : len(ids) + 1] = labels[row, : len(ids)] = ids
            labels[row, len(ids)] = END_ID
        twice = np.repeat(np.arange(batch.sentences), 2)
        asked = Batch(batch.indices[twice], batch.source[twice], batch.source_mask[twice], prefix, labels)
        wanted = torch.from_numpy(labels[asked.labels_mask])[:, None]
        log_probs = self.logits(model, asked).log_softmax(-1).gather(1, wanted)[:, 0]
        rows = torch.from_numpy(asked.labels_mask.nonzero()[0])
        weights = (0.05 * torch.zeros(len(samples)).index_add(0, rows, log_probs)).view(-1, 2).softmax(1)
        return (weights * torch.tensor([float(len(ids)) for ids in samples]).view(-1, 2)).sum()


@pytest.fixture
def game(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """One entry, and nothing else."""
    monkeypatch.setitem(OBJECTIVES, "game", ObjectiveSpec("a game", GameOptions, lambda: Game))
    return {"objective": {"name": "game", "penalty": 2.0}, "validate_sentences": 0, "snapshots": []}


def test_one_entry_is_an_objective_with_parameters_samples_and_a_second_player(
    game: dict[str, Any], task: CopyTask, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    assert main(task.arguments(tmp_path, **game)) == 0
    own, about = load_tensors(tmp_path / "model/objective.safetensors")
    assert about == {"update": 24}
    assert own.keys() == {"factor", "mean_length"}
    rows = list(csv.DictReader((tmp_path / "model/curves.csv").open()))
    assert [float(row["train_factor"]) > 0 for row in rows] == [True] * 3
    assert all(0 <= float(row["train_length"]) <= 20 for row in rows)
    card = json.loads((tmp_path / "model/model.json").read_text())
    assert card["training"]["objective"] == game["objective"]
    told = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    params = next(event["params"] for event in told if "params" in event)
    assert (params["objective"], params["objective_penalty"]) == ("game", 2.0)


def test_it_goes_on_bit_for_bit_with_what_it_trains_and_what_it_keeps(
    game: dict[str, Any], task: CopyTask, tmp_path: Path
) -> None:
    whole = finished(task, tmp_path / "whole", **game)
    saved = state(whole)
    assert {"objective.factor", "objective.mean_length", "optimizer.exp_avg.objective.factor"} <= saved.keys()
    assert float(saved["objective.mean_length"]) > 0
    for update in (1, 9, 17):
        cut_at(task, tmp_path / str(update), update, **game)
        resumed = finished(task, tmp_path / str(update), **game)
        assert same(saved, state(resumed)), update
        for name in ("train_loss", "train_length", "train_factor"):
            assert curve(resumed.history, name) == curve(whole.history, name)


class Divided(Game):
    """The second player has a part of the model besides, as a mask inside of it would be."""

    def players(self, model: Seq2Seq) -> dict[str, Player]:
        own = [model.output.weight]
        rest = [parameter for parameter in model.parameters() if parameter is not own[0]]
        return {"model": Player(tuple(rest)), "factor": Player((self.factor, *own))}


@pytest.mark.parametrize("kind", [Game, Divided])
def test_every_player_follows_its_own_loss_alone(
    game: dict[str, Any], task: CopyTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Game]
) -> None:
    monkeypatch.setitem(OBJECTIVES, "game", ObjectiveSpec("a game", GameOptions, lambda: kind))
    training = training_of(task, tmp_path, **game)
    model, objective, players = training.model, training.objective, training.players
    batch = next(training.batches.at(training.progress.position))[0]
    moment = Moment(5, 1, 0)

    def outcome() -> Outcome:
        torch.manual_seed(moment.torch_seed)  # for dropout
        with torch.no_grad():
            objective.mean_length.zero_()
        return objective(model, batch, moment)

    losses = outcome().losses
    expected = {
        name: torch.autograd.grad(losses[name], player.parameters, retain_graph=True)
        for name, player in players.items()
    }
    training._backward(outcome(), objective.count(batch))
    for name, player in players.items():
        for parameter, gradient in zip(player.parameters, expected[name], strict=True):
            torch.testing.assert_close(parameter.grad, gradient / batch.sentences)
            assert gradient.any()


def test_every_player_has_its_own_rate_and_its_own_norm(game: dict[str, Any], task: CopyTask, tmp_path: Path) -> None:
    training = finished(task, tmp_path, max_updates=1, clip=1e-3, schedule="constant", warmup=0, **game)
    assert [group["lr"] for group in training.optimizer.param_groups] == [5e-3, 10 * 5e-3]
    for player in training.players.values():
        # Adam's first average is a tenth of the gradient, which was clipped for each player alone.
        moments = [training.optimizer.state[each]["exp_avg"] for each in player.parameters]
        assert float(torch.nn.utils.get_total_norm(moments)) == pytest.approx(1e-4, rel=1e-2)


def test_an_objective_may_ask_for_a_trained_model(
    monkeypatch: pytest.MonkeyPatch, task: CopyTask, tmp_path: Path
) -> None:
    needing = replace(OBJECTIVES["cross_entropy"], needs_start=True)
    monkeypatch.setitem(OBJECTIVES, "later", needing)
    with pytest.raises(ConfigError, match=r"^training\.objective: later goes on from a trained model; .*--start-from"):
        training_of(task, tmp_path, objective={"name": "later"})


# ---- beginning with a trained model


@pytest.fixture(scope="module")
def trained(task: CopyTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder after 24 updates."""
    place = tmp_path_factory.mktemp("trained")
    assert main(task.arguments(place)) == 0
    return place / "model"


def test_a_training_begins_with_the_weights_of_another(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"max_updates": 16, "schedule": "constant", "learning_rate": 1e-4, "warmup": 0}
    arguments = [*task.arguments(tmp_path / "more", **changes), "--start-from", str(trained)]
    assert main(arguments) == 0
    kept = load_tensors(trained / "weights.safetensors")[0]
    begun = load_tensors(tmp_path / "more/model/snapshots/000000.safetensors")[0]
    assert same(kept, begun)
    before, after = (
        json.loads((folder / "model.json").read_text())["best"]["dev_loss"]
        for folder in (trained, tmp_path / "more/model")
    )
    assert after < before
    cut_at(task, tmp_path / "cut", 11, start_from=trained, **changes)
    whole = finished(task, tmp_path / "whole", start_from=trained, **changes)
    assert same(state(whole), state(finished(task, tmp_path / "cut", start_from=trained, **changes)))


def test_a_stopped_training_notices_another_start(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    cut_at(task, tmp_path, 9, start_from=trained)
    with pytest.raises(InputError, match=r"start_from = \".*\" is here, and now start_from = null"):
        training_of(task, tmp_path)


def test_only_a_model_of_the_same_kind_can_be_begun_with(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["--start-from", str(trained)]
    assert main([*task.arguments(tmp_path / "lstm", "lstm"), *start]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(
            f'alignlens train: {trained}: a model with architecture = "transformer", but here architecture = "lstm".'
        )
    )
    heads = {"architecture": "transformer", "model": {**MODELS["transformer"], "heads": 4}, "training": TRAINING}
    assert main([*task.arguments(tmp_path / "heads"), *start, "--settings", json.dumps(heads)]) == 2
    assert "a model with settings.heads = 2, but here settings.heads = 4." in capsys.readouterr().err
    other = CopyTask.write(tmp_path / "other", pairs=90)
    assert main([*other.arguments(tmp_path / "place"), *start]) == 2
    assert "its source pieces are not those of" in capsys.readouterr().err
    assert main([*task.arguments(tmp_path / "none"), "--start-from", str(tmp_path)]) == 2
    assert "not a model folder" in capsys.readouterr().err
