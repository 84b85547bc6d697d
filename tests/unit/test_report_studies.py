"""Studies in the report and at the end of a run: claims, error rates in short, and the way to their pages."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ding2019_results import row, write_model, write_printed

from alignlens.cli.main import main
from alignlens.report.studies import read_study, relative_link, study_tables, verdicts_in_words
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_results
from alignlens.studies.claims import VERDICTS
from alignlens.studies.ding2019.causes import cause_table
from alignlens.studies.ding2019.layout import METHODS

if TYPE_CHECKING:
    from pathlib import Path

ERRORS = {"attention": 45.04, "ding_grad": 50.0, "ding_smoothgrad": 45.0}
CAUSES = {"attention": 40.0, "ding_grad": 55.0, "ding_smoothgrad": 70.0}


def caused(hits: float) -> dict[str, Any]:
    return {"cause_hits": hits, "cause_low": hits - 2, "cause_high": hits + 2, "cause_chance": 12.5, "cause_words": 90}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A generated dataset: causes are known in the forward direction of forced decoding only."""
    unknown = dict.fromkeys(caused(0))
    for decoding in ("forced", "free"):
        rows = [
            row(
                method, links, aer, **(caused(CAUSES[method]) if links == "xa-xb" and decoding == "forced" else unknown)
            )
            for method, aer in ERRORS.items()
            for links in ("xa-xb", "xb-xa", *(["grow-diag-final-lilt"] if decoding == "forced" else []))
        ]
        write_model(tmp_path / "tiny", "demo", "lstm", decoding, rows)
    return tmp_path / "tiny"


@pytest.fixture
def studied(results: Path) -> Path:
    assert main(["study", "ding2019", "--results", str(results)]) == 0
    return results


def test_the_best_of_a_column_to_the_printed_digit_is_strong(studied: Path) -> None:
    (table,) = study_tables(read_study(studied / "ding2019" / "summary.json"))
    assert table.caption.startswith("ding2019, "), "several studies stand under each other"
    assert table.header == ("architecture", "method", "xa-xb", "xb-xa", "bidir")
    shown = {cells[1].text: cells[2:] for cells in table.rows}
    assert {cells[0].text for cells in table.rows} == {"LSTM"}  # nothing of models that are not there
    assert [cell.text for cell in shown[METHODS["attention"]]] == ["45.0 ±1.5"] * 3
    assert all(cell.strong for cell in shown[METHODS["attention"]])
    assert not any(cell.strong for cell in shown[METHODS["ding_grad"]])
    assert "95 % bootstrap" in table.notes[0]
    assert METHODS["li_grad"] not in shown


def test_a_cell_without_number_says_why(results: Path) -> None:
    write_model(results, "demo", "lstm", "forced", [row("attention", "xa-xb", 30.0), row("ding_grad", "xb-xa", 31.0)])
    assert main(["study", "ding2019", "--results", str(results)]) == 0
    (table,) = study_tables(read_study(results / "ding2019" / "summary.json"))
    assert [cell.text for cell in table.rows[0][2:]] == ["30.0 ±1.5", "not run", "not symmetrised"]


def test_the_page_shows_studies_and_the_way_to_them(studied: Path, tmp_path: Path) -> None:
    assert main(["report", "--results", str(studied)]) == 0
    page = (studied / "report.html").read_text(encoding="utf-8")
    part = page.split('<section id="studies">')[1].split("</section>")[0]
    assert '<a href="ding2019/index.html">' in part
    told = verdicts_in_words(read_study(studied / "ding2019" / "summary.json"))
    assert re.fullmatch(r"\d+ of 23 claims reproduced, \d+ not, \d+ undecided, \d+ not testable here", told)
    assert told in part
    assert part.count("45.0 ±1.5") == 6
    assert '<a href="#studies">Studies</a>' in page
    # A page elsewhere finds its way back.
    elsewhere = tmp_path / "pages" / "mine.html"
    assert main(["report", "--results", str(studied), "--page", str(elsewhere)]) == 0
    assert '<a href="../tiny/ding2019/index.html">' in elsewhere.read_text(encoding="utf-8")


