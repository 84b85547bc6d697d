"""The HTML report: complete in itself, safe for any word, and the data of its browser is right."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from alignlens.alignment.gold import Gold
from alignlens.alignment.links import Alignment
from alignlens.display.pages import Picture, embedded_json, tables_page
from alignlens.report.browser import BrowserSet, browser_page, set_data
from alignlens.report.collect import Failure, Job, TestSet
from alignlens.report.page import Contents, report_page
from alignlens.report.systems import best_aligners, best_systems, disagreements, instructive, readable
from alignlens.report.tables import aer_table
from alignlens.results.samples import SentenceFile, SentenceRow
from alignlens.results.scores import AlignerId, Score, ScoredAligner

EVIL = "</script><script>alert(1)</script>"
RUN_A, RUN_B = AlignerId("demo", "fast_align", "offline", "all"), AlignerId("demo", "hmm", "offline", "all")


UNCOUNTED = SentenceRow(SentenceFile(Path(), (), 0), 0)


def row(links: str, aer: float) -> Score:
    return Score(links, "direction", aer, aer - 1, aer + 1, 80.0, 70.0, 74.7, 10, 9, 10, UNCOUNTED)


def scored() -> list[ScoredAligner]:
    interval = {"level": 95, "samples": 1000, "seed": 1}
    return [
        ScoredAligner(RUN_A, ("xx", "yy"), 100, 3, (row("xx-yy", 20.0), row("yy-xx", 30.0)), interval, 1_700_000_000.0),
        ScoredAligner(RUN_B, ("xx", "yy"), 100, 3, (row("xx-yy", 10.0),), interval, 1_600_000_000.0),
    ]


def sample() -> TestSet:
    source = [["a", EVIL, "c"], ["d"], ["e", "f", "g", "h", "i", "j"]]
    target = [["x", "y & z", "<b>"], ["v"], ["k", "l", "m", "n", "o", "p"]]
    sure = Alignment.from_pairs([[(0, 0), (1, 1)], [], [(0, 0), (5, 5)]])
    possible = Alignment.from_pairs([[(0, 0), (1, 1), (2, 2)], [(0, 0)], [(0, 0), (5, 5)]])
    first = Alignment.from_pairs([[(0, 0), (1, 2)], [(0, 0)], [(0, 0)]])
    second = Alignment.from_pairs([[(0, 0), (1, 1), (2, 2), (2, 0), (0, 2)], [], [(0, 0), (5, 5)]])
    third = Alignment.from_pairs([[(0, 0)], [(0, 0)], []])
    systems = {(RUN_A, "xx-yy"): first, (RUN_A, "yy-xx"): third, (RUN_B, "xx-yy"): second}
    return TestSet("demo", source, target, Gold(sure, possible), systems)


def browsed() -> BrowserSet:
    test_set = sample()
    return BrowserSet(test_set, scored(), [], best_systems(test_set, scored(), []), [0, 1, 2], ("xx", "yy"))


def contents(**changes: Any) -> Contents:
    values: dict[str, Any] = {
        "title": f"demo {EVIL}",
        "preset": "demo",
        "scored": scored(),
        "failures": [Failure("demo · ibm4", "FAILED", f"boom {EVIL}", {}, "logs/x.log", f"last line {EVIL}")],
        "jobs": [Job("align", f"demo/{EVIL}", 12.0, None, "benchmark")],
        "browser": "browser/index.html",
        "pictures": {"demo": [Picture("a figure", b'<svg xmlns="http://www.w3.org/2000/svg"/>')]},
        "preparations": {
            "demo": {
                "licence": "CC0",
                "origin": f"made here {EVIL}",
                "splits": {"train": {"pairs": 90, "read": 100, "dropped": {"too_long": 10}, "not_used": 0,
                                     "words": {"source": 900, "target": 950}}, "test": {"pairs": 3}},
                "inputs": {}, "files": {"test.gold": "ab" * 32},
            }
        },
    }  # fmt: skip
    return Contents(**{**values, **changes})


class Page(HTMLParser):
    """Collects tags, attributes and the embedded JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.json, self._in_json = "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [str(given[name]) for name in ("src", "href", "action", "srcset") if name in given]
        self._in_json = tag == "script" and given.get("id") == "sentences"
        if tag not in ("meta", "link", "img", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)
        self._in_json = False

    def handle_data(self, data: str) -> None:
        if self._in_json:
            self.json += data


