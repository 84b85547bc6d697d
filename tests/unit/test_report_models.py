"""The report's part about translation models, on a results folder made by hand."""

from __future__ import annotations

import csv
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from alignlens.cli.main import main
from alignlens.display.heatmap import render
from alignlens.display.render import Table
from alignlens.io.atomic import write_json
from alignlens.report.collect import Failure
from alignlens.report.curves import draw_curves
from alignlens.report.model_tables import best_translator, models_form, models_table
from alignlens.report.models import Curve, ModelCard, ModelId, evenly_spaced, read_curve, read_models, read_samples
from alignlens.results.manifest import FILE, Manifest
from alignlens.tracking.journal import Journal

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
TEXTS = {
    "source": ["das ist <b>gut</b> .", "ja", "wir gehen nach haus", "ein buch liegt hier", "zwei alte männer reden"],
    "target": ["that is <b>good</b> .", "yes", "we go home now", "a book lies here", "two old men talk"],
}


def add_model(root: Path, model: str, direction: str = "xx-yy", seed: int = 1, bleu: float | None = 30.0) -> Path:
    place = f"toy/{direction}/{model}/{seed}"
    folder = root / "models" / place / "model"
    folder.mkdir(parents=True)
    card = {
        "spec": {"architecture": model.split("_")[0]}, "training": {}, "seed": seed, "parameters": 1_234_567,
        "updates": 300, "epochs": 7, "kept": "best", "best": {"update": 200, "dev_loss": 1.5, "dev_accuracy": 0.6},
    }  # fmt: skip
    (folder / "model.json").write_text(json.dumps(card))
    rows = ["update,epoch,learning_rate,train_loss,dev_loss,dev_accuracy,dev_bleu", "50,0,0.001,4.0,,,"]
    rows += [f"{update},1,0.001,{9 - update / 50},{8 - update / 50},0.{update // 100}," for update in (100, 200, 300)]
    (folder / "curves.csv").write_text("\n".join(rows) + "\n")
    with Journal(folder.with_name("model.journal.jsonl")) as journal:
        run = journal.run(experiment="train models", name=place, identity={"model": model})
        for step, speed in enumerate((100.0, 700.0, 800.0)):
            run.metric("target_tokens_per_second", speed, step)
    translated = root / "translations" / place
    translated.mkdir(parents=True)
    side = "target" if direction == "xx-yy" else "source"
    (translated / "test.txt").write_text("\n".join(TEXTS[side][:2] + [f"{model} {seed}"] * 3) + "\n")
    (translated / "forced.json").write_text(json.dumps({"accuracy": 0.75, "loss": 1.1, "perplexity": 3.0, "tokens": 9}))
    if bleu is not None:
        (translated / "bleu.json").write_text(json.dumps({"bleu": bleu, "signature": SIGNATURE}))
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    data = root / "data" / "toy"
    data.mkdir(parents=True)
    for side, lines in TEXTS.items():
        (data / f"test.{side}").write_text("\n".join(lines) + "\n")
    (data / "preparation.json").write_text(json.dumps({"pair": ["xx", "yy"], "splits": {}}))
    add_model(root, "lstm", bleu=20.0)
    add_model(root, "transformer", bleu=30.0)
    add_model(root, "lstm", "yy-xx")
    return root


def trained(model: str, direction: str = "xx-yy", seed: int = 1, **changes: Any) -> ModelCard:
    values: dict[str, Any] = {
        "architecture": model, "parameters": 5_000, "updates": 300, "epochs": 7.0, "kept": "best", "dev_loss": 1.5,
        "accuracy": 0.75, "perplexity": 3.0, "bleu": 30.0, "signature": SIGNATURE, "seconds": 61.0,
        "tokens_per_second": 700.0, "changed": 0.0,
    }  # fmt: skip
    return ModelCard(id=ModelId("toy", direction, model, seed), **{**values, **changes})


def column(table: Table, name: str) -> list[str]:
    place = table.header.index(name)
    return [line[place].text for line in table.rows]