def test_the_front_page_has_a_bar_and_a_figure_per_study(studied: Path, tmp_path: Path) -> None:
    path = studied / "ding2019" / "summary.json"
    summary = json.loads(path.read_text()) | {"figure": {"file": "drawn.svg", "caption": "A drawing"}}
    path.write_text(json.dumps(summary))
    assert main(["report", "--results", str(studied)]) == 0
    page = (studied / "index.html").read_text(encoding="utf-8")
    assert "<img" not in page, "the figure is not there"
    (studied / "ding2019" / "drawn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    assert main(["report", "--results", str(studied), "--front", str(tmp_path / "fronts" / "all.html")]) == 0
    page = (tmp_path / "fronts" / "all.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/svg+xml;base64,') == 1
    assert "A drawing" in page
    assert '<a href="../tiny/ding2019/index.html">Ding, Xu and Koehn 2019' in page
    assert '<a href="../tiny/report.html">' in page
    counts = {name: int(count) for count, name in re.findall(r'title="(\d+) ([^"]+)">', page)}
    assert counts == {name: count for name, count in summary["claims"].items() if count}
    shares = [float(share) for share in re.findall(r'style="flex: ([\d.]+)"', page)]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_a_figure_is_a_file_beside_the_page_of_its_study(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = studied / "ding2019" / "summary.json"
    summary = json.loads(path.read_text()) | {"figure": {"file": "../../secret.svg", "caption": ""}}
    path.write_text(json.dumps(summary))
    assert main(["report", "--results", str(studied)]) == 2
    assert "is not the name of a file" in capsys.readouterr().err


def test_the_front_page_of_no_study_leads_to_the_report(studied: Path) -> None:
    for path in (studied / "ding2019").iterdir():
        path.unlink()
    assert main(["report", "--results", str(studied)]) == 2
    (studied / "data" / "demo").mkdir(parents=True)
    (studied / "data" / "demo" / "preparation.json").write_text('{"splits": {}}')
    assert main(["report", "--results", str(studied)]) == 0
    page = (studied / "index.html").read_text(encoding="utf-8")
    assert "No study has run" in page
    assert '<a href="report.html">' in page


def test_a_report_without_studies_does_not_mention_them(studied: Path) -> None:
    for path in (studied / "ding2019").iterdir():
        path.unlink()
    (studied / "data" / "demo").mkdir(parents=True)
    (studied / "data" / "demo" / "preparation.json").write_text('{"splits": {}}')
    assert main(["report", "--results", str(studied)]) == 0
    assert "tudies" not in (studied / "report.html").read_text(encoding="utf-8")


def test_links_are_addresses(tmp_path: Path) -> None:
    assert relative_link(tmp_path / "a b" / "50%.html", tmp_path / "x.html") == "a%20b/50%25.html"


def test_print_ends_with_the_table_and_a_line_per_study(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["report", "--results", str(studied), "--print"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\| LSTM +\| Ding et al., Grad +\| +50.0 ±1.5 \|", printed)
    with (studied / "ding2019" / "claims.csv").open(encoding="utf-8", newline="") as file:
        verdicts = [entry["verdict"] for entry in csv.DictReader(file)]
    counts = [verdicts.count(verdict) for verdict in VERDICTS]
    line = "ding2019: {} of 23 claims reproduced, {} not, {} undecided, {} not testable here: {}"
    assert line.format(*counts, studied / "ding2019" / "index.html") in printed.splitlines()


def test_print_needs_no_heavy_library_for_studies(studied: Path) -> None:
    code = (
        "import sys; from alignlens.cli.main import main; "
        f"status = main(['report', '--results', {str(studied)!r}, '--print']); "
        "bad = {'pandas', 'matplotlib', 'torch', 'jinja2'} & set(sys.modules); sys.exit(status or bool(bad))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("{}", "'claims' is missing"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
    ],
)
def test_damaged_summaries_are_named(studied: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    (studied / "ding2019" / "summary.json").write_text(text)
    assert main(["report", "--results", str(studied)]) == 2
    error = capsys.readouterr().err
    assert "ding2019/summary.json" in error
    assert told in error


def test_a_row_with_too_few_cells_is_refused(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = studied / "ding2019" / "summary.json"
    content = json.loads(path.read_text())
    content["error_rates"][0]["rows"][0]["cells"].pop()
    path.write_text(json.dumps(content))
    assert main(["report", "--results", str(studied), "--print"]) == 2
    assert "not every row has 3 cells" in capsys.readouterr().err


# ---- true causes ---------------------------------------------------------------------------------------------


def test_hits_among_true_causes_are_on_the_page_and_in_files(studied: Path) -> None:
    out = studied / "ding2019"
    with (out / "causes.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    assert {entry["method"]: float(entry["hits"]) for entry in records} == CAUSES
    assert {(entry["direction"], entry["chance"]) for entry in records} == {("xa-xb", "12.5")}
    text = (out / "causes.md").read_text(encoding="utf-8")
    assert re.search(r"Ding et al., SmoothGrad \| +\*\*70.0\*\* \| +68.0–72.0 \| +12.5 \|", text)
    assert "True causes (embedded corpus)" in (out / "index.html").read_text(encoding="utf-8")
    assert {"causes.tex", "causes.html"} <= {path.name for path in out.iterdir()}
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert "causes.csv" in summary["tables"]
    (found,) = summary["causes"]
    assert [entry["hits"]["mean"] for entry in found["rows"]] == list(CAUSES.values())


def test_hits_are_means_over_seeds(results: Path) -> None:
    rows = [row("ding_smoothgrad", "xa-xb", 45.0, **caused(50.0))]
    rows += [row("ding_smoothgrad,seed=2", "xa-xb", 45.0, **caused(54.0))]
    write_model(results, "demo", "lstm", "forced", rows)
    read = read_results(Manifest.whole(results))
    table = cause_table(read, read.datasets[0])
    assert table is not None
    (line,) = table.lines
    assert (line.hits.mean, line.hits.low, line.hits.high, line.hits.seeds, line.chance) == (52.0, 50.0, 54.0, 2, 12.5)


def test_text_that_nobody_generated_has_no_causes(tmp_path: Path) -> None:
    write_printed(tmp_path, architectures=["lstm"], aligners=False, datasets=["roen"])
    (tmp_path / "ding2019").mkdir()
    (tmp_path / "ding2019" / "causes.csv").write_text("of an earlier run\n")
    assert main(["study", "ding2019", "--results", str(tmp_path)]) == 0
    assert not list((tmp_path / "ding2019").glob("causes.*"))
    page = (tmp_path / "ding2019" / "index.html").read_text(encoding="utf-8")
    assert "True causes (embedded corpus)" not in page
    assert "Not here: only generated text has causes that are known" in page
    assert json.loads((tmp_path / "ding2019" / "summary.json").read_text())["causes"] == []


def test_the_front_page_needs_a_name_of_its_own(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(studied), "--page", str(studied / "index.html")]) == 2
    assert "name another by --front" in capsys.readouterr().err
    assert not (studied / "index.html").exists()
