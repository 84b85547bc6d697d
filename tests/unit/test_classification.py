"""Classifiers: parameters, closed forms, what is frozen, padding, gradients, interruptions, and known keywords."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from alignlens.classification import training
from alignlens.classification.examples import Examples, in_order
from alignlens.classification.explain import QUANTITIES, explained
from alignlens.classification.folder import TrainedClassifier, assemble, write_classifier
from alignlens.classification.logistic import STRENGTHS, fit
from alignlens.classification.model import Classifier, build
from alignlens.classification.prepare import Prepared
from alignlens.classification.recurrence import hidden_states
from alignlens.classification.settings import ClassifierRecipe
from alignlens.cli.main import main
from alignlens.errors import ConfigError, InputError
from alignlens.io.trajectories import Trajectory
from alignlens.models.checkpoint import load_tensors
from alignlens.training.loop import TrainingError, Watcher

SILENT = Watcher(lambda record: None, lambda note: None)
SMALL = {"hidden": 6, "embedding": 5}
DATASETS = str(Path(__file__).parents[2] / "config/datasets.yaml")
WORDS = 20


def recipe(model: dict[str, Any] | None = None, **changes: Any) -> ClassifierRecipe:
    return ClassifierRecipe.from_json({"model": model or {}, "training": changes}, "--settings")


def made(**model: Any) -> Classifier:
    return build(recipe({**SMALL, **model}).model, WORDS, seed=3)


@pytest.fixture
def examples() -> Examples:
    random = np.random.default_rng(2)
    texts = [random.integers(0, WORDS, length).tolist() for length in (9, 2, 5, 5, 12, 1)]
    return Examples.of(texts, [True, False, True, False, False, True])


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("texts") / "texts"
    assert main(["classify", "prepare", "demo-keywords", "--datasets", DATASETS, "--out", str(folder)]) == 0
    return Prepared.open(folder)


def all_of(examples: Examples) -> Any:
    return examples.batch(np.arange(len(examples)))


# ---- sizes ---------------------------------------------------------------------------------------------------


def test_parameters_are_those_of_the_paper() -> None:
    printed = {60338: 19376282, 31065: 10594382, 12488: 5021282, 11022: 4581482, 41368: 13685282, 37110: 12407882}
    for words, parameters in printed.items():
        with torch.device("meta"):
            model = build(recipe().model, words)
        assert model.sizes() == {"parameters": parameters, "parameters_without_embeddings": 1274882}
    with torch.device("meta"):
        one, bag = (build(recipe(each).model, 100) for each in ({"bidirectional": False}, {"kind": "bag_of_words"}))
    assert one.sizes()["parameters_without_embeddings"] == 571_392 + 257 * 256 + 257 + 257
    assert bag.sizes() == {"parameters": 256 * 100 + 257, "parameters_without_embeddings": 257}


def test_settings_have_the_defaults_of_their_kind_and_mistakes_are_told() -> None:
    usual, bag = recipe().training, recipe({"kind": "bag_of_words"}).training
    assert (usual.updates, usual.epochs, usual.learning_rate, usual.batch) == (4000, None, 1e-3, 32)
    assert (bag.updates, bag.epochs, bag.learning_rate, bag.snapshots) == (None, 60, 1.5e-4, (0,))
    assert recipe({"kind": "bag_of_words"}, updates=7).training.epochs is None
    for each in (recipe(), recipe({"kind": "bag_of_words"}), recipe({"trained": "attention"}, epochs=3)):
        assert ClassifierRecipe.from_json(json.loads(json.dumps(each.as_json())), "x") == each
    for model, changes, text in (
        ({"attention": "even"}, {}, "--settings.model.attention: 'even' is not one of learned, uniform"),
        ({"trained": "attention", "attention": "uniform"}, {}, "--settings.model.trained: attention needs"),
        ({}, {"updates": 3, "epochs": 2}, "--settings.training.epochs: give updates or epochs, not both"),
        ({}, {"batch": 0}, "--settings.training.batch: 0 must be at least 1"),
        ({}, {"snapshot": 1}, "--settings.training.snapshot: unknown key"),
    ):
        with pytest.raises(ConfigError) as caught:
            recipe(model, **changes)
        assert text in str(caught.value)


# ---- closed forms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("lengths", [(6, 4, 4, 1), (3, 3), (1,), (40, 1)])
def test_states_and_gradients_are_those_of_the_library(bidirectional: bool, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(5, 4, bidirectional=bidirectional, batch_first=True).double()
    vectors = torch.randn(7, 5, dtype=torch.double, requires_grad=True)
    which, sizes = torch.randint(0, 7, (sum(lengths),)), torch.tensor(lengths)
    states = hidden_states(lstm, vectors, which, sizes)
    packed = pack_padded_sequence(pad_sequence(vectors[which].split(list(lengths)), True), sizes, batch_first=True)
    rows, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    expected = torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])
    torch.testing.assert_close(states, expected)
    weights, given = torch.randn_like(states), [vectors, *lstm.parameters()]
    found = torch.autograd.grad((states * weights).sum(), given)
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), given))


def test_a_second_derivative_of_the_same_steps_is_refused() -> None:
    lstm = torch.nn.LSTM(2, 3, batch_first=True)
    vectors = torch.randn(2, 2, requires_grad=True)
    total = hidden_states(lstm, vectors, torch.tensor([0, 1]), torch.tensor([2])).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="taken before"):
        total.backward()


def by_hand(model: Any, ids: np.ndarray, positive: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns attention, probe and score of one text, from the weights alone."""
    vectors = model.table.weight[torch.from_numpy(ids.astype(np.int64))]
    states = model.encoder(vectors[None])[0][0]
    logits = torch.stack(
        [
            model.attend.weight[0] @ torch.relu(model.query.weight @ h + model.query.bias) + model.attend.bias[0]
            for h in states
        ]
    )
    attention = torch.exp(logits) / torch.exp(logits).sum()
    if model.settings.attention == "uniform":
        attention = torch.full_like(logits, 1 / len(ids))
    gamma = states @ model.output.weight[0] + model.output.bias
    return attention, (1 if positive else -1) * gamma, attention @ gamma


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"bidirectional": False}])
def test_attention_probe_and_score_by_hand(examples: Examples, changes: dict[str, Any]) -> None:
    model = made(**changes)
    batch = all_of(examples)
    found, score = explained(model, batch, QUANTITIES)
    for row, number in enumerate(batch.numbers):
        ids = examples.ids[examples.starts[number] : examples.starts[number + 1]]
        attention, probe, expected = by_hand(model, ids, bool(examples.labels[number]))
        torch.testing.assert_close(found["attention"][row, : len(ids)], attention.detach())
        torch.testing.assert_close(found["probe"][row, : len(ids)], probe.detach())
        torch.testing.assert_close(score[row], expected.detach())
        assert not found["attention"][row, len(ids) :].any()
        assert not found["probe"][row, len(ids) :].any()