def test_nothing_is_loaded_from_anywhere() -> None:
    text = report_page(contents())
    page = Page(text)
    assert {address for address in page.addresses if not address.startswith(("#", "data:"))} == {"browser/index.html"}
    assert "link" not in page.tags
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", text)
    assert (page.unbalanced, page.open) == ([], [])


def test_no_word_escapes_its_place() -> None:
    text = report_page(contents())
    assert "<script>alert" not in text
    assert Page(text).tags.count("script") == 1
    assert text.count("&lt;script&gt;alert(1)") >= 5  # title twice, error, log, job, origin


def test_embedded_json_parses_to_what_was_given() -> None:
    nasty = ["</script>", "<!--", "&amp;", "\u2028", "\u2029", '"', "\\", "日本", "e\u0301"]
    text = embedded_json(nasty)
    assert json.loads(text) == nasty
    assert not set(text) & set("<>&\u2028\u2029")
    data = json.loads(Page(browser_page("t", "", [set_data(browsed(), [0, 1, 2])])).json)
    assert data[0]["texts"][0][0]["source"]["words"] == ["a", EVIL, "c"]


def test_bits_of_the_browser_give_back_the_links_of_every_system() -> None:
    test_set = sample()
    data = set_data(browsed(), [0, 1, 2])
    for place, alignment in enumerate(test_set.systems.values()):
        for k, sentence in enumerate(data["aligned"]):
            cells = list(zip(sentence["cells"][::2], sentence["cells"][1::2], strict=True))
            bits = sentence["has"][place]
            found = [cell for n, cell in enumerate(cells) if int(bits[n // 4], 16) >> (n % 4) & 1]
            assert found == alignment[k]
    (direction,) = data["directions"]
    assert direction["languages"] == ["xx", "yy"]
    assert [panel["who"] for panel in direction["start"]] == ["hmm, offline", "fast_align, offline"]


def test_figures_show_one_system_per_aligner_on_a_sentence_they_disagree_about() -> None:
    test_set = sample()
    assert best_aligners(test_set, scored()) == [(RUN_B, "xx-yy"), (RUN_A, "xx-yy")]
    systems = [system.links for system in best_systems(test_set, scored(), [])]
    assert systems == [test_set.systems[RUN_B, "xx-yy"], test_set.systems[RUN_A, "xx-yy"]]
    assert disagreements(systems, 3) == pytest.approx([1 - 7 / 12, 0.5, 0.25])
    assert instructive(test_set, systems) == [0, 2, 1]  # without gold links at last
    assert readable(test_set, [0, 2, 1], 3) == [2]
    assert readable(test_set, [0, 1], 3) == [0]
    assert disagreements([test_set.systems[RUN_A, "yy-xx"]], 3) == [0.0] * 3
    assert disagreements([], 3) == [0.0] * 3


def test_page_tells_what_a_reader_needs() -> None:
    text = report_page(contents())
    assert "2023-11-14 22:13 UTC" in text  # of the newest metrics, not of now
    for told in (
        "95 %, 1000 samples, seed 1",
        "Last lines of logs/x.log",
        "too long 10",
        "CC0",
        "ab" * 32,
        "10.0 ±1.0",
    ):
        assert told in text


def test_bytes_repeat() -> None:
    assert report_page(contents()) == report_page(contents())


def test_page_without_links_jobs_or_failures_says_so() -> None:
    text = report_page(contents(failures=(), jobs=(), browser="", pictures={}, preparations={}))
    assert "there are no sentences to show" in text
    assert "nothing is known about time and memory" in text
    assert "No preparation report was found" in text
    assert 'id="failures"' not in text


def test_tables_page_is_complete_too() -> None:
    page = Page(tables_page("t", [aer_table("demo", scored())]))
    assert page.addresses == []
    assert (page.unbalanced, page.open) == ([], [])
