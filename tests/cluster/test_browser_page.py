"""The page that browses sentences, in a headless Chromium, from a file: without any server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import chromium, missing_programs
from browser_page import SentencePage
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from browser_results import ASKED, EVIL, SOURCE, make_results

from alignlens.io.matrices import Matrices
from alignlens.metrics.contributions import Steps
from alignlens.metrics.sentences import read_sentences
from alignlens.report import browser
from alignlens.report.browser import write_browser
from alignlens.report.sentences import read_sets
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_results

pytestmark = pytest.mark.cluster
PERCENT = 100


@pytest.fixture(scope="module")
def programs() -> None:
    """These tests skip where a browser is absent."""
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)} (tests/cluster/install.sh installs them on Debian)")


@pytest.fixture(scope="module")
def results(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("sentences") / "tiny")


@pytest.fixture(scope="module", params=["one file", "files"])
def written(request: pytest.FixtureRequest, results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with everything in it, and the page with its scores in files beside it."""
    folder = tmp_path_factory.mktemp("page") / "browser"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "files":
            patch.setattr(browser, "ONE_FILE", 100)
        write_browser(folder, "toy", "../report.html", read_sets(read_results(Manifest.whole(results))))
    assert (folder / "data").is_dir() == (request.param == "files")
    return folder / "index.html"


@pytest.fixture(scope="module")
def driver(programs: None) -> Iterator[SentencePage]:
    with chromium(1500, 1100) as made:
        yield SentencePage(made)


@pytest.fixture
def page(driver: SentencePage, written: Path) -> SentencePage:
    driver.open(written)
    return driver


def stored(results: Path, direction: str = "xa-xb", decoding: str = "forced") -> Matrices:
    return Matrices.open(results / ASKED / decoding / direction / "matrices")


def test_a_model_and_a_method_are_chosen_and_a_cell_is_read(page: SentencePage, results: Path) -> None:
    page.choose_all(sort="number")
    page.choose("a", who="transformer", method="attention", layer="1", head="2", step="in", links="best piece (Ding)")
    number = page.chosen_sentence() - 1
    exact = stored(results).matrix("attention,layer=1,head=2,step=in", number).T
    cell = page.cell("a", 1, 2)
    assert float(cell.get_attribute("data-score")) == pytest.approx(
        float(exact[1, 2]), abs=float(exact.max()) / 510 + 1e-3
    )
    assert np.array(page.scores("a")) == pytest.approx(exact, abs=float(exact.max()) / 510 + 1e-3)
    ActionChains(page.driver).move_to_element(cell).perform()
    assert f"score {cell.get_attribute('data-score')}" in page.text("#panel-a .status")


def test_the_error_rate_of_a_sentence_is_that_of_the_metrics(page: SentencePage, results: Path) -> None:
    page.choose("a", who="transformer", method="grad_input", links="sums over words (Kobayashi)")
    counted = read_sentences(results / ASKED / "forced/sentences.npz")
    counts = counted.counts[counted.names.index("grad_input.kobayashi.xa-xb")][page.chosen_sentence() - 1].tolist()
    rate = PERCENT * (1 - sum(counts[:2]) / sum(counts[2:]))
    assert f"AER {rate:.1f} " in page.text("#panel-a .measures")
    assert f"{counts[2]} links" in page.text("#panel-a .measures")
    marks = page.driver.find_elements(By.CSS_SELECTOR, "#panel-a td.right, #panel-a td.wrong")
    assert len(marks) == counts[2]


def test_contributions_of_source_and_prefix_are_shown(page: SentencePage, results: Path) -> None:
    page.choose("a", who="transformer", method="lrp")
    number = page.chosen_sentence() - 1
    source, prefix = (stored(results).matrix(name, number) for name in ("lrp", "lrp@prefix"))
    shown = page.scores("a", "prefix")
    assert [[score is None for score in row] for row in shown] == [
        [i > j for j in range(len(shown))] for i in range(len(shown))
    ]
    assert np.array(shown, dtype=float)[0] == pytest.approx(prefix[:, 0], abs=float(prefix.max()) / 510 + 1e-3)
    (shares,) = page.scores("a", "share")
    assert shares == pytest.approx(Steps.of(source, prefix).renormalised.tolist(), abs=1 / 508 + 1e-3)
    assert "source share" in page.text("#panel-a .measures")


