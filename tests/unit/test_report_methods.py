"""The table that compares methods: which rows and columns it has, what is bold, and what was not measured."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest
from ding2019_results import row, write_model

from alignlens.cli.main import main
from alignlens.io.atomic import write_json
from alignlens.report.method_tables import methods_table
from alignlens.report.methods import read_compared
from alignlens.results.manifest import FILE, Manifest
from alignlens.results.protocol import Protocol
from alignlens.results.reader import read_results

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.render import Cell, Table

BOTH = "grow-diag-final-lilt"
SMOOTH = "ding_smoothgrad,n=5"
PROTOCOL = Protocol(samples=5)
# The protocol of this folder: five copies. What varies it, a layer and the other noise, is no row of its own.
ERRORS = {"ding_grad": 30.04, SMOOTH: 20.0, "smoothed_attention,n=5": 41.0, "attention": 40.0, "norms": 35.0}
VARIANTS = ("attention,layer=0", "ding_smoothgrad,sigma=0.3,n=5", "ding_smoothgrad,n=1", "li_grad,reading=abs_dot")


def rows(errors: dict[str, float], more: float = 0.0) -> list[dict[str, Any]]:
    return [
        row(method, links, aer + more, extraction=extraction, precision=aer + 1, recall=aer + 2, links_count=1234)
        for method, aer in errors.items()
        for links in ("xa-xb", "xb-xa", BOTH, "union")
        for extraction in ("ding", "kobayashi")
    ]


def write_cost(results: Path, model: str, direction: str, *measured: tuple[str, float, float, float]) -> None:
    methods = [
        {
            "method": method, "seconds_per_100": seconds, "cpu_seconds_per_100": seconds / 2,
            "forward_passes": forward, "backward_passes": backward, "sentences": 12,
        }
        for method, seconds, forward, backward in measured
    ]  # fmt: skip
    path = results / "attributions" / "demo" / model / "1" / "final" / "test" / "forced" / direction / "cost.json"
    write_json(path, {"threads": 1, "methods": methods})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    found = rows({**ERRORS, **dict.fromkeys(VARIANTS, 10.0)})
    write_model(folder, "demo", "lstm", "forced", found)
    write_model(folder, "demo", "lstm", "free", rows({"attention": 1.0}))
    write_model(folder, "demo", "transformer", "forced", rows({"attention": 20.04, "smoothed_attention,n=5": 60.0}))
    for direction, times in (("xa-xb", 1.0), ("xb-xa", 3.0)):
        write_cost(
            folder,
            "lstm",
            direction,
            ("attention", 0.1 * times, 1, 0),
            (SMOOTH, 10 * times, 5, 100 * times),
            ("ding_grad", times, 1, 17.25),
        )
    write_json(
        folder / "scores/demo/hmm/offline/all/metrics.json",
        {
            "dataset": "demo",
            "pair": ["xa", "xb"],
            "aligner": "hmm",
            "text": "offline",
            "size": "all",
            "train_pairs": 9,
            "sentences": 300,
            "rows": [row("attention", "xa-xb", 15.0)],
            "interval": {"level": 95, "samples": 100, "seed": 1},
        },
    )
    return folder


def table_of(results: Path) -> Table:
    manifest = Manifest.whole(results, PROTOCOL)
    found = read_results(manifest)
    compared = read_compared(manifest, found)
    return methods_table(compared.datasets[0], compared, found.aligners)


def shown(table: Table) -> dict[tuple[str, str], dict[str, Cell]]:
    """Cells by model and method, then by heading; a heading that stands there several times has a number."""
    header = [f"{name}{table.header[:place].count(name) or ''}" for place, name in enumerate(table.header)]
    return {(cells[0].text, cells[1].text): dict(zip(header, cells, strict=True)) for cells in table.rows}


def test_rows_are_models_by_plain_methods_then_aligners(results: Path) -> None:
    assert list(shown(table_of(results))) == [
        *(("LSTM", name) for name in ("attention", "smoothed_attention", "norms", "ding_grad", "ding_smoothgrad")),
        ("Transformer", "attention"),
        ("Transformer", "smoothed_attention"),
        ("aligners", "hmm, offline"),
    ]


def test_a_variant_that_was_timed_is_a_row_because_the_configuration_named_it(results: Path) -> None:
    write_cost(results, "lstm", "xa-xb", ("attention,layer=0", 0.5, 1, 0))
    rows = shown(table_of(results))
    assert list(rows)[:2] == [("LSTM", "attention"), ("LSTM", "attention,layer=0")]
    assert rows["LSTM", "attention,layer=0"]["xa-xb AER"].text == "10.0 ±1.5"


def test_columns_are_directions_and_their_combination_then_cost(results: Path) -> None:
    table = table_of(results)
    parts = ("P", "R", "links")
    directions = (*("xa-xb AER", *parts), *("xb-xa AER", *parts), *("bidir AER", *parts))
    assert table.header == ("model", "method", *directions, "seconds per 100", "passes per sentence")
    cells = shown(table)["LSTM", "norms"]
    assert [cells[name].text for name in ("xa-xb AER", "P", "R", "links")] == ["35.0 ±1.5", "36.0", "37.0", "1,234"]
    aligner = shown(table)["aligners", "hmm, offline"]
    assert [aligner[name].text for name in ("xa-xb AER", "xb-xa AER", "passes per sentence")] == [
        "15.0 ±1.5",
        "not scored",
        "–",
    ]


def test_a_direction_that_nobody_has_is_no_column(results: Path) -> None:
    for architecture in ("lstm", "transformer"):
        write_model(results, "demo", architecture, "forced", [row("attention", "xa-xb", 30.0)])
    assert not {"xb-xa AER", "bidir AER"} & set(table_of(results).header)


def test_the_best_of_a_column_is_bold_to_the_printed_digit(results: Path) -> None:
    rows = shown(table_of(results))
    bold = {column: {name for name, cells in rows.items() if cells[column].strong} for column in rows["LSTM", "norms"]}
    tied = {("LSTM", "ding_smoothgrad"), ("Transformer", "attention")}
    assert {column: names for column, names in bold.items() if names} == {
        "xa-xb AER": {("aligners", "hmm, offline")},
        "xb-xa AER": tied,
        "bidir AER": tied,
    }


def test_cost_is_the_mean_of_the_directions_or_not_measured(results: Path) -> None:
    rows = shown(table_of(results))
    cost = {name: (cells["seconds per 100"].text, cells["passes per sentence"].text) for name, cells in rows.items()}
    assert cost["LSTM", "attention"] == ("0.20", "1 F")
    assert cost["LSTM", "ding_grad"] == ("2.00", "1 F + 17.2 B")
    assert cost["LSTM", "ding_smoothgrad"] == ("20.0", "5 F + 200 B")
    assert cost["LSTM", "norms"] == cost["Transformer", "attention"] == ("not measured", "–")
    assert "xb-xa: 30.00, CPU time 15.00 (12 sentences)" in rows["LSTM", "ding_smoothgrad"][
        "seconds per 100"
    ].detail.split("; ")


def test_notes_tell_extraction_symmetrisation_noise_and_measurement(results: Path) -> None:
    notes = " ".join(table_of(results).notes)
    for told in ("extracted by ding", BOTH, "5 copies with σ = 0.15", "on one thread", "12 evenly spaced", "95 %"):
        assert told in notes
    assert "brackets" not in notes
    for path in results.glob("attributions/**/cost.json"):
        path.unlink()
    assert "thread" not in " ".join(table_of(results).notes)


def test_seeds_of_models_and_noise_become_mean_and_spread(results: Path) -> None:
    first, again = rows({SMOOTH: 20.0, "smoothed_attention,n=5": 50.0}), rows({f"{SMOOTH},seed=2": 22.0})
    write_model(results, "demo", "lstm", "forced", [*first, *again])
    write_model(results, "demo", "lstm", "forced", rows({SMOOTH: 24.0}), seed=2)
    table = table_of(results)
    cells = shown(table)["LSTM", "ding_smoothgrad"]
    assert (cells["xa-xb AER"].text, cells["P"].text) == ("22.0 ±1.5 (2.0)", "23.0")
    assert cells["xa-xb AER"].detail.endswith("3 runs")
    assert any("in brackets" in note for note in table.notes)


def test_the_report_has_the_table_and_the_long_form(results: Path) -> None:
    write_json(results / "report" / FILE, Manifest.whole(results, PROTOCOL).as_json())
    assert main(["report", "--results", str(results)]) == 0
    page = (results / "report.html").read_text(encoding="utf-8")
    part = page.split('<section id="methods">')[1].split("</section>")[0]
    assert "not measured" in part
    assert '<a href="#methods">Methods</a>' in page
    assert {path.name for path in (results / "report").glob("methods.*")} == {
        f"methods.{kind}" for kind in ("html", "csv", "md", "tex")
    }
    with (results / "report" / "methods.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    assert {record["extraction"] for record in records} == {"ding", "kobayashi", ""}
    assert {record["method"] for record in records} == {*ERRORS, "hmm, offline"}
    assert {record["links"] for record in records} == {"xa-xb", "xb-xa", BOTH, "union"}
    timed = {
        (record["model"], record["links"]): (record["seconds_per_100"], record["sentences_timed"])
        for record in records
        if record["method"] == "ding_grad"
    }
    assert timed == {
        ("lstm", "xa-xb"): ("1.0", "12"),
        ("lstm", "xb-xa"): ("3.0", "12"),
        ("lstm", BOTH): ("", ""),
        ("lstm", "union"): ("", ""),
    }


def test_without_attributed_models_there_is_no_such_table(results: Path) -> None:
    for path in results.glob("attributions/*/*/*/*/*/forced/metrics.json"):
        path.unlink()
    assert main(["report", "--results", str(results)]) == 0
    assert not (results / "report" / "methods.csv").exists()
    assert "#methods" not in (results / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cost.json:1: not JSON"),
        ("{}", "'threads' is missing"),
        ('{"threads": 1, "methods": [{"method": "attention"}]}', "'seconds_per_100' is missing"),
        ('{"threads": 1, "methods": 3}', "unexpected value"),
    ],
)
def test_a_damaged_cost_file_is_named(results: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    (results / "attributions/demo/lstm/1/final/test/forced/xa-xb/cost.json").write_text(text)
    assert main(["report", "--results", str(results)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