def test_a_bag_of_words_is_a_mean_and_its_probe_has_no_bias(examples: Examples) -> None:
    model: Any = made(kind="bag_of_words")
    batch = all_of(examples)
    found, score = explained(model, batch, QUANTITIES)
    for row, number in enumerate(batch.numbers):
        ids = torch.from_numpy(examples.ids[examples.starts[number] : examples.starts[number + 1]].astype(np.int64))
        said = (model.table.weight[ids] @ model.output.weight[0]).detach()
        sign = 1 if examples.labels[number] else -1
        torch.testing.assert_close(found["probe"][row, : len(ids)], sign * said)
        torch.testing.assert_close(score[row], said.mean() + model.output.bias[0].detach())
        torch.testing.assert_close(found["attention"][row, : len(ids)], torch.full((len(ids),), 1 / len(ids)))


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"bidirectional": False}, {"kind": "bag_of_words"}])
def test_saliency_is_the_slope_of_the_log_probability(examples: Examples, changes: dict[str, Any]) -> None:
    """Along e_l * (1 + t) the log-probability of the label changes by the saliency of l, to first order."""
    model = made(**changes).double()
    batch = all_of(examples)
    found, _ = explained(model, batch, QUANTITIES)
    vectors = model.table.weight.detach()[torch.from_numpy(batch.ids)]
    sign = torch.from_numpy(batch.labels).double() * 2 - 1
    lengths, which, step = torch.from_numpy(batch.lengths), torch.arange(len(vectors)), 1e-5

    def log_probability(token: int, change: float) -> torch.Tensor:
        moved = vectors.clone()
        moved[token] *= 1 + change
        return torch.nn.functional.logsigmoid(sign * model(moved, which, lengths).score)

    token = 0
    for row, length in enumerate(batch.lengths):
        for place in range(length):
            slope = (log_probability(token, step) - log_probability(token, -step))[row].detach() / (2 * step)
            assert float(found["grad_input"][row, place]) == pytest.approx(float(slope), rel=1e-5, abs=1e-9)
            token += 1


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"kind": "bag_of_words"}])
def test_neither_padding_nor_neighbours_change_an_explanation(examples: Examples, changes: dict[str, Any]) -> None:
    model = made(**changes)
    together, scores = explained(model, all_of(examples), QUANTITIES)
    places = {number: row for row, number in enumerate(all_of(examples).numbers.tolist())}
    for number in range(len(examples)):
        alone, score = explained(model, examples.batch(np.array([number])), QUANTITIES)
        assert alone["attention"].sum() == pytest.approx(1)
        torch.testing.assert_close(scores[places[number]], score[0])
        for name, values in alone.items():
            padded = together[name][places[number]]
            torch.testing.assert_close(padded[: values.shape[1]], values[0], rtol=1e-4, atol=1e-6)
            assert not padded[values.shape[1] :].any()
    without, _ = explained(model, all_of(examples), ["probe", "attention"])
    torch.testing.assert_close(without["probe"], together["probe"])
    assert list(without) == ["probe", "attention"]