def test_words_add_up_pieces(page: SentencePage, results: Path) -> None:
    page.open(
        written_of(page), "#data=toy&direction=xa-xb&sentence=3&view=words&a=transformer|forced|attention|kobayashi&b="
    )
    exact = stored(results).matrix("attention", 2).T
    words = np.add.reduceat(exact, [0, 2, 4, 7], axis=0)  # ei ne, Kat ze, schl äf t, END
    assert np.array(page.scores("a"))[:, 0] == pytest.approx(words[:, 0], abs=0.01)
    means = words[:, 2:4].mean(axis=1)  # sle eps
    assert np.array(page.scores("a"))[:, 2] == pytest.approx(means, abs=0.01)
    assert page.fields("b") == {"who": "nothing"}


def written_of(page: SentencePage) -> Path:
    return Path(str(page.driver.execute_script("return decodeURIComponent(location.pathname)")))


def test_methods_models_and_aligners_stand_side_by_side(page: SentencePage) -> None:
    page.choose("a", who="transformer", method="lrp")
    page.choose("b", who="fast_align, offline", links="union")
    assert page.options("a", "method") == ["attention", "grad_input", "lrp"]
    assert page.options("b", "links") == ["xa-xb", "xb-xa", "union"]
    assert not page.scores("b")[0][0]
    page.choose_all(sort="number")
    page.leave_fields()
    page.press("j", "j", "j", "j")
    assert page.chosen_sentence() == 5
    linked = page.driver.find_elements(By.CSS_SELECTOR, "#panel-b td.right, #panel-b td.wrong")
    assert {(cell.get_attribute("data-i"), cell.get_attribute("data-j")) for cell in linked} == {
        ("0", "0"), ("1", "1"), ("1", "3"),
    }  # fmt: skip
    page.choose("a", decoding="own translation")
    assert "d e f" in page.text("#panel-a")
    assert "d ef g" in page.text("#panel-b")
    assert "apart –" in page.text("#list li[aria-selected=true]")


def test_sentences_are_sorted_and_found(page: SentencePage) -> None:
    page.choose_all(sort="length, short first")
    lengths = [len(line) for line in SOURCE]
    assert lengths[page.sentences()[0] - 1] == min(lengths)
    page.choose_all(sort="number")
    assert page.sentences() == [1, 2, 3, 4, 5]
    page.leave_fields()
    page.press("/")
    page.press("KATZE")
    page.wait(lambda _: page.sentences() == [3], "the search finds something else")
    page.wait(lambda _: page.chosen_sentence() == 3, "the sentence is not shown")
    assert "find=KATZE" in page.driver.execute_script("return location.hash")


def test_keys_move_through_sentences_views_and_methods(page: SentencePage) -> None:
    page.choose_all(sort="number")
    page.leave_fields()
    assert page.chosen_sentence() == 1
    page.press("j", "j", "k")
    assert page.chosen_sentence() == 2
    page.press("w")
    assert page.text("#view option:checked") == "words"
    before = page.fields("a")
    page.press("m")
    page.wait(lambda _: page.fields("a") != before, "no other method")
    page.press("M")
    page.wait(lambda _: page.fields("a") == before, "not the method before")
    page.press("?")
    assert page.driver.find_element(By.ID, "help").is_displayed()


def test_an_address_brings_everything_back(page: SentencePage, written: Path) -> None:
    page.choose_all(direction="xb → xa", sort="AER, worst first", view="words")
    page.choose("a", who="transformer", method="attention", layer="1", links="sums over words (Kobayashi)")
    page.choose("b", who="fast_align, offline", links="xb-xa")
    page.leave_fields()
    page.press("j")
    address = str(page.driver.execute_script("return location.hash"))
    seen = page.fields("a"), page.fields("b"), page.chosen_sentence(), page.scores("a"), page.sentences()
    page.open(written)
    assert page.fields("b") != seen[1]
    page.open(written, address)
    assert (page.fields("a"), page.fields("b"), page.chosen_sentence(), page.scores("a"), page.sentences()) == seen
    assert page.driver.execute_script("return location.hash") == address
    page.open(written, "#data=none&direction=x&sentence=99&a=nobody|x|y|z&sort=x")
    assert page.fields("a")["who"] == "transformer"


def test_words_run_nothing_and_nothing_is_wrong(page: SentencePage) -> None:
    page.choose_all(sort="number")
    assert EVIL in page.text("#panel-a .sentence")
    troubles = [entry["message"] for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert (troubles, page.text("#trouble")) == ([], "")


def test_a_missing_file_is_told(driver: SentencePage, written: Path) -> None:
    if not (written.parent / "data").is_dir():
        pytest.skip("this page has its scores in itself")
    aside = written.parent / "aside"
    (written.parent / "data").rename(aside)
    try:
        driver.driver.get("about:blank")
        driver.driver.get(written.absolute().as_uri())
        driver.wait(lambda _: "is missing" in driver.text("#trouble"), "the page does not say what is missing")
    finally:
        aside.rename(written.parent / "data")
