"""What the study of Ding et al. 2019 writes: figures of one sentence, curves, everything `alignlens study` leaves."""

from __future__ import annotations

import argparse
import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ding2019_results import row, verdicts, write_model

from alignlens.alignment.gold import read_gold
from alignlens.cli import study
from alignlens.display.sentences import Side
from alignlens.errors import InputError
from alignlens.io.atomic import write_lines
from alignlens.io.matrices import MatrixWriter
from alignlens.results.manifest import Manifest
from alignlens.results.paths import FORCED
from alignlens.results.protocol import Protocol
from alignlens.results.reader import read_results
from alignlens.studies.claims import COLUMNS, COMPARISON_COLUMNS, NOT_REPRODUCED, REPRODUCED, claims_of
from alignlens.studies.ding2019.curves import points
from alignlens.studies.ding2019.labels import label_changes
from alignlens.studies.ding2019.runs import methods
from alignlens.studies.ding2019.shown.figures import figures
from alignlens.studies.ding2019.study import Ding2019Settings
from alignlens.studies.examples import choose, read_example

if TYPE_CHECKING:
    from pathlib import Path

PIECES = {"source": ["▁ein ▁Ha us ▁!", "▁a ▁b ▁c ▁d ▁e ▁f ▁."], "target": ["▁a ▁house ▁!", "▁u ▁v ▁w ▁x ▁y ▁z ▁."]}


def write_scores(folder: Path, attention_changes: bool = False) -> None:
    """Writes text, gold links and matrices of two sentences whose best source piece is the gold one."""
    write_lines(folder / "data" / "demo" / "test.gold", ["0-0 1-1 2-2", "0-1 1-0 2-2 3-3 4p4 5-5 6-6"])
    for side, lines in PIECES.items():
        write_lines(folder / "pieces" / "demo" / f"test.{side}", lines)
    shapes = np.array([[4, 5], [8, 8]])
    for architecture in ("fconv", "transformer"):
        names = methods(architecture, Ding2019Settings(noise_seeds=(1,)), Protocol(), FORCED)
        path = (
            folder / "attributions" / "demo" / architecture / "1" / "final" / "test" / "forced" / "xa-xb" / "matrices"
        )
        with MatrixWriter(path, names, shapes, {"source_begin": False}) as writer:
            for number, (rows, columns) in enumerate(shapes.tolist()):
                plain = np.full((rows, columns), 0.01, dtype=np.float32)
                plain[np.arange(rows), np.minimum(np.arange(rows), columns - 1)] = 1.0
                plain /= plain.sum(axis=1, keepdims=True)
                other = plain.copy()
                other[0] = np.roll(other[0], 1)
                asked = [name for name in names if "runner_up" in name]
                changing = [name for name in asked if attention_changes or not name.startswith("attention")]
                writer.write(number, {name: other if name in changing else plain for name in names})
        rows = [row(name, "xa-xb", 20.0 + len(name) % 7, 1.5) for name in names]
        write_model(folder, "demo", architecture, "forced", rows)


@pytest.mark.parametrize(("attention_changes", "verdict"), [(False, REPRODUCED), (True, NOT_REPRODUCED)])
def test_attention_may_not_depend_on_the_word(tmp_path: Path, attention_changes: bool, verdict: str) -> None:
    write_scores(tmp_path, attention_changes)
    results = read_results(Manifest.whole(tmp_path))
    changes = label_changes(results)
    assert {(change.method, change.pieces) for change in changes} == {("attention", 10), ("ding_grad", 10)}
    found = verdicts(results)["D23"]
    assert found.verdict == verdict
    assert f"attention {20.0 if attention_changes else 0.0} %, ding_grad 20.0 %" in found.numbers