# ---- training ------------------------------------------------------------------------------------------------


def loop_of(texts: Prepared, work: Path, model: dict[str, Any] | None = None, **changes: Any) -> Any:
    torch.set_num_threads(1)
    return assemble(texts, recipe({**SMALL, **(model or {})}, **{"updates": 12, **changes}), 5, work)


@pytest.mark.parametrize(
    ("model", "frozen"),
    [
        ({"attention": "uniform"}, {"query.weight", "query.bias", "attend.weight", "attend.bias"}),
        (
            {"trained": "attention"},
            {"table.weight", "output.weight", "output.bias"}
            | {
                f"encoder.{part}_{kind}_l0{end}"
                for part in ("weight", "bias")
                for kind in ("ih", "hh")
                for end in ("", "_reverse")
            },
        ),
        ({}, set()),
        ({"kind": "bag_of_words"}, set()),
    ],
)
def test_what_is_frozen_stays_bit_for_bit(
    texts: Prepared, tmp_path: Path, model: dict[str, Any], frozen: set[str]
) -> None:
    loop = loop_of(texts, tmp_path, model)
    before = {name: each.detach().clone() for name, each in loop.model.named_parameters()}
    loop.run(SILENT)
    same = {name for name, each in loop.model.named_parameters() if torch.equal(each, before[name])}
    # The softmax does not see a number that is added to all of its logits.
    assert same - {"attend.bias"} == frozen - {"attend.bias"}
    assert ("attend.bias" in same) >= ("attend.bias" in frozen)


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def cut_at(loop: Any, update: int) -> None:
    def count(note: str) -> None:
        if loop.progress.update == update:
            raise PowerCut

    with pytest.raises(PowerCut):
        loop.run(Watcher(lambda record: None, count))


