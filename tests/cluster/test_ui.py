"""Runs of a study in MLflow's UI, as a person meets them in a browser: found, filtered, compared, drawn."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import MlflowPage, chromium, missing_programs, served
from submitted import SMALL
from throwaway import Workspace

pytestmark = pytest.mark.cluster
METHODS = ("attention", "ding_grad", "ding_smoothgrad,n=3", "li_smoothgrad,reading=abs_dot,n=3")
SCORES = "attributions/tiny/transformer/1/final/test/forced/metrics.json"


@pytest.fixture(scope="module")
def programs() -> None:
    """These tests skip where a browser is absent."""
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)} (tests/cluster/install.sh installs them on Debian)")


@pytest.fixture(scope="module")
def scored(programs: None, local: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A copy of the project in which a Transformer, trained in both directions, was asked with one study's methods."""
    made = Workspace(tmp_path_factory.mktemp("ui") / "project")
    shutil.copytree(local.folder, made.folder)
    (made.folder / "results" / "mlflow.db").unlink()
    shutil.rmtree(made.folder / "results" / "mlartifacts")
    shutil.rmtree(made.results / "attributions")
    (made.folder / "tiny.yaml").write_text(
        yaml.safe_dump({**SMALL, "studies": {**SMALL["studies"], "kobayashi2020": None}})
    )
    made.snakemake("--cores", "all", "--", f"results/tiny/{SCORES}")
    return made


@pytest.fixture(scope="module")
def page(scored: Workspace) -> Iterator[MlflowPage]:
    with served(scored.folder / "results") as address, chromium() as driver:
        page = MlflowPage(driver, address)
        page.start()
        yield page


@pytest.fixture(scope="module")
def rows(scored: Workspace) -> dict[str, dict[str, Any]]:
    """What the pipeline wrote about the methods in one direction, by the name of their run.

    A single head has none: it is a metric in the run of its layer.
    """
    scores = json.loads((scored.results / SCORES).read_text())["rows"]
    chosen = [row for row in scores if (row["extraction"], row["links"]) == ("ding", "xa-xb")]
    chosen = [row for row in chosen if not isinstance(row["parameters"].get("head"), int)]
    return {name_of(row["method"]): row for row in chosen}


def name_of(method: str) -> str:
    return f"xa-xb · transformer · s1 · {method} · forced"


def manual_filter(project: Path, purpose: str) -> str:
    """Returns a filter of the manual, for the tiny preset."""
    found = re.search(rf"^\| {purpose} \| `(.+)` \|$", (project / "docs/tracking.md").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].replace("'demo'", "'tiny'")


def rates(page: MlflowPage) -> list[float]:
    """Returns the error rates on the screen; a group has none."""
    return [float(run["aer"]) for run in page.runs() if run.get("aer", "-") != "-"]


def is_sorted(numbers: list[float]) -> bool:
    return len(numbers) > 1 and numbers == sorted(numbers)


def test_runs_hang_under_their_dataset(page: MlflowPage) -> None:
    page.open("alignlens/attribution")
    assert page.names() == ["tiny"]
    page.expand("tiny")
    page.load_all()
    names = page.names()
    assert names[0] == "tiny"
    assert {name_of(method) for method in METHODS} < set(names)
    assert "xa-xb bidir · transformer · s1 · ding_smoothgrad,n=3 · forced" in names


def test_the_view_shows_whole_names_and_sorts_by_error_rate(page: MlflowPage, rows: dict[str, dict[str, Any]]) -> None:
    page.open("alignlens/attribution")
    page.choose_view("methods by AER")
    page.load_all()
    page.wait(lambda _: set(rows) < set(page.names()) and is_sorted(rates(page)), "the view does not sort by AER")
    shown = {run["Run Name"]: run for run in page.runs()}
    assert not {name_of(method) for method in METHODS} & set(page.names_cut_off())
    for name, row in rows.items():
        for metric in ("aer", "aer_low", "aer_high", "precision", "recall"):
            assert float(shown[name][metric]) == row[metric], (name, metric)


def test_methods_are_filtered_and_compared(page: MlflowPage, rows: dict[str, dict[str, Any]], project: Path) -> None:
    page.open("alignlens/attribution")
    page.choose_view("methods by AER")
    page.search(manual_filter(project, "the methods of one model and direction, to compare them"))
    page.wait(lambda _: set(page.names()) == set(rows), "the filter does not leave the methods of one direction")
    page.compare([name_of(method) for method in METHODS])
    names = page.section("Run details")["Run Name"]
    assert set(names) == {name_of(method) for method in METHODS}
    compared = [rows[name] for name in names]
    parameters = page.section("Parameters")
    assert parameters["method"] == [row["name"] for row in compared]
    assert parameters["sigma"] == [str(row["parameters"].get("sigma", "")) for row in compared]
    assert parameters["direction"] == ["xa-xb"] * 4
    tags = page.section("Tags")
    assert tags["method"] == [row["method"] for row in compared]
    assert (tags["preset"], tags["study"], tags["status"]) == (["tiny"] * 4, ["ding2019 lu2021"] * 4, ["FINISHED"] * 4)
    # MLflow shows two digits here.
    assert [float(value) for value in page.section("Metrics")["aer"]] == [round(row["aer"], 2) for row in compared]
    page.show_differences("Parameters")
    page.wait(lambda _: "direction" not in page.section("Parameters"), "what all runs share is still shown")
    assert page.section("Parameters")["method"] == parameters["method"]


def test_learning_curves_are_drawn_together(page: MlflowPage, scored: Workspace) -> None:
    page.open("alignlens/train models")
    page.choose_view("models by BLEU")
    trained = {f"tiny · {direction} · transformer · s1": direction for direction in ("xa-xb", "xb-xa")}
    page.wait(lambda _: set(trained) < set(page.names()), "no training runs")
    page.compare(list(trained))
    page.open_chart("dev_loss")
    curves = {curve["name"]: dict(zip(curve["x"], curve["y"], strict=True)) for curve in page.curves()}
    assert set(curves) == set(trained)
    for name, direction in trained.items():
        recorded = scored.results / f"models/tiny/{direction}/transformer/1/model/curves.csv"
        written = list(csv.DictReader(recorded.read_text().splitlines()))
        losses = {int(row["update"]): float(row["dev_loss"]) for row in written if row["dev_loss"]}
        assert curves[name] == pytest.approx(losses)


def test_nothing_is_left_when_something_goes_wrong(scored: Workspace) -> None:
    words: list[str] = []

    def fail() -> None:
        with served(scored.folder / "results") as address, chromium() as driver:
            words.extend([driver.capabilities["chrome"]["userDataDir"], f"--port {address.rpartition(':')[2]}"])
            assert all(commands_with(word) for word in words)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [command for word in words for command in commands_with(word)] == []


def commands_with(word: str) -> list[str]:
    """Returns the command lines of living processes that have a word in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if word in command:
            found.append(command)
    return found
