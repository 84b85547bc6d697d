"""The browser of sentences: what the page is given is what the pipeline stored."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_results import ASKED, EVIL, FREE, METHODS, NASTY, SOURCE, Unpacked, make_results, unpacked, word_links

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.cli.main import main
from alignlens.errors import InputError
from alignlens.io.atomic import write_json
from alignlens.io.matrices import Matrices
from alignlens.metrics.contributions import Steps
from alignlens.metrics.sentences import read_sentences
from alignlens.report import browser
from alignlens.report.browser import BrowserSet, set_data, shown_counts, write_browser
from alignlens.report.sentences import read_sets
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_results

Shown = tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[Unpacked], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("browser") / "tiny")


@pytest.fixture(scope="module")
def only_set(results: Path) -> BrowserSet:
    (found,) = read_sets(read_results(Manifest.whole(results)))
    return found


@pytest.fixture(scope="module")
def page(results: Path, only_set: BrowserSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "browser"
    write_browser(folder, "toy", "../report.html", [only_set])
    return folder / "index.html"


class Scripts(HTMLParser):
    """The scripts of a page by their ids, and every address in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.addresses: list[str] = []
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [str(given[name]) for name in ("src", "href", "action") if name in given]
        self._open = str(given.get("id", f"script {len(self.found)}")) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.found[self._open] = self.found.get(self._open, "") + data


def everything(page: Path) -> list[Shown]:
    """Returns direction, model, method, scores and text of all that a page has in it."""
    scripts = Scripts(page.read_text(encoding="utf-8")).found
    (content,) = json.loads(scripts["sentences"])
    found = []
    for direction in content["directions"]:
        for model in direction["models"]:
            text = content["texts"][model["text"]]
            for method in model["methods"]:
                packed = scripts[f"chunk-{method['chunk']}"]
                found.append((direction, model, method, unpacked(packed, text, model["begin"], method["prefix"]), text))
    return found


def test_every_method_of_every_model_is_there(page: Path) -> None:
    found = [
        (direction["name"], model["decoding"], method["method"]) for direction, model, method, *_ in everything(page)
    ]
    occasions = [("xa-xb", "forced"), ("xa-xb", "free"), ("xb-xa", "forced")]
    assert sorted(found) == sorted((*occasion, method) for occasion in occasions for method in METHODS)


def test_scores_come_back_to_half_a_level(page: Path, results: Path) -> None:
    for direction, model, method, scores, _ in everything(page):
        stored = Matrices.open(results / ASKED / model["decoding"] / direction["name"] / "matrices")
        for number, found in enumerate(scores):
            exact = stored.matrix(method["method"], number)
            assert np.abs(found.source - exact).max() <= found.step / 2 + 1e-6
            assert found.step <= (max(exact.max(), 0) - min(exact.min(), 0)) / 255 + 1e-6
            if method["prefix"]:
                prefix = stored.matrix("lrp@prefix", number)
                assert found.prefix == pytest.approx(prefix, abs=float(prefix.max()) / 510 + 1e-6)
                steps = Steps.of(exact, prefix)
                assert found.share == pytest.approx(steps.renormalised, abs=1 / 508 + 1e-6, nan_ok=True)
            else:
                assert found.prefix is None


def test_links_and_error_rates_of_sentences_are_those_of_the_metrics(page: Path, results: Path) -> None:
    for direction, model, method, scores, text in everything(page):
        counted = read_sentences(results / ASKED / model["decoding"] / "sentences.npz")
        for extraction in EXTRACTIONS:
            name = f"{method['method']}.{extraction}.{direction['name']}"
            counts = counted.counts[counted.names.index(name)]
            for number, (sentence, found) in enumerate(zip(text, scores, strict=True)):
                links = word_links(sentence, found, extraction)
                sure, possible = (pairs(sentence[kind]) for kind in ("sure", "possible"))
                mine = [len(links & sure), len(links & (sure | possible)), len(links), len(sure)]
                assert mine == counts[number].tolist(), (name, number)
            metrics = json.loads((results / ASKED / model["decoding"] / "metrics.json").read_text())
            (row,) = [row for row in metrics["rows"] if [row[key] for key in ("method", "extraction", "links")] ==
                      [method["method"], extraction, direction["name"]]]  # fmt: skip
            assert method["aer"][extraction] == round(row["aer"], 2)


def pairs(flat: list[int]) -> set[tuple[int, int]]:
    return set(zip(flat[::2], flat[1::2], strict=True))


def test_what_varies_among_the_settings_of_a_method_can_be_chosen(page: Path) -> None:
    found = {method["method"]: method["parameters"] for _, _, method, *_ in everything(page)}
    assert found["attention"] == {"layer": "paper", "head": "mean", "step": "out"}
    assert found["attention,layer=1,head=2,step=in"] == {"layer": "1", "head": "2", "step": "in"}
    assert found["lrp"] == found["grad_input"] == {}


def test_the_text_is_as_models_read_and_write_it(page: Path) -> None:
    (content,) = json.loads(Scripts(page.read_text(encoding="utf-8")).found["sentences"])
    forward, backward = content["directions"]
    assert (forward["languages"], backward["languages"]) == (["xa", "xb"], ["xb", "xa"])
    forced, free = (content["texts"][model["text"]] for model in forward["models"])
    assert forced[2]["source"] == {
        "words": ["eine", "Katze", "schläft"],
        "pieces": ["ei", "·ne", "Kat", "·ze", "schl", "·äf", "·t"],
        "owners": [0, 0, 1, 1, 2, 2, 2],
    }
    assert [sentence["target"]["words"] for sentence in free] == [[w.replace(".", "") for w in line] for line in FREE]
    turned = content["texts"][backward["models"][0]["text"]]
    assert turned[4]["sure"] == [0, 0, 2, 1]
    assert forced[4]["sure"] == [0, 0, 1, 2]
    assert [each["links"] for each in content["aligners"]] == ["xa-xb", "xb-xa", "union"]