@pytest.mark.parametrize("model", [{}, {"trained": "attention"}, {"kind": "bag_of_words"}])
def test_a_training_goes_on_bit_for_bit(
    texts: Prepared, tmp_path: Path, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_SAVE_EVERY_SECONDS", 0.0)
    told = {"updates": 120, "snapshots": [0, 10, 60], "snapshot_every": 50}  # more than two epochs
    chosen = recipe({**SMALL, **model}, **told)
    straight, cut = loop_of(texts, tmp_path / "a", model, **told), loop_of(texts, tmp_path / "b", model, **told)
    straight.run(SILENT)
    write_classifier(tmp_path / "straight", straight, chosen, texts)
    for update in (1, 49, 75):
        cut_at(cut, update)
        cut = loop_of(texts, tmp_path / "b", model, **told)
        assert cut.progress.update == update - 1  # the update that the power cut hit was not saved
    cut.run(SILENT)
    write_classifier(tmp_path / "cut", cut, chosen, texts)
    names = sorted(path.relative_to(tmp_path / "cut") for path in (tmp_path / "cut").rglob("*") if path.is_file())
    assert [name.as_posix() for name in names if name.suffix == ".safetensors"] == [
        *(f"snapshots/{update:06d}.safetensors" for update in (0, 10, 50, 60, 100)),
        "weights.safetensors",
    ]
    for name in names:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name
    with pytest.raises(InputError, match=r"a stopped training with training.batch = 32 is here, and now"):
        loop_of(texts, tmp_path / "b", model, **{**told, "batch": 16})


def test_curves_snapshots_and_the_best_weights(texts: Prepared, tmp_path: Path) -> None:
    chosen = recipe(SMALL, updates=30, snapshots=[0, 4, 99], snapshot_every=20, learning_rate=0.02)
    loop = assemble(texts, chosen, 1, tmp_path / "work")
    loop.run(SILENT)
    write_classifier(tmp_path / "model", loop, chosen, texts)
    trained = TrainedClassifier(tmp_path / "model")
    assert list(trained.checkpoints) == ["000000", "000004", "000020", "final"]
    rows = list(csv.DictReader((tmp_path / "model/curves.csv").open()))
    assert [int(row["update"]) for row in rows] == [0, 4, 20, 30]
    assert rows[0]["train_loss"] == ""
    best = max(rows, key=lambda row: float(row["dev_accuracy"]))
    assert trained.card["best"]["update"] == int(best["update"])
    assert load_tensors(tmp_path / "model/weights.safetensors")[1]["update"] == int(best["update"])
    found = training.measured(trained.at("final"), texts.splits["dev"])
    assert found == {"accuracy": float(best["dev_accuracy"]), "loss": float(best["dev_loss"])}
    first = build(chosen.model, len(texts.words), 1)
    assert training.measured(first, texts.splits["dev"])["loss"] == float(rows[0]["dev_loss"])
    bag = recipe({**SMALL, "kind": "bag_of_words"}, epochs=2, batch=100)
    loop = assemble(texts, bag, 1, tmp_path / "work2")
    loop.run(SILENT)
    assert [record["update"] for record in loop.history] == [0, 16, 32]
    assert loop.snapshots == [0]


def test_a_loss_that_is_no_number_stops_the_training(texts: Prepared, tmp_path: Path) -> None:
    loop = loop_of(texts, tmp_path)
    loop.model.output.bias.data.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"update 1: the loss is nan at learning rate 0\.001\."):
        loop.run(SILENT)


def train(texts: Prepared, folder: Path, *more: str, **options: Any) -> list[str]:
    settings = {"model": SMALL, "training": {"updates": 200, "snapshots": [0], "snapshot_every": 100}, **options}
    command = ["classify", "train", "--data", str(texts.folder), "--settings", json.dumps(settings)]
    return [*command, "--work", str(folder / "work"), "--out", str(folder / "model"), *more]