def test_the_table_has_a_row_per_direction_and_model_and_bold_is_per_direction() -> None:
    models = [trained("lstm", bleu=20.0), trained("fconv", bleu=30.0), trained("lstm", "yy-xx", bleu=10.0)]
    table = models_table("toy", models)
    assert [cell.text for cell in table.rows[0]] == [
        "lstm", "lstm", "xx-yy", "1", "5,000", "300", "7", "1.500", "75.0", "3.00", "20.0", "61", "700",
    ]  # fmt: skip
    place = table.header.index("BLEU")
    assert [line[place].strong for line in table.rows] == [False, True, False]
    assert column(table, "direction") == ["xx-yy", "xx-yy", "yy-xx"]
    assert SIGNATURE in table.notes[-1]
    assert "standard deviation" not in " ".join(table.notes)
    assert best_translator("toy", "xx-yy", models) == ("fconv", 30.0)
    assert best_translator("toy", "zz-xx", models) is None


def test_nobody_knows_of_the_training_of_a_model_from_elsewhere() -> None:
    unknown = dict.fromkeys(("updates", "epochs", "dev_loss", "seconds", "tokens_per_second"), math.nan)
    models = [
        trained("lstm"),
        trained("opus", kept="", imported=True, **unknown),
        trained("opus", "yy-xx", bleu=math.nan),
    ]
    table = models_table("toy", models)
    for name in ("updates", "epochs", "dev loss", "seconds", "tokens/s"):
        assert column(table, name)[1] == "–"
    assert column(table, "BLEU") == ["30.0", "30.0", "not measured"]
    assert any("model from elsewhere" in note for note in table.notes)
    assert not any("elsewhere" in note for note in models_table("toy", models[:1]).notes)
    frame = models_form(models)
    assert frame.to_csv(columns=["model", "updates", "seconds"], index=False).splitlines()[1:3] == [
        "lstm,300,61.0", "opus,,",
    ]  # fmt: skip


def test_several_seeds_are_a_mean_with_its_spread() -> None:
    models = [trained("lstm", seed=seed, bleu=20.0 + seed, perplexity=3.0) for seed in (1, 2, 3)]
    table = models_table("toy", models)
    assert (column(table, "seed"), column(table, "BLEU")) == (["1, 2, 3"], ["22.0 ±1.0"])
    assert column(table, "perplexity") == ["3.00"]
    assert "± is the standard deviation over seeds." in table.notes
    assert models_form(models).bleu.tolist() == [21.0, 22.0, 23.0]


def test_what_is_missing_says_why() -> None:
    expected = [ModelId("toy", "xx-yy", name, 1) for name in ("lstm", "fconv", "transformer")]
    identity = {"dataset": "toy", "direction": "xx-yy", "model": "fconv", "seed": 1}
    table = models_table(
        "toy", [trained("lstm", bleu=math.nan)], expected, [Failure("x", "FAILED", "boom", identity, "", "")]
    )
    assert column(table, "BLEU") == ["not measured", "failed", "not run"]
    assert column(table, "architecture") == ["lstm", "not known", "not known"]
    narrow = models_table("toy", [trained("lstm")], expected, narrow=True)
    assert narrow.header == ("model", "direction", "seed", "accuracy (%)", "perplexity", "BLEU", "seconds")


def test_a_terminal_has_no_room_for_models_that_were_not_tried_on_the_test_text() -> None:
    untried = trained("attends", accuracy=math.nan, perplexity=math.nan, bleu=math.nan)
    both = [trained("lstm"), untried]
    assert column(models_table("toy", both), "model") == ["lstm", "attends"]
    assert column(models_table("toy", both, narrow=True), "model") == ["lstm"]
    assert column(models_table("toy", [untried], narrow=True), "model") == ["attends"]