def test_a_page_starts_with_the_best_method_and_attention(page: Path, results: Path) -> None:
    (content,) = json.loads(Scripts(page.read_text(encoding="utf-8")).found["sentences"])
    rows = json.loads((results / ASKED / "forced/metrics.json").read_text())["rows"]
    for direction in content["directions"]:
        mine = [row for row in rows if row["links"] == direction["name"]]
        best = min(mine, key=lambda row: row["aer"])
        first, second = direction["start"]
        assert [first[key] for key in ("who", "decoding", "method", "links")] == [
            "transformer", "forced", best["method"], best["extraction"],
        ]  # fmt: skip
        assert second == {**first, "method": "attention"} or second["links"] in ("xa-xb", "xb-xa", "union")


def test_no_word_escapes_its_place(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "\u2028" not in text
    (content,) = json.loads(Scripts(text).found["sentences"])
    assert content["texts"][0][0]["source"]["words"][3] == EVIL
    assert content["texts"][0][3]["source"]["words"][0] == NASTY


def test_one_file_loads_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [path.name for path in page.parent.iterdir() if path.name != "seal.json"] == ["index.html"]
    assert set(Scripts(text).addresses) == {"../report.html", "#"}
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", text)
    assert "This file is complete in itself" in text


def test_scores_of_a_large_set_are_files_with_the_same_content(
    page: Path, only_set: BrowserSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "ONE_FILE", 100)
    write_browser(tmp_path / "large", "toy", "../report.html", [only_set])
    embedded = Scripts(page.read_text(encoding="utf-8")).found
    text = (tmp_path / "large/index.html").read_text(encoding="utf-8")
    scripts = Scripts(text).found
    assert scripts["sentences"] == embedded["sentences"]
    assert not [name for name in scripts if name.startswith("chunk-")]
    assert "The scores are files beside this one" in text
    chunks = {name.removeprefix("chunk-"): packed for name, packed in embedded.items() if name.startswith("chunk-")}
    written = {path.stem: path.read_text() for path in (tmp_path / "large/data").iterdir()}
    assert written == {name: f'alignlensChunk({name},"{packed}");\n' for name, packed in chunks.items()}


def test_as_many_sentences_are_shown_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "ONE_FILE", 1000)
    monkeypatch.setattr(browser, "FOLDER", 6000)
    monkeypatch.setattr(browser, "LEAST", 3)
    monkeypatch.setattr(browser, "MOST", 50)
    assert shown_counts([]) == ([], True)
    assert shown_counts([[10] * 40]) == ([40], True)
    assert shown_counts([[0] * 90]) == ([50], True)
    assert shown_counts([[100] * 40]) == ([10], True)
    assert shown_counts([[100] * 40, [100] * 2]) == ([5, 2], True)
    assert shown_counts([[400] * 40]) == ([15], False)
    assert shown_counts([[9000] * 40]) == ([1], False)


def test_part_of_a_set_is_told_and_keeps_the_numbers_of_its_sentences(
    only_set: BrowserSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = only_set.costs()
    monkeypatch.setattr(browser, "ONE_FILE", sum(costs[:2]))
    monkeypatch.setattr(browser, "LEAST", 2)
    write_browser(tmp_path / "part", "toy", "", [only_set])
    text = (tmp_path / "part/index.html").read_text(encoding="utf-8")
    assert "toy: 2 of 5 test sentences: those on which the best systems disagree most." in text
    (content,) = json.loads(Scripts(text).found["sentences"])
    assert content["numbers"] == sorted(only_set.order[:2])
    first = content["numbers"][0]
    assert content["texts"][0][0]["source"]["words"] == [word.replace(".", "") for word in SOURCE[first]]


def test_only_what_the_manifest_names_is_read(results: Path, tmp_path: Path) -> None:
    files = [file for file in Manifest.whole(results).files if "/free/" not in file and "/xb-xa/" not in file]
    path = tmp_path / "manifest.json"
    write_json(path, Manifest(results, tuple(files)).as_json())
    out = ["--out", str(tmp_path / "report"), "--page", str(tmp_path / "report.html")]
    assert main(["report", "--results", str(results), "--manifest", str(path), *out]) == 0
    page = tmp_path / "browser/index.html"
    occasions = {(direction["name"], model["decoding"]) for direction, model, *_ in everything(page)}
    assert occasions == {("xa-xb", "forced")}
    assert '<a href="browser/index.html">' in (tmp_path / "report.html").read_text()


def test_scores_of_another_text_are_refused(results: Path, tmp_path: Path) -> None:
    root = make_results(tmp_path / "other")
    pieces = root / "pieces/toy/test.source"
    pieces.write_text(pieces.read_text().replace("▁ja", "▁j a"))
    with pytest.raises(InputError, match="not those of the pieces"):
        read_sets(read_results(Manifest.whole(root)))


def test_without_models_aligners_are_shown(results: Path) -> None:
    files = [file for file in Manifest.whole(results).files if not file.startswith("attributions")]
    (found,) = read_sets(read_results(Manifest(results, tuple(files))))
    content = set_data(found, [0, 2])
    (direction,) = content["directions"]
    assert (direction["name"], direction["models"]) == ("xa-xb", [])
    assert direction["start"] == [{"who": "fast_align, offline", "links": direction["start"][0]["links"]}]
    assert content["texts"][0][1]["source"]["pieces"] == ["eine", "Katze", "schläft"]