@pytest.mark.parametrize(("number", "status", "code"), [(signal.SIGKILL, None, -9), (signal.SIGTERM, "KILLED", 143)])
def test_a_killed_command_goes_on(
    texts: Prepared, tmp_path: Path, number: signal.Signals, status: str | None, code: int
) -> None:
    cut, straight = tmp_path / "cut", tmp_path / "straight"
    journal = cut / "j.jsonl"
    command = [sys.executable, "-m", "alignlens", *train(texts, cut, "--journal", str(journal))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "update 100" not in (line := process.stderr.readline()):
            assert line
        os.kill(process.pid, number)
        process.communicate()
    assert process.returncode == code
    assert not (cut / "model").exists()
    ends = [json.loads(line) for line in journal.read_text().splitlines() if '"end"' in line]
    assert [event["status"] for event in ends] == ([] if status is None else [status])
    assert (cut / "work/state.safetensors").exists() == (number == signal.SIGTERM)
    assert main(train(texts, cut, "--journal", str(journal))) == 0
    assert main(train(texts, straight)) == 0
    for name in ("weights.safetensors", "curves.csv", "model.json", "snapshots/000200.safetensors"):
        assert (cut / "model" / name).read_bytes() == (straight / "model" / name).read_bytes()
    assert not (cut / "work").exists()
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert (events[0]["experiment"], events[0]["name"]) == ("train classifiers", "demo-keywords · lstm · s1")
    curves = [event for event in events if "dev_accuracy" in event.get("values", {})]
    assert [event["step"] for event in curves] == [0, 100, 200]


# ---- explanations --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(texts: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real training, long enough to find the keywords."""
    folder = tmp_path_factory.mktemp("trained")
    model = {"hidden": 24, "embedding": 24}
    told = {"updates": 250, "snapshots": [0, 100], "snapshot_every": 0, "learning_rate": 0.003}
    for name, changes in (("attention", {}), ("uniform", {"attention": "uniform"})):
        assert main(train(texts, folder / name, model={**model, **changes}, training=told)) == 0
    return folder


def hits(texts: Prepared, trajectory: Trajectory, weights: str, quantity: str, split: str = "dev") -> float:
    """Returns the share of texts whose greatest value stands on a keyword of their own class."""
    keywords = {side: set(texts.report["keywords"][side]) for side in ("positive", "negative")}
    examples, right = texts.splits[split], 0
    rows = trajectory.matrices(weights, quantity)
    for number, row in enumerate(rows):
        word = texts.words[examples.ids[examples.starts[number] + int(row[0].argmax())]]
        right += word in keywords["positive" if examples.labels[number] else "negative"]
    return right / len(rows)


def share_of_keywords(texts: Prepared) -> float:
    """Returns how often a random position of a dev text has a keyword of the text's own class."""
    examples, keywords, shares = texts.splits["dev"], texts.report["keywords"], []
    for number, label in enumerate(examples.labels):
        own = keywords["positive" if label else "negative"]
        ids = examples.ids[examples.starts[number] : examples.starts[number + 1]]
        shares.append(np.mean([texts.words[each] in own for each in ids]))
    return float(np.mean(shares))


def explain(texts: Prepared, model: Path, out: Path, *more: str) -> Trajectory:
    command = ["classify", "explain", "--model", str(model), "--data", str(texts.folder), "--out", str(out), *more]
    assert main(command) == 0
    return Trajectory.open(out)


def test_known_keywords_are_found_after_training_and_not_before(texts: Prepared, trained: Path, tmp_path: Path) -> None:
    found = explain(texts, trained / "attention/model", tmp_path / "a", "--journal", str(tmp_path / "j.jsonl"))
    uniform = explain(texts, trained / "uniform/model", tmp_path / "u")
    assert found.weights == ("000000", "000100", "final")
    assert found.quantities == QUANTITIES
    assert (found.facts["split"], found.facts["items"], found.facts["dataset"]) == ("dev", 400, "demo-keywords")
    assert found.performance["final"]["accuracy"] > 0.95
    assert found.performance["000000"]["accuracy"] < 0.7
    chance = share_of_keywords(texts)
    assert 0.1 < chance < 0.15
    for trajectory in (found, uniform):
        # Neighbours of a keyword know of it, too: the probe of a small network often prefers one of them.
        for quantity, times in (("probe", 3), ("grad_input", 5)):
            assert hits(texts, trajectory, "000000", quantity) < 2 * chance
            best = max(hits(texts, trajectory, weights, quantity) for weights in trajectory.weights)
            assert best > times * chance, quantity
    lengths = texts.splits["dev"].lengths
    assert found.shapes.tolist() == [[1, length] for length in lengths]
    for row, even in zip(found.matrices("final", "attention"), uniform.matrices("final", "attention"), strict=True):
        assert row.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(even, np.full_like(even, 1 / even.shape[1]))
    events = [json.loads(line) for line in (tmp_path / "j.jsonl").read_text().splitlines()]
    assert events[0]["experiment"] == "explain classifiers"
    assert any("final_accuracy" in event.get("values", {}) for event in events)


def test_a_trajectory_is_what_the_model_says_of_each_text(texts: Prepared, trained: Path, tmp_path: Path) -> None:
    more = ("--split", "train", "--items", "37", "--quantities", "probe,grad_input")
    found = explain(texts, trained / "attention/model", tmp_path / "t", *more)
    assert (len(found), found.quantities) == (37, ("probe", "grad_input"))
    some = texts.splits["train"].first(37)
    model = TrainedClassifier(trained / "attention/model").at("000100")
    for number in (0, 5, 36):
        expected, _ = explained(model, some.batch(np.array([number])), QUANTITIES)
        for quantity in found.quantities:
            row = found.matrices("000100", quantity)[number]
            np.testing.assert_allclose(row, expected[quantity].numpy(), rtol=1e-4, atol=1e-6)
    assert found.performance["000100"] == training.measured(model, some)


def test_models_and_texts_must_fit(
    texts: Prepared, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    definition = json.dumps({"task": "classification", "kind": "synthetic", "settings": {"seed": 2}})
    prepare = ["classify", "prepare", "demo-keywords", "--datasets", DATASETS, "--definition", definition]
    assert main([*prepare, "--out", str(other)]) == 0
    model, out = str(trained / "attention/model"), ("--out", str(tmp_path / "x"))
    for command, said in (
        (("--model", model, "--data", str(other), *out), "its words are not those of"),
        (("--model", str(texts.folder), "--data", str(other), *out), "not a trained classifier"),
        (("--model", model, "--data", str(texts.folder), "--quantities", "probe,norm", *out), "give some of attention"),
        (("--model", model, "--data", str(texts.folder), "--out", str(texts.folder)), "would replace --data"),
    ):
        assert main(["classify", "explain", *command]) == 2
        line = capsys.readouterr().err
        assert said in line
        assert line.count("\n") == 1


# ---- logistic regression -------------------------------------------------------------------------------------


def test_logistic_regression_finds_the_keywords(texts: Prepared, tmp_path: Path) -> None:
    out = tmp_path / "logistic"
    assert main(["classify", "logistic", "--data", str(texts.folder), "--out", str(out)]) == 0
    found = Trajectory.open(out)
    assert (found.weights, found.quantities) == (("final",), ("probe",))
    path = found.facts["path"]
    assert [round(np.log10(each["strength"]), 6) for each in path] == [-5 + place / 2 for place in range(19)]
    assert found.performance["final"]["accuracy"] == max(each["dev_accuracy"] for each in path)
    assert found.facts["strength"] == max(path, key=lambda each: each["dev_accuracy"])["strength"]
    assert hits(texts, found, "final", "probe") > 0.9


def test_the_probe_of_a_position_is_the_weight_of_its_word(texts: Prepared) -> None:
    train, dev = texts.splits["train"].first(200), texts.splits["dev"].first(50)
    before = train.ids.copy()
    fitted = fit(train, dev, len(texts.words))
    np.testing.assert_array_equal(train.ids, before)
    assert len(fitted.path) == len(STRENGTHS) == 19
    # From the definition: the loss that the regression minimises is flat at its weights.
    features = np.stack(
        [np.bincount(ids, minlength=len(texts.words)) / len(ids) for ids in np.split(train.ids, train.starts[1:-1])]
    )
    signs = np.where(train.labels, 1.0, -1.0)
    tolerance = 1e-4 * len(train) * fitted.chosen  # the library's, of the mean over texts

    def slope(weights: np.ndarray, bias: float) -> float:
        wrong = -signs / (1 + np.exp(signs * (features @ weights + bias)))
        return float(np.abs(weights + fitted.chosen * features.T @ wrong).max())

    assert slope(fitted.weights, fitted.bias) < 1.1 * tolerance
    assert slope(np.zeros_like(fitted.weights), 0.0) > 10 * tolerance
    np.testing.assert_allclose(fitted.scores(train), features @ fitted.weights + fitted.bias)
    for number, row in enumerate(fitted.probe(dev)):
        ids = dev.ids[dev.starts[number] : dev.starts[number + 1]]
        np.testing.assert_allclose(row[0], (1 if dev.labels[number] else -1) * fitted.weights[ids], rtol=1e-6)
    signed = np.where(dev.labels, 1, -1) * fitted.scores(dev)
    expected = {"accuracy": np.mean(signed > 0), "loss": np.mean(np.log1p(np.exp(-signed)))}
    assert fitted.performance(dev) == pytest.approx(expected)


def test_batches_for_measuring_hold_little(texts: Prepared) -> None:
    sizes = [len(batch.ids) for batch in in_order(texts.splits["train"], 4096)]
    assert max(sizes) <= 4096
    assert sum(sizes) == texts.splits["train"].starts[-1]