def test_everything_about_a_model_is_found(results: Path) -> None:
    with (results / "models/toy/xx-yy/lstm/1/model.journal.jsonl").open() as file:
        seconds = [json.loads(line)["values"]["seconds"] for line in file if '"seconds"' in line]
    assert main(["report", "--results", str(results)]) == 0
    with (results / "report/models.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [(row["direction"], row["model"]) for row in records] == [
        ("xx-yy", "lstm"), ("xx-yy", "transformer"), ("yy-xx", "lstm"),
    ]  # fmt: skip
    first = records[0]
    assert (first["parameters"], first["dev_loss"], first["accuracy"], first["bleu"]) == (
        "1234567", "1.5", "0.75", "20.0",
    )  # fmt: skip
    assert float(first["tokens_per_second"]) == 700
    assert float(first["seconds"]) == pytest.approx(seconds[-1], abs=1e-4)
    written = {path.name for path in (results / "report").iterdir()}
    assert written >= {"models.md", "models.tex", "models.html", "curves-toy.svg", "curves-toy.png"}
    page = (results / "report.html").read_text()
    assert "3 trained\ntranslation models" in page
    assert "toy xx-yy: highest BLEU" in page
    assert SIGNATURE in page


def test_samples_show_the_side_that_each_direction_reads(results: Path) -> None:
    samples = read_samples(Manifest.whole(results), read_models(Manifest.whole(results), []), "toy", 3)
    assert [(sample.direction, sample.number) for sample in samples] == [
        (direction, number) for direction in ("xx-yy", "yy-xx") for number in (1, 4, 5)
    ]
    first, last = samples[0], samples[-1]
    assert (first.source, first.reference) == (TEXTS["source"][0], TEXTS["target"][0])
    assert first.translations == {"lstm": TEXTS["target"][0], "transformer": TEXTS["target"][0]}
    assert (last.source, last.reference) == (TEXTS["target"][4], TEXTS["source"][4])
    assert last.translations == {"lstm": "lstm 1"}
    assert main(["report", "--results", str(results)]) == 0
    page = (results / "report.html").read_text()
    assert "that is &lt;b&gt;good&lt;/b&gt; ." in page
    assert page.count("= reference") == 3


def test_sentences_are_evenly_spaced_and_readable() -> None:
    assert evenly_spaced([5] * 9, 3) == [1, 4, 7]
    assert evenly_spaced([5, 99, 5, 1, 5], 3) == [0, 2, 4]
    assert evenly_spaced([1, 1], 3) == [0, 1]
    assert evenly_spaced([], 3) == []


def test_the_directions_of_a_dataset_come_in_its_own_order(results: Path) -> None:
    add_model(results, "lstm", "aa-xx")
    (results / "data/toy/preparation.json").write_text(json.dumps({"pair": ["yy", "xx"], "splits": {}}))
    directions = [item.id.direction for item in read_models(Manifest.whole(results), [])]
    assert directions == ["aa-xx", "yy-xx", "xx-yy", "xx-yy"]


def test_curves_have_what_was_measured_and_nothing_else(results: Path) -> None:
    curve = read_curve(Manifest.whole(results), ModelId("toy", "xx-yy", "lstm", 1))
    assert curve.points["dev_loss"] == [(100, 6.0), (200, 4.0), (300, 2.0)]
    assert curve.points["dev_bleu"] == []
    assert read_curve(Manifest.whole(results), ModelId("toy", "xx-yy", "gone", 1)).points["dev_loss"] == []


