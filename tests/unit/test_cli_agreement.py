"""``alignlens agreement``: all quantities of a task from trajectories, against slow loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement_oracle import Matrix, slow_agreement, slow_tau

from alignlens.cli.main import main
from alignlens.io.arrays import read_arrays
from alignlens.io.trajectories import Trajectory, write_trajectory
from alignlens.metrics.comparisons import Pair, Series, compare
from alignlens.tracking.records import read_journal

UPDATES = ("000000", "000050", "000100")
SHAPES = [(2, 5), (1, 9), (3, 2), (2, 25), (1, 1), (2, 9)]


def write_run(folder: Path, seed: int, quantities: list[str], checkpoints: tuple[str, ...], **more: Any) -> Path:
    generator = np.random.default_rng(seed)
    made = {
        weights: {
            name: [generator.integers(0, 4, shape).astype(np.float32) for shape in more.get("shapes", SHAPES)]
            for name in quantities
        }
        for weights in checkpoints
    }
    performance = {
        weights: {"accuracy": 0.2 + 0.1 * place, "loss": 1.0, **({"bleu": 20.0 - place} if more.get("bleu") else {})}
        for place, weights in enumerate(checkpoints)
    }
    write_trajectory(folder, made, performance, {"task": "demo", "split": "dev"})
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    everything = ["attention", "probe", "grad_input"]
    for seed, name in enumerate("ABC"):
        write_run(tmp_path / name, seed, everything, (*UPDATES, "final"), bleu=True)
    write_run(tmp_path / "uniform", 7, ["probe"], (*UPDATES, "000200", "final"))
    write_run(tmp_path / "proxy", 8, ["probe,bias=dropped"], ("final",))
    write_run(tmp_path / "frozen", 9, ["attention"], UPDATES)
    write_run(tmp_path / "logistic", 10, ["probe"], ("final",))
    return tmp_path


GIVEN = ["--attention", "A", "--again", "B", "C", "--uniform", "uniform", "--proxy", "proxy"]
MORE = ["--frozen", "frozen", "--logistic", "logistic"]


def by_item(kind: str, u: list[Matrix], v: list[Matrix]) -> list[list[float]]:
    function = {"agreement": slow_agreement, "kendall": slow_tau}[kind]
    return [
        [float(function(one, other)) for one, other in zip(first, second, strict=True)]
        for first, second in zip(u, v, strict=True)
    ]


def mean_of(values: list[list[float]]) -> float:
    return float(np.nanmean([value for each in values for value in each]))


def test_the_verb_finds_what_a_slow_loop_finds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = ["--journal", "j.jsonl", "--about", json.dumps({"preset": "p", "task": "demo", "split": "dev"})]
    assert main(["agreement", *GIVEN, *MORE, "--out", "a.json", "--sentences", "a.npz", "--json", *about]) == 0
    found = json.loads((runs / "a.json").read_text())
    assert json.loads(capsys.readouterr().out) == found
    assert (found["task"], found["split"], found["items"], found["rows"]) == ("demo", "dev", 6, 11)
    opened = {path.name: Trajectory.open(path) for path in runs.iterdir() if path.is_dir()}
    # Accuracy rises to the final weights of run A; BLEU falls from the start.
    assert {name: each["gold"] for name, each in found["measures"].items()} == {"accuracy": "final", "bleu": "000000"}
    assert found["measures"]["accuracy"]["star"] == pytest.approx(50)
    assert found["measures"]["bleu"]["star"] == pytest.approx(20)
    arrays = read_arrays(runs / "a.npz", "")
    for measure, content in found["measures"].items():
        gold = {name: opened["A"].matrices(content["gold"], name) for name in ("attention", "grad_input")}
        fixed = {
            "alpha": gold["attention"],
            "Delta": gold["grad_input"],
            "beta_px": opened["proxy"].matrices("final", "probe,bias=dropped"),
            "beta_log": opened["logistic"].matrices("final", "probe"),
        }
        moving = {"beta_uf": ("uniform", "probe"), "beta": ("B", "probe"), "alpha_fr": ("frozen", "attention")}
        again = {
            kind: [
                np.mean(
                    [mean_of(by_item(kind, gold["attention"], opened[run].matrices(w, "attention"))) for run in "BC"]
                )
                for w in UPDATES
            ]
            for kind in ("agreement", "kendall")
        }
        performance = [np.mean([opened[run].performance[w][measure] for run in "BC"]) for w in UPDATES]
        for kind in ("agreement", "kendall"):
            for row in content[kind]:
                if row["quantity"] == "random":
                    continue
                u, v = row["quantity"].split(",")
                run, quantity = moving[u if u in moving else v]
                curve = {}
                for weights in opened[run].updates:
                    there = opened[run].matrices(weights, quantity)
                    curve[weights] = by_item(kind, fixed.get(u, there), fixed.get(v, there))
                at = max(curve, key=lambda weights: mean_of(curve[weights]))
                assert row["at"] == at, row
                assert row["value"] == pytest.approx(100 * mean_of(curve[at])), row
                assert row["low"] <= row["value"] <= row["high"]
                above = [p for p, agreed in zip(performance, again[kind], strict=True) if 100 * agreed > row["value"]]
                expected = (above[0] * (1 if measure == "bleu" else 100)) if above else None
                assert row["xi"] == (None if expected is None else pytest.approx(expected)), row
                place = arrays["names"].tolist().index(f"{measure}.{kind}.{row['quantity']}")
                assert arrays["sums"][place] == pytest.approx([np.nansum(values) for values in curve[at]])
                assert arrays["counts"][place] == pytest.approx([np.isfinite(values).sum() for values in curve[at]])
                v_rows = fixed.get(v) or opened[run].matrices(at, quantity)
                assert row["distinct"] == pytest.approx(
                    np.mean([len(set(each.tolist())) for m in v_rows for each in m])
                )
        if measure == "accuracy":
            for kind in ("agreement", "kendall"):
                assert found["curves"]["again"][kind] == pytest.approx([100 * value for value in again[kind]])
    assert found["curves"]["again"]["weights"] == list(UPDATES)
    assert found["curves"]["again"]["accuracy"] == pytest.approx([20, 30, 40])
    assert found["curves"]["again"]["bleu"] == pytest.approx([20, 19, 18])
    assert found["curves"]["alpha,beta_uf"]["weights"] == [*UPDATES, "000200"]
    names = [row["quantity"] for row in found["measures"]["bleu"]["kendall"]]
    assert names == [
        "alpha,beta_uf",
        "beta_uf,beta_px",
        "beta_px,beta_uf",
        "Delta,beta_uf",
        "alpha,beta",
        "alpha,alpha_fr",
        "beta_uf,beta_log",
        "beta_log,beta_uf",
        "random",
    ]
    assert len(arrays["names"]) == 2 * 2 * len(names)


def test_a_run_has_names_that_are_the_same_for_every_task(runs: Path) -> None:
    about = ["--journal", "j.jsonl", "--about", json.dumps({"preset": "p", "task": "imdb", "split": "train"})]
    assert main(["agreement", *GIVEN, "--out", "a.json", *about]) == 0
    (record,) = read_journal(runs / "j.jsonl")
    assert (record.name, record.status) == ("imdb · train · agreement", "FINISHED")
    found = json.loads((runs / "a.json").read_text())
    row = found["measures"]["accuracy"]["agreement"][0]
    assert record.latest["accuracy/agreement/alpha_beta_uf"] == pytest.approx(row["value"])
    assert record.latest["accuracy/xi_star"] == pytest.approx(50)
    assert record.latest["curves/again/accuracy"] == pytest.approx(40)
    assert not any("," in name for name in record.latest)


def test_the_same_command_gives_the_same_bytes_and_another_seed_another_shuffle(runs: Path) -> None:
    for name, seed in (("one", "1"), ("two", "1"), ("three", "2")):
        assert main(["agreement", *GIVEN, "--out", name, "--sentences", f"{name}.npz", "--seed", seed]) == 0
    assert (runs / "one").read_bytes() == (runs / "two").read_bytes()
    assert (runs / "one.npz").read_bytes() == (runs / "two.npz").read_bytes()
    random = [
        json.loads((runs / name).read_text())["measures"]["accuracy"]["kendall"][-1]["value"]
        for name in ("one", "three")
    ]
    assert random[0] != random[1]


def test_portions_do_not_change_a_number(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {"A": Trajectory.open(runs / "A"), "u": Trajectory.open(runs / "uniform")}
    pair = Pair(Series("A", "final", "attention"), Series("u", "000050", "probe"))
    whole = compare(opened, [pair], 1)[pair]
    monkeypatch.setattr("alignlens.metrics.comparisons._PAIRS_AT_ONCE", 1)
    heard: list[int] = []
    parts = compare(opened, [pair], 1, heard.append)[pair]
    assert (len(heard), sum(heard)) == (len(SHAPES), len(SHAPES))
    for kind in ("agreement", "kendall", "distinct"):
        assert getattr(whole, kind).sums == pytest.approx(getattr(parts, kind).sums)
        assert getattr(whole, kind).counts.tolist() == getattr(parts, kind).counts.tolist()


def test_bleu_is_a_measure_only_where_every_run_that_is_averaged_has_it(runs: Path) -> None:
    write_run(runs / "D", 5, ["attention", "probe"], UPDATES)
    options = ["--attention", "A", "--again", "B", "D", "--uniform", "uniform", "--proxy", "proxy", "--out", "a.json"]
    assert main(["agreement", *options]) == 0
    found = json.loads((runs / "a.json").read_text())
    assert list(found["measures"]) == ["accuracy"]
    assert "bleu" not in found["curves"]["again"]


def test_logarithms_of_a_probe_are_taken_where_they_are(runs: Path) -> None:
    log_p = "probe,scale=log_p"
    write_run(runs / "logs", 11, ["probe", log_p], UPDATES)
    write_run(runs / "proxy_logs", 12, ["probe,bias=dropped", f"{log_p},bias=dropped"], ("final",))
    options = ["--attention", "A", "--again", "B", "--uniform", "logs", "--proxy", "proxy_logs", "--out", "a.json"]
    assert main(["agreement", *options]) == 0
    found = json.loads((runs / "a.json").read_text())["curves"]["beta_uf,beta_px"]["kendall"]
    proxy, uniform = Trajectory.open(runs / "proxy_logs"), Trajectory.open(runs / "logs")
    for weights, value in zip(UPDATES, found, strict=True):
        pair = uniform.matrices(weights, log_p), proxy.matrices("final", f"{log_p},bias=dropped")
        assert value == pytest.approx(100 * mean_of(by_item("kendall", *pair)))


def test_what_does_not_fit_together_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def failed_with(**changed: str) -> str:
        options = {"attention": "A", "again": "B", "uniform": "uniform", "proxy": "proxy", **changed}
        words = [word for name, value in options.items() for word in (f"--{name}", *value.split())]
        assert main(["agreement", *words, "--out", "x.json"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1, told
        assert not (runs / "x.json").exists()
        return told

    write_run(runs / "other", 5, ["attention", "probe"], UPDATES, shapes=SHAPES[:-1])
    told = failed_with(uniform="other")
    assert "other: covers other items than A." in told
    write_run(runs / "longer", 5, ["attention", "probe"], ("000000", "000070"))
    assert "longer: has other checkpoints than B." in failed_with(again="B longer")
    assert "uniform: has no quantity 'attention'" in failed_with(again="uniform")
    assert "frozen: has no checkpoint 'final'" in failed_with(proxy="frozen")
    assert "proxy: has no quantity 'attention'" in failed_with(attention="proxy")
    assert "nowhere: no such folder" in failed_with(proxy="nowhere")


def test_nothing_known_is_null_and_not_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("A", "B", "uniform", "proxy"):
        quantities = ["attention", "probe", "grad_input"]
        constant = {"final": {each: [np.ones((1, 3), np.float32)] * 2 for each in quantities}}
        write_trajectory(tmp_path / name, constant, {"final": {"accuracy": 0.5, "loss": 1.0}}, {})
    options = ["--attention", "A", "--again", "B", "--uniform", "uniform", "--proxy", "proxy", "--out", "a.json"]
    assert main(["agreement", *options, "--journal", "j.jsonl"]) == 0
    content = json.loads((tmp_path / "a.json").read_text())["measures"]["accuracy"]
    assert {row["value"] for row in content["agreement"]} == {100}
    assert {row["distinct"] for row in content["agreement"]} == {1}
    assert {(row["value"], row["low"], row["xi"]) for row in content["kendall"]} == {(None, None, None)}
    assert {row["xi"] for row in content["agreement"]} == {None}


def test_help_does_not_load_the_tensor_library() -> None:
    code = "import sys, alignlens.cli.agreement\nassert not {'torch', 'mlflow', 'pandas', 'scipy'} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", code], check=True)
