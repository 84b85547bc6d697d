"""Pages of studies: exhibits as in print, claims that lead to them, and the runs behind their numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alignlens.display.pages import Picture
from alignlens.display.render import Cell, Table, html
from alignlens.studies.claims import REPRODUCED, Finding, claims_of, verdict_of
from alignlens.studies.exhibits import IN_PRINT, deciding, exhibits_of
from alignlens.studies.page import Section, study_page
from alignlens.studies.registry import studies, study_of
from alignlens.studies.runs import KEY_TAG, PageRun, filter_of, linked, parsed, runs_of
from alignlens.tracking.beside import records_beside
from alignlens.tracking.experiments import EXPERIMENTS
from alignlens.tracking.journal import Journal
from alignlens.tracking.reconcile import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = sorted(studies())


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_leads_to_an_exhibit_or_says_why_not(name: str) -> None:
    labels = {exhibit.label for exhibit in exhibits_of(name)}
    for claim in claims_of(name):
        deciders, why_none = deciding(claim.decided_by)
        assert set(deciders) <= labels, claim.id
        assert bool(deciders) != bool(why_none), claim.id
        assert claim.where


@pytest.mark.parametrize("name", NAMES)
def test_exhibits_are_told_apart_and_known(name: str) -> None:
    exhibits = exhibits_of(name)
    assert len({exhibit.anchor for exhibit in exhibits}) == len(exhibits)
    assert {exhibit.in_print for exhibit in exhibits} <= IN_PRINT.keys()
    assert {parsed(wanted)[0] for exhibit in exhibits for wanted in exhibit.runs} <= EXPERIMENTS.keys()
    assert study_of(name).front in {exhibit.label for exhibit in exhibits}
    assert not {"summary", "claims", "runs"} & {exhibit.anchor for exhibit in exhibits}


def page_of(sections: Sequence[Section], runs: Sequence[PageRun] = (), name: str = "ding2019") -> str:
    verdicts = [verdict_of(claim, Finding(REPRODUCED)) for claim in claims_of(name)]
    return study_page(study_of(name), "mine", verdicts, sections, [("models", "none")], runs)


def part(page: str, anchor: str) -> str:
    (found,) = re.findall(rf'<section id="{anchor}">(.*?)</section>', page, flags=re.DOTALL)
    return str(found)


def test_a_page_has_every_exhibit_in_the_order_of_print() -> None:
    table = Table("ours", "Our table", ("method", "AER"), [[Cell("attention"), Cell("45.0", 45.0)]])
    page = page_of([Section("Table 1", [table]), Section("Figure 2", figures=[Picture("Our figure", b"<svg/>")])])
    assert re.findall(r"<h2>(Table \d|Figure \d)<small>", page) == [
        "Table 1", "Table 2", "Table 3", "Figure 1", "Figure 2", "Figure 3",
    ]  # fmt: skip
    assert "Our table" in part(page, "table-1")
    assert 'href="#claim-D01">D01</a> (reproduced)' in part(page, "table-1")
    assert "drawn, not printed" in part(page, "figure-2")
    assert "Not here: text in pieces, gold links or score matrices are missing" in part(page, "figure-1")
    assert 'href="#table-1">Table 1</a>, <a href="#table-2">' in part(page, "claims")
    assert "the counts stand in this row" in part(page, "claims")
    places = re.findall(r' id="([^"]+)"', page)
    assert len(places) == len(set(places))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(places)
    assert "nothing is known of their runs" in part(page, "runs")


def test_a_section_that_no_exhibit_is_for_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="Table 9"):
        page_of([Section("Table 9")])


def test_an_exhibit_names_its_runs_and_the_page_lists_them_all() -> None:
    tags = {"decoding": "forced", "extraction": "ding", "method_name": "attention"}
    runs = [
        PageRun("0" * 16, "attribution", "xa-xb · lstm · attention", tags),
        PageRun("1" * 16, "attribution", "free <b>", tags | {"decoding": "free", "kind": "direction"}),
        PageRun("2" * 16, "score", "fast_align"),
        PageRun("3" * 16, "segment", "pieces"),
    ]
    picture = Picture("Our figure", b"<svg/>")
    page = page_of([Section(label, figures=[picture]) for label in ("Table 1", "Table 2")], runs)
    assert re.findall(r'href="#run-(\d)', part(page, "table-1")) == ["0", "2"]
    assert re.findall(r'href="#run-(\d)', part(page, "table-2")) == ["1"]
    assert re.findall(r'<tr id="run-(\d)', part(page, "runs")) == ["0", "1", "2", "3"]
    assert f"tags.`{KEY}` = &#39;KEY&#39;" in page or f"tags.`{KEY}` = 'KEY'" in page
    assert "free &lt;b&gt;" in page
    assert "free <b>" not in page


def test_a_number_leads_to_its_run_and_names_all_of_them() -> None:
    runs = [PageRun(str(seed) * 16, "attribution", "", {"seed": str(seed), "method": "attention"}) for seed in (1, 2)]
    wanted = (filter_of("attribution", method="attention|norms"),)
    cells = [Cell("45.0", 45.0, detail="2 runs", source=wanted), Cell("not run", source=wanted), Cell("46.0", 46.0)]
    (row,) = linked(Table("t", "t", ("a", "b", "c"), [cells]), runs).rows
    assert row[0].links == (("45.0", f"#run-{'1' * 16}"),)
    assert row[0].detail == f"2 runs; keys {'1' * 16}, {'2' * 16}"
    assert row[1:] == cells[1:]
    assert linked(Table("t", "t", ("a", "b", "c"), [cells]), runs[:0]).rows == [cells]


def test_numbers_that_know_their_runs_come_before_the_filter_of_their_exhibit() -> None:
    tags = {"decoding": "forced", "extraction": "ding", "method_name": "attention"}
    runs = [PageRun(str(seed) * 16, "attribution", "", tags | {"seed": str(seed)}) for seed in (1, 2)]
    cells = [Cell("45.0", 45.0, source=(filter_of("attribution", seed="2"),))]
    for row, expected in ((cells, ["2"]), ([Cell("45.0", 45.0)], ["1", "2"])):
        page = page_of([Section("Table 1", [Table("t", "t", ("a",), [row])])], runs)
        assert re.findall(r'<li><a href="#run-(\d)', part(page, "table-1")) == expected
        told = "1 run behind" if expected == ["2"] else "2 runs, including those behind"
        assert f"<summary>{told} these numbers</summary>" in page


def test_filters_of_runs() -> None:
    run = PageRun("0" * 16, "train models", "one", {"split": "train_sample", "seed": "2"})
    for wanted, fits in (
        ("train models", True),
        ("train models split=train*", True),
        ("train models split=dev|train* seed=2", True),
        ("train models split=train", False),
        ("train models decoding=forced", False),
        ("train", False),
    ):
        assert run.fits(wanted) == fits, wanted
    assert runs_of(("train", "train models seed=2"), [run]) == [run]
    assert runs_of((), [run]) == []


def test_the_key_is_the_tag_of_the_tracker() -> None:
    assert KEY_TAG == KEY


def write_journal(path: Path, name: str) -> str:
    with Journal(path) as journal:
        return journal.run(experiment="score", name=name, identity={"name": name}, tags={"seed": 1}).key


def test_runs_are_those_of_the_journals_beside_files(tmp_path: Path) -> None:
    keys = {
        name: write_journal(tmp_path / f"{name}.journal.jsonl", name)
        for name in ("scores/metrics.json", "encoders/bert", "data/demo/prepare", "data/demo/few.source", "other")
    }
    files = ["scores/metrics.json", "scores/missing.json", "encoders/bert/statistics.json"]
    files += ["data/demo/test.gold", "data/demo/few.source", "data/demo/dev.gold"]
    skipped: list[str] = []
    found = records_beside(tmp_path, files, skipped)
    assert [record.key for record in found] == [key for name, key in keys.items() if name != "other"]
    assert not skipped
    (tmp_path / "scores/metrics.json.journal.jsonl").write_text("nonsense\n")
    assert keys["scores/metrics.json"] not in {record.key for record in records_beside(tmp_path, files, skipped)}
    (told,) = skipped
    assert "metrics.json.journal.jsonl:1: not a journal line" in told


def test_links_of_cells_and_places_of_rows_are_escaped() -> None:
    table = Table("t", "t", ("a",), [[Cell("x", links=(("<T>", '#a"b'),))]], anchors=['r"1'])
    made = html(table)
    assert '<tr id="r&quot;1">' in made
    assert '<a href="#a&quot;b">&lt;T&gt;</a>' in made
    with pytest.raises(ValueError, match="zip"):
        html(Table("t", "t", ("a",), [[Cell("x")], [Cell("y")]], anchors=["one"]))
