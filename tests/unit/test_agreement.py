"""Agreement A, xi and Kendall's tau on rows made by hand, with ties and constants, and the verb that uses them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kendalltau

from alignlens.cli.main import main
from alignlens.io.arrays import read_arrays
from alignlens.io.trajectories import Trajectory, write_trajectory
from alignlens.metrics import kendall
from alignlens.metrics.agreement import Rows, agreement, first_above, generator_of, greatest
from alignlens.metrics.comparisons import Pair, Series, compare
from alignlens.metrics.kendall import kendall_tau
from alignlens.tracking.records import read_journal

Matrix = NDArray[np.float32]


def rows(*values: list[float]) -> Rows:
    return Rows.of([np.array([row], np.float32) for row in values])


def agrees(u: list[float], v: list[float]) -> bool:
    return bool(agreement(rows(u), rows(v))[0])


def slow_agreement(u: Matrix, v: Matrix) -> bool:
    """Equation 10, word by word."""
    place = next(k for k in range(len(u)) if u[k] == max(u))
    return sum(v[j] > v[place] for j in range(len(v))) < 0.05 * len(v)


def slow_tau(u: Matrix, v: Matrix) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(kendalltau(u, v).statistic)


def ragged(generator: np.random.Generator, items: int, longest: int, values: int) -> list[Matrix]:
    shapes = zip(generator.integers(1, 4, items), generator.integers(1, longest + 1, items), strict=True)
    return [generator.integers(0, values, shape).astype(np.float32) for shape in shapes]


def like(generator: np.random.Generator, matrices: list[Matrix], values: int) -> list[Matrix]:
    return [generator.integers(0, values, matrix.shape).astype(np.float32) for matrix in matrices]


def test_a_short_row_agrees_where_v_is_at_its_maximum() -> None:
    assert agrees([0.1, 0.7, 0.2], [1, 5, 3])
    assert not agrees([0.1, 0.7, 0.2], [5, 1, 3])
    # It is not symmetric: u points at 1, where v has its maximum too; v points at 0, where u is not the largest.
    assert agrees([0, 2, 1], [5, 5, 0])
    assert not agrees([5, 5, 0], [0, 2, 1])


def test_only_strictly_larger_values_count_and_the_first_maximum_points() -> None:
    assert agrees([0, 1, 0], [3, 3, 3])
    assert agrees([0, 1, 0], [3, 3, 2])
    assert agrees([1, 1, 0], [3, 2, 1])
    assert not agrees([1, 1, 0], [2, 3, 1])
    assert agrees([7, 7, 7], [2, 1, 1])
    assert not agrees([7, 7, 7], [1, 2, 1])


@pytest.mark.parametrize(("length", "allowed"), [(1, 0), (19, 0), (20, 0), (21, 1), (40, 1), (41, 2), (60, 2), (61, 3)])
def test_fewer_than_a_twentieth_of_the_positions_may_be_larger(length: int, allowed: int) -> None:
    u = [1.0] + [0.0] * (length - 1)
    for larger in range(min(length, allowed + 3)):
        v = [0.0] + [1.0 + k for k in range(larger)] + [-1.0] * (length - 1 - larger)
        assert agrees(u, v) == (larger <= allowed), larger


def test_a_constant_agrees_with_everything_and_shows_it() -> None:
    constant, any_row = rows([0.25] * 4), rows([0, 0, 9, 1])
    assert agreement(any_row, constant).all()
    assert constant.distinct.tolist() == [1]
    assert math.isnan(kendall_tau(any_row, constant)[0])
    assert math.isnan(kendall_tau(constant, any_row)[0])
    assert rows([1, 2, 2, 3], [-5, -5, -5, -5], [0.0, -0.0, 1, 1]).distinct.tolist() == [3, 1, 2]
    # Rows of one position are constant too, however much padding follows them.
    several = rows([3], [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert several.distinct.tolist() == [1, 9]
    assert np.isnan(kendall_tau(several, several)).tolist() == [True, False]


def test_a_row_without_positions_or_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="without positions"):
        Rows.of([np.zeros((1, 0), np.float32)])
    with pytest.raises(ValueError, match="different lengths"):
        agreement(rows([1, 2]), rows([1, 2, 3]))
    with pytest.raises(ValueError, match="different lengths"):
        kendall_tau(rows([1, 2]), rows([1, 2, 3]))


@pytest.mark.parametrize("values", [2, 3, 6, 10_000])
def test_many_rows_at_once_are_the_rows_one_by_one(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(values)
    one = ragged(generator, 120, 45, values)
    other = like(generator, one, values)
    left, right = Rows.of(one), Rows.of(other)
    pairs = [(u, v) for first, second in zip(one, other, strict=True) for u, v in zip(first, second, strict=True)]
    assert agreement(left, right).tolist() == [slow_agreement(u, v) for u, v in pairs]
    assert left.distinct.tolist() == [len(set(u.tolist())) for u, _ in pairs]
    taus = [slow_tau(u, v) for u, v in pairs]
    assert 0 < np.isnan(taus).sum() < len(taus) / 2
    np.testing.assert_allclose(kendall_tau(left, right), taus, atol=1e-12)
    monkeypatch.setattr(kendall, "PAIRS_AT_ONCE", 1)
    np.testing.assert_allclose(kendall_tau(left, right), taus, atol=1e-12)


def test_tau_of_hand_made_rows() -> None:
    assert kendall_tau(rows([1, 2, 3, 4]), rows([1, 2, 3, 4]))[0] == pytest.approx(1)
    assert kendall_tau(rows([1, 2, 3, 4]), rows([9, 7, 5, 3]))[0] == pytest.approx(-1)
    # Five pairs of each are untied, and all four that both have agree.
    assert kendall_tau(rows([1, 1, 2, 3]), rows([1, 2, 2, 3]))[0] == pytest.approx(0.8)


def test_a_shuffle_keeps_the_values_of_every_row_and_its_seed_has_a_name() -> None:
    generator = np.random.default_rng(1)
    given = Rows.of(ragged(generator, 200, 30, 5))
    drawn = given.shuffled(generator_of(1, "run", "000500"))
    assert np.array_equal(np.sort(drawn.ranks), np.sort(given.ranks))
    beyond = np.arange(given.ranks.shape[1]) >= given.lengths[:, None]
    assert (drawn.ranks[beyond] == -1).all()
    assert (drawn.ranks != given.ranks).any()
    assert np.array_equal(drawn.ranks, given.shuffled(generator_of(1, "run", "000500")).ranks)
    assert not np.array_equal(drawn.ranks, given.shuffled(generator_of(2, "run", "000500")).ranks)
    assert not np.array_equal(drawn.ranks, given.shuffled(generator_of(1, "run", "001000")).ranks)


def test_a_shuffled_row_agrees_as_often_as_its_values_allow() -> None:
    # One of four values is the largest in the first row; two are in the second.
    given = Rows.of([np.array([[1, 2, 3, 4]], np.float32), np.array([[4, 2, 3, 4]], np.float32)] * 4000)
    found = agreement(given, given.shuffled(generator_of(7, "test")))
    assert found[::2].mean() == pytest.approx(0.25, abs=0.03)
    assert found[1::2].mean() == pytest.approx(0.5, abs=0.03)


def test_xi_is_the_performance_at_the_first_checkpoint_above() -> None:
    curve = {"000000": 10.0, "000050": 30.0, "000100": 50.0, "000500": 40.0}
    performance = {"000000": 1.0, "000050": 20.0, "000100": 25.0, "000500": 60.0}
    assert first_above(5, curve, performance) == 1.0
    assert first_above(10, curve, performance) == 20.0  # strictly
    assert first_above(30, curve, performance) == 25.0
    assert first_above(45, curve, performance) == 25.0
    assert first_above(50, curve, performance) is None
    assert first_above(math.nan, curve, performance) is None
    assert first_above(5, {"000000": math.nan, "000050": 6.0}, performance) == 20.0


def test_the_greatest_is_the_first_of_equals() -> None:
    assert greatest({"000000": 1.0, "000050": 3.0, "000100": 3.0}) == "000050"
    assert greatest({"000000": math.nan, "000050": -3.0}) == "000050"
    assert greatest({"000000": math.nan}) is None


MEMORY = """
import resource, sys
import numpy as np
from alignlens.metrics.agreement import Rows
from alignlens.metrics.kendall import kendall_tau
generator = np.random.default_rng(1)
rows = [Rows.of([generator.random((int(sys.argv[1]), 400), dtype=np.float32)]) for _ in range(2)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kendall_tau(*rows)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_memory_does_not_grow_with_the_pairs_of_all_rows() -> None:
    answer = subprocess.run([sys.executable, "-c", MEMORY, "1000"], check=True, capture_output=True, text=True)
    assert int(answer.stdout) < 32  # megabytes, where all comparisons of one explanation as bytes would be 150


# ---- trajectories


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
    assert "other: is about other items than A." in told
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
