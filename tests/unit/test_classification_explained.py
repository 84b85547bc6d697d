"""What classifiers look at: known keywords, trajectories, logistic regression."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from classifiers import DATASETS, prepared_texts, train

from alignlens.classification import training
from alignlens.classification.examples import in_order
from alignlens.classification.explain import explained
from alignlens.classification.folder import TrainedClassifier
from alignlens.classification.logistic import STRENGTHS, fit
from alignlens.classification.prepare import Prepared
from alignlens.classification.settings import QUANTITIES
from alignlens.cli.main import main
from alignlens.io.trajectories import Trajectory


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_texts(tmp_path_factory.mktemp("texts") / "texts")


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
