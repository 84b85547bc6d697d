"""``alignlens report`` on a results folder made by hand."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from alignlens.alignment.gold import read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.cli.main import main
from alignlens.io.atomic import write_json
from alignlens.metrics.aer import count_hits
from alignlens.results.manifest import FILE, Manifest
from alignlens.tracking.journal import Journal

LINKS = {"xx-yy": "0-0 1-1\n0-0\n", "yy-xx": "0-0\n0-0 0-1\n", "union": "0-0 1-1\n0-0 0-1\n"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    data = root / "data" / "toy"
    data.mkdir(parents=True)
    (data / "test.source").write_text("das Haus_ist\nja\n")
    (data / "test.target").write_text("the house|is\nyes &amp;\n")
    (data / "test.gold").write_text("0-0 1p1\n0-0\n")
    (data / "preparation.json").write_text(json.dumps({"licence": "CC0", "splits": {"test": {"pairs": 2}}}))
    for aligner in ("fast_align", "hmm"):
        add_run(root, aligner)
    return root


def add_run(root: Path, aligner: str) -> None:
    run = f"toy/{aligner}/offline/all"
    gold = read_gold(root / "data/toy/test.gold", 0)
    rows = []
    for name, text in LINKS.items():
        path = root / "links" / run / f"{name}.pharaoh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        scores = count_hits(read_links(path), gold).scores()
        rows.append({
            "links": name, "kind": "symmetrised" if name == "union" else "direction", "aer": scores.aer,
            "aer_low": max(scores.aer - 1, 0), "aer_high": min(scores.aer + 1, 100), "precision": scores.precision,
            "recall": scores.recall, "f1": scores.f1, "links_count": 3, "sure": 2, "possible": 3,
        })  # fmt: skip
    folder = root / "scores" / run
    folder.mkdir(parents=True)
    content = {"dataset": "toy", "pair": ["xx", "yy"], "aligner": aligner, "text": "offline", "size": "all",
               "train_pairs": 9, "sentences": 2, "rows": rows,
               "interval": {"level": 95, "samples": 100, "seed": 1}}  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(content))
    for name, line in (("xx-yy", "2.5\t0:00:02\t120.5\t1\t1\t1\t0\t0\t90\t2"), ("yy-xx", "0.1\t0:00:00" + "\tNA" * 8)):
        path = root / "benchmarks" / "align" / run / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"
        path.write_text(f"{columns}\n{line}\n")


def fail(root: Path, journal: str, log: str) -> None:
    with suppress(RuntimeError), Journal(root / journal) as record:
        record.run(experiment="x", name="toy · ibm4", identity={"dataset": "toy", "aligner": "ibm4"})
        raise RuntimeError("the aligner gave up")
    (root / log).parent.mkdir(parents=True, exist_ok=True)
    (root / log).write_text("first\n" + "middle\n" * 30 + "the last words\n")


def test_writes_every_file_and_nothing_else(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(results)]) == 0
    names = {path.name for path in (results / "report").iterdir()}
    assert names == {
        "aer.csv", "aer.md", "aer.tex", "aer.html", "runtime.csv", "runtime.md",
        "heatmap-toy.svg", "heatmap-toy.png",
    }  # fmt: skip
    assert capsys.readouterr().out == f"Report: {results / 'report.html'}\n"
    with (results / "report/aer.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert len(records) == 6
    assert (records[0]["links"], float(records[0]["seconds"]), float(records[0]["peak_memory_mb"])) == (
        "xx-yy",
        2.5,
        120.5,
    )
    assert records[1]["peak_memory_mb"] == ""
    assert float(records[0]["aer"]) == 0.0
    assert "not sampled" in (results / "report/runtime.md").read_text()


def test_same_results_give_the_same_bytes(results: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert main(["report", "--results", str(results), "--out", str(tmp_path / name), "--heatmaps", "2"]) == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert (tmp_path / "one" / "heatmap-toy.2.svg").is_file()
    assert main(["report", "--results", str(results), "--out", str(tmp_path / "one")]) == 0
    assert not (tmp_path / "one" / "heatmap-toy.2.svg").exists()


def test_only_what_the_manifest_names_is_shown(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_json(path, Manifest(results, ("scores/toy/hmm/offline/all/metrics.json",)).as_json())
    assert main(["report", "--results", str(results), "--manifest", str(path), "--title", "Just one"]) == 0
    text = (results / "report/aer.md").read_text()
    assert "hmm, offline" in text
    assert "fast_align" not in text
    assert "<h1>Just one</h1>" in (results / "report.html").read_text()


@pytest.mark.parametrize(
    ("journal", "log"),
    [
        ("links/toy/ibm4/offline/all/xx-yy.pharaoh.journal.jsonl", "aligners/toy/ibm4/offline/all/xx-yy/align.log"),
        ("scores/toy/ibm4/offline/all/metrics.json.journal.jsonl", "scores/toy/ibm4/offline/all/score.log"),
        ("links/toy/ibm4/offline/all/symmetrize.journal.jsonl", "links/toy/ibm4/offline/all/symmetrize.log"),
    ],
)
def test_failed_runs_are_told_with_their_last_words(results: Path, journal: str, log: str) -> None:
    fail(results, journal, log)
    found = [path.relative_to(results).as_posix() for path in results.rglob("*")]
    absent = [f"scores/toy/{name}/offline/all/metrics.json" for name in ("ibm4", "eflomal")]
    write_json(results / "report" / FILE, Manifest(results, (*found, *absent)).as_json())
    assert main(["report", "--results", str(results)]) == 0
    page = (results / "report.html").read_text()
    assert "the aligner gave up" in page
    assert "the last words" in page
    assert f"Last lines of {log}" in page
    assert "<pre>first" not in page
    table = (results / "report/aer.md").read_text()
    assert re.search(r"\| ibm4, offline( +\| +\*failed\*){3} \|", table)
    assert re.search(r"\| eflomal, offline( +\| +\*not run\*){3} \|", table)


def test_journals_tell_the_cost_where_there_are_no_benchmarks(results: Path) -> None:
    for path in sorted((results / "benchmarks").rglob("*.tsv")):
        path.unlink()
    with Journal(results / "links/toy/hmm/offline/all/xx-yy.pharaoh.journal.jsonl") as journal:
        journal.run(experiment="align", name="x", identity={}).metric("seconds", 7.5)
    assert main(["report", "--results", str(results)]) == 0
    text = (results / "report/runtime.md").read_text()
    assert "journals" in text
    assert "7.5" in text


def test_print_shows_the_table_and_where_the_report_is(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(results), "--print"]) == 0
    printed = capsys.readouterr().out
    assert "fast_align, offline" in printed
    assert "No report yet" in printed
    assert not (results / "report").exists()
    assert main(["report", "--results", str(results)]) == 0
    assert main(["report", "--results", str(results), "--print"]) == 0
    assert f"Report: {results / 'report.html'}" in capsys.readouterr().out


def test_print_needs_neither_pandas_nor_matplotlib(results: Path) -> None:
    code = (
        "import sys; from alignlens.cli.main import main; "
        f"status = main(['report', '--results', {str(results)!r}, '--print']); "
        "bad = {'pandas', 'matplotlib', 'torch', 'mlflow', 'jinja2'} & set(sys.modules); sys.exit(status or bool(bad))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_words_survive_the_page(results: Path) -> None:
    assert main(["report", "--results", str(results)]) == 0
    page = (results / "browser/index.html").read_text()
    data = json.loads(page.split('id="sentences">', 1)[1].split("</script>", 1)[0])
    first, second = data[0]["texts"][0]
    assert (first["target"]["words"], second["target"]["words"]) == (["the", "house|is"], ["yes", "&amp;"])


def test_a_folder_that_is_no_browser_is_kept(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "browser").mkdir()
    (results / "browser/mine.txt").write_text("mine")
    assert main(["report", "--results", str(results)]) == 2
    assert "exists with other content, which would be replaced" in capsys.readouterr().err
    assert (results / "browser/mine.txt").read_text() == "mine"
    assert not (results / "report.html").exists()


def broken(results: Path, name: str, text: str) -> None:
    (results / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("scores/toy/hmm/offline/all/metrics.json", "{", "metrics.json:1: not JSON"),
        ("scores/toy/hmm/offline/all/metrics.json", "{}", "'dataset' is missing"),
        ("links/toy/hmm/offline/all/union.pharaoh", "0-0\n", "union.pharaoh"),
        ("links/toy/hmm/offline/all/union.pharaoh", "0-0\n0-9\n", "union.pharaoh:2"),
        ("benchmarks/align/toy/hmm/offline/all/xx-yy.tsv", "x\n1\n", "xx-yy.tsv:1: no column s"),
        ("data/toy/test.target", "one\n", "test.target"),
        ("data/toy/preparation.json", "[", "preparation.json:1: not JSON"),
    ],
)
def test_broken_files_are_named(
    results: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, told: str
) -> None:
    broken(results, name, text)
    assert main(["report", "--results", str(results)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--results", "nowhere"],
        ["--results", "."],
        ["--manifest", "x.json"],
        ["--results", ".", "--manifest", "x.json"],
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_configuration_tells_results_and_runs(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(project / "config")
    assert main(["report", "--print"]) == 2
    assert "results/demo" in capsys.readouterr().err
    (tmp_path / "results" / "demo").mkdir(parents=True)
    assert main(["report", "--print"]) == 0
    assert "not run" in capsys.readouterr().out
