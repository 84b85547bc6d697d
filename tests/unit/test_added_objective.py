"""An objective that the loop knows nothing about, and trainings that begin with a trained model."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_files import MODELS, TRAINING, CopyTask
from trainings import curve, cut_at, finished, same, state, training_of

from alignlens.cli.main import main
from alignlens.corpora.batches import Batch
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.sampling import sample
from alignlens.decoding.settings import SamplingSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.limits import Limits
from alignlens.io.typed import setting
from alignlens.models.checkpoint import load_tensors
from alignlens.models.contract import Seq2Seq
from alignlens.training.objectives.contract import Material, Moment, Objective, Outcome, Player
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.registry import OBJECTIVES, ObjectiveSpec


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


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
    with pytest.raises(ConfigError, match=r"^training\.objective: later starts from a trained model; .*--start-from"):
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
    with pytest.raises(InputError, match=r"start_from = \".*\", but now start_from = null"):
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
