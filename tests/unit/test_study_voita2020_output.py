"""The files of the study of Voita et al. 2020: curves, timeline and losses say what was put in; damage is one line."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from voita2020_evidence import MINIMUM_RISK, SENTENCES, STEPS, Pair, falling, pairs

from alignlens.cli.main import main
from alignlens.io.matrices import MatrixWriter
from alignlens.io.trajectories import FINAL, write_trajectory
from alignlens.studies.voita2020.runs import RANDOM, REFERENCE

if TYPE_CHECKING:
    from pathlib import Path

METHODS = ("lrp,label=top", "lrp,alpha=0.5,label=top")
LOST = {"arrived lrp,label=top feed-forward": 1_000_000, "handed_on lrp,label=top feed-forward": 990_000}


def write_scores(folder: Path, model: str, made: list[Pair], text: str = REFERENCE, decoding: str = "forced") -> None:
    place = folder / "attributions" / "made" / model / "1" / "kept" / text / decoding / "xa-xb" / "matrices"
    place.parent.mkdir(parents=True)
    shapes = np.array([source.shape for source, _ in made])
    squares = [f"{method}@prefix" for method in METHODS]
    with MatrixWriter(place, list(METHODS), shapes, {"statistics": LOST}, squares=squares) as writer:
        for number, (source, prefix) in enumerate(made):
            squared = {f"{method}@prefix": prefix for method in METHODS}
            writer.write(number, {**dict.fromkeys(METHODS, source), **squared})


def write_training(folder: Path, model: str, along: dict[str, list[Pair]]) -> None:
    place = folder / "trajectories" / "made" / "xa-xb" / model / "1" / REFERENCE
    place.parent.mkdir(parents=True)
    rows = {
        weights: {
            **{method: [source for source, _ in made] for method in METHODS},
            **{f"{method}@prefix": [prefix for _, prefix in made] for method in METHODS},
        }
        for weights, made in along.items()
    }
    right = {weights: ["1" * (STEPS - 4) + "0" * 4] * SENTENCES for weights in along}
    write_trajectory(place, rows, {weights: {"accuracy": 0.5, "loss": 1.0} for weights in along}, {}, right)


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something of everything, and the study of it."""
    folder = tmp_path_factory.mktemp("results") / "mine"
    shares = {"000010": 0.7, "000050": 0.4, "000100": 0.5, "000400": 0.6}
    along = {weights: pairs(share=falling(share + 0.1, share - 0.1)) for weights, share in shares.items()}
    write_training(folder, "voita_4000", {**along, FINAL: pairs(share=falling(0.8, 0.4))})
    write_scores(folder, "voita_4000", pairs(share=0.5), RANDOM)
    write_scores(folder, "voita_4000", pairs(share=0.7), decoding="free")
    write_scores(folder, MINIMUM_RISK, pairs(share=0.65), decoding="free")
    write_scores(folder, "voita_100", pairs(share=0.3))
    write_scores(folder, "voita_1000", pairs(share=0.4))
    assert main(["study", "voita2020", "--results", str(folder)]) == 0
    return folder


def rows(folder: Path, stem: str, **wanted: Any) -> list[dict[str, str]]:
    with (folder / "voita2020" / f"{stem}.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return [row for row in found if all(row[key] == str(value) for key, value in wanted.items())]


def test_curves_have_what_was_put_in(studied: Path) -> None:
    made = pairs(share=falling(0.8, 0.4))
    wanted = {"model": "voita_4000", "prefix": "reference", "alpha": 1.0}
    for quantity, value in (
        ("raw source share", np.mean([source.sum(1) for source, _ in made], axis=0)),
        ("source share", np.mean([source.sum(1) / (1 - prefix[:, 0]) for source, prefix in made], axis=0)),
        ("share of the start symbol", np.full(STEPS, 0.1)),
    ):
        found = rows(studied, "curves", **wanted, quantity=quantity)
        assert [int(row["position"]) for row in found] == list(range(1, STEPS + 1))
        assert [float(row["mean"]) for row in found] == pytest.approx(value.tolist(), abs=1e-5)
        assert all(float(row["low"]) - 1e-6 <= float(row["mean"]) <= float(row["high"]) + 1e-6 for row in found)
    kinds = {(row["model"], row["prefix"]) for row in rows(studied, "curves")}
    assert kinds == {
        ("voita_4000", "reference"), ("voita_4000", "random"), ("voita_4000", "own"), (MINIMUM_RISK, "own"),
        ("voita_100", "reference"), ("voita_1000", "reference"),
    }  # fmt: skip


def test_the_timeline_ends_with_the_weights_that_were_kept(studied: Path) -> None:
    found = rows(studied, "timeline", alpha=1.0)
    assert [row["update"] for row in found] == ["10", "50", "100", "400", "final"]
    assert [float(row["source"]) for row in found][:2] == pytest.approx([0.693, 0.393], abs=3e-3)  # after the first
    assert float(found[-1]["divergence"]) == 0 < float(found[1]["divergence"])
    assert {float(row["accuracy"]) for row in found} == {75.0}


def test_losses_and_page(studied: Path) -> None:
    assert {(row["layer"], row["lost_percent"]) for row in rows(studied, "losses")} == {("feed-forward", "1.0")}
    folder = studied / "voita2020"
    page = (folder / "index.html").read_text()
    for name in ("1", "2", "3", "4", "6", "7", "9", "10", "11", "12", "13", "shares"):
        for alpha in ("1", "0.5"):
            assert (folder / f"figure{name}-made-alpha{alpha}.svg").is_file(), name
    assert not list(folder.glob("figure5-*"))  # one model alone has random prefixes
    assert "Figure 6, made, alpha 1: what the source contributes, by amount of training text" in page
    # Half of either sign stands where print has it.
    parts = dict(re.findall(r'<section id="(figures?-[^"]+)">(.*?)</section>', page, flags=re.DOTALL))
    assert "alpha 0.5" in parts["figures-14-to-20"]
    assert "Not here: fewer than two objectives" in parts["figure-5"]
    assert all("alpha 1:" in parts[f"figure-{number}"] for number in (1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13))
    verdicts = {row["id"]: row["verdict"] for row in rows(studied, "claims")}
    assert (verdicts["V01"], verdicts["V18"], verdicts["V28"]) == ("reproduced",) * 3
    assert verdicts["V17"] == "not testable here"
    assert json.loads((folder / "summary.json").read_text())


def test_without_models_of_the_study_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    assert main(["study", "voita2020", "--results", str(tmp_path / "mine")]) == 2
    assert "no relevance of models of this study" in capsys.readouterr().err