def test_the_sentence_drawn_has_crossing_links(tmp_path: Path) -> None:
    write_scores(tmp_path)
    results = read_results(Manifest.whole(tmp_path))
    example = read_example(results, results.datasets[0])
    assert example is not None
    assert (example.number, example.direction, list(example.rows)) == (1, "xa-xb", ["FConv", "Transformer"])
    drawn = figures(example, results.protocol)
    assert list(drawn) == ["figure1", "figure2", "figure3"]
    panels = [axes for axes in drawn["figure3"][0].figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").split("\n")[0] for axes in panels] == [
        "σ = 0",
        "σ = 0.05",
        "σ = 0.15",
        "σ = 0.3",
    ]
    assert [label.get_text() for label in panels[0].get_xticklabels()][-2:] == [".", "END"]
    styles = [patch.get_linestyle() for patch in panels[0].patches]
    assert sorted(style in ("-", "solid") for style in styles) == [False, True, True, True, True, True, True]
    right, wrong = panels[0].collections[2:]  # after the two sets of grid lines
    assert (len(right.get_offsets()), len(wrong.get_offsets())) == (5, 2)  # the diagonal, where two gold links cross
    assert panels[0].get_title(loc="left").endswith("AER 31")


def test_the_choice_falls_back_to_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    write_lines(path, ["0-0", "0-0 1-1"])
    sides = [(Side(["▁a"], [0]), Side(["▁b"], [0])), (Side(["▁a", "▁b"], [0, 1]), Side(["▁c", "▁d"], [0, 1]))]
    assert choose(read_gold(path, 0, "pharaoh"), sides) == 1


def test_the_curves_hold_what_varies_noise_and_nothing_else(tmp_path: Path) -> None:
    write_scores(tmp_path)
    found = points(read_results(Manifest.whole(tmp_path)))
    mine = [point for point in found if point.model == "transformer"]
    assert [(point.curve, point.x, point.passes) for point in mine] == [
        *(("n", float(n), n) for n in (1, 5, 10, 20, 30)),
        ("sigma", 0.0, 1), ("sigma", 0.05, 30), ("sigma", 0.15, 30), ("sigma", 0.3, 30),
    ]  # fmt: skip


def run_study(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    study.configure(parser)
    study.run(parser.parse_args(["ding2019", *arguments]))


def test_the_verb_writes_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scores(tmp_path)
    run_study("--results", str(tmp_path), "--json")
    summary = json.loads(capsys.readouterr().out)
    out = tmp_path / "ding2019"
    names = {path.name for path in out.iterdir()}
    tables = {
        f"{stem}.{kind}" for stem in ("table1", "table2", "table3", "variants") for kind in ("csv", "md", "tex", "html")
    }
    drawn = {
        f"{stem}.{kind}"
        for stem in ("figure1-demo", "figure2-demo", "figure3-demo", "samples")
        for kind in ("svg", "png")
    }
    files = {"claims.csv", "claims.md", "comparisons.csv", "samples.csv", "index.html", "summary.json"}
    assert tables | drawn | files <= names
    assert summary == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert sum(summary["claims"].values()) == len(claims_of("ding2019"))
    with (out / "claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [entry["verdict"] for entry in rows] == list(summary["verdicts"].values())
    with (out / "comparisons.csv").open(encoding="utf-8", newline="") as file:
        compared = list(csv.DictReader(file))
    assert tuple(compared[0]) == COMPARISON_COLUMNS
    for outcome in ("held", "failed", "within noise"):
        of_claim = sum(int(entry[outcome.replace(" ", "_")]) for entry in rows if entry["id"] == "D01")
        assert of_claim == sum(entry["claim"] == "D01" and entry["outcome"] == outcome for entry in compared)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml") == 4
    assert all(claim.id in page for claim in claims_of("ding2019"))
    assert "http" not in page.replace("http://www.w3.org", "")
    journal = [json.loads(line) for line in (out / "study.journal.jsonl").read_text(encoding="utf-8").splitlines()]
    (started,) = (event for event in journal if event["event"] == "run")
    assert started["experiment"] == "ding2019"
    recorded = {event["path"] for event in journal if event["event"] == "artifact"}
    assert {"table1.csv", "claims.csv", "comparisons.csv", "figure1-demo.svg"} <= recorded
    measured = {
        name: value for event in journal if event["event"] == "metrics" for name, value in event["values"].items()
    }
    counts = {f"claims_{name.replace(' ', '_')}": count for name, count in summary["claims"].items()}
    assert {name: measured[name] for name in counts} == counts
    assert "claims_undecided" in counts


def test_the_verb_needs_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no scores in this folder"):
        run_study("--results", str(tmp_path))
    with pytest.raises(InputError, match="no such results folder"):
        run_study("--results", str(tmp_path / "nowhere"))