def test_the_figure_has_a_panel_per_direction_and_measure_that_exists() -> None:
    def curve(model: str, direction: str, **points: list[tuple[int, float]]) -> Curve:
        return Curve(
            ModelId("toy", direction, model, 1), {"dev_loss": [], "dev_accuracy": [], "dev_bleu": [], **points}
        )

    loss = [(100, 5.0), (200, 3.0)]
    curves = [
        curve("lstm", "xx-yy", dev_loss=loss, dev_accuracy=[(100, 0.5)]),
        curve("fconv", "xx-yy", dev_loss=loss),
        curve("lstm", "yy-xx", dev_loss=loss),
    ]
    drawing = draw_curves(curves, "toy")
    panels = drawing.figure.axes
    assert [axes.get_title(loc="left").partition(" (")[0] for axes in panels] == [
        "xx-yy: dev loss", "xx-yy: dev accuracy", "yy-xx: dev loss", "yy-xx: dev accuracy",
    ]  # fmt: skip
    lines = panels[0].get_lines()
    assert [list(line.get_ydata()) for line in lines] == [[5.0, 3.0], [5.0, 3.0]]
    assert list(panels[1].get_lines()[0].get_ydata()) == [50.0]
    assert len({(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in lines}) == 2
    assert lines[0].get_color() == panels[2].get_lines()[0].get_color()
    svg = render(drawing, ".svg")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert svg == render(draw_curves(curves, "toy"), ".svg")


def test_only_the_models_of_the_configuration_are_shown(results: Path) -> None:
    """Not those that an earlier one has left, nor what their jobs took."""
    for model in ("lstm", "transformer"):
        path = results / f"benchmarks/train/toy/xx-yy/{model}/1.tsv"
        path.parent.mkdir(parents=True)
        path.write_text("s\tmax_rss\n7.0\t5\n")
    files = (f"models/toy/xx-yy/{model}/1/model" for model in ("transformer", "gone"))
    write_json(results / "report" / FILE, Manifest(results, tuple(files)).as_json())
    assert main(["report", "--results", str(results)]) == 0
    text = (results / "report/models.md").read_text()
    assert "| transformer" in text
    assert "| gone" in text
    assert "not run" in text
    pages = [(results / name).read_text() for name in ("report.html", "report/runtime.csv", "report/models.csv")]
    assert not any("lstm" in text for text in [*pages, *(path.name for path in (results / "report").iterdir())])
    assert "toy/xx-yy/transformer/1" in pages[1]


def test_print_shows_the_models_below(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(results), "--print"]) == 0
    printed = capsys.readouterr().out
    assert "toy: translation models on the test text" in printed
    assert "**30.0**" in printed
    assert SIGNATURE.replace("|", r"\|") in printed


def test_a_failed_training_is_told_with_its_last_words(results: Path) -> None:
    folder = results / "models/toy/xx-yy/fconv/1"
    folder.mkdir(parents=True)
    identity = {"dataset": "toy", "direction": "xx-yy", "model": "fconv", "seed": 1}
    with suppress(RuntimeError), Journal(folder / "model.journal.jsonl") as journal:
        journal.run(experiment="train models", name="toy · fconv", identity=identity)
        raise RuntimeError("the loss is nan")
    (folder / "train.log").write_text("update 7\nthe last words\n")
    assert main(["report", "--results", str(results)]) == 0
    page = (results / "report.html").read_text()
    assert "the loss is nan" in page
    assert "the last words" in page


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("models/toy/xx-yy/lstm/1/model/model.json", "{", "model.json:1: not JSON"),
        ("models/toy/xx-yy/lstm/1/model/model.json", "[]", "model.json: not a JSON object"),
        ("models/toy/xx-yy/lstm/1/model/model.json", '{"spec": {}}', "model.json: 'architecture' is missing"),
        ("models/toy/xx-yy/lstm/1/model/curves.csv", "a,b\n1,2\n", "curves.csv:1: no column update"),
        (
            "models/toy/xx-yy/lstm/1/model/curves.csv",
            "update,dev_loss,dev_accuracy,dev_bleu\n1,x,,\n",
            "curves.csv:2: 'x' is not a number",
        ),
        ("translations/toy/xx-yy/lstm/1/bleu.json", "", "make it again with: alignlens bleu"),
        (
            "translations/toy/xx-yy/lstm/1/forced.json",
            '{"accuracy": "high"}',
            "forced.json: unexpected value (accuracy is 'high', not a number)",
        ),
        ("translations/toy/xx-yy/lstm/1/test.txt", "one\n", "test.txt:2: 1 lines, but"),
    ],
)
def test_broken_files_are_named(
    results: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, told: str
) -> None:
    (results / name).write_text(text)
    assert main(["report", "--results", str(results)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_folder_that_is_no_model_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "models/toy/xx-yy/lstm/one/model").mkdir(parents=True)
    assert main(["report", "--results", str(results)]) == 2
    assert "lstm/one/model: is not the folder of a model: its seed is not a number." in capsys.readouterr().err
