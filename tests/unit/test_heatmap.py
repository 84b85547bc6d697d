"""Heatmaps: equal figures are equal bytes, and no script or length breaks them."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from alignlens.display import heatmap
from alignlens.display.heatmap import System, draw, render, save, sentence_aer
from alignlens.errors import AlignlensWarning

SOURCE, TARGET = ["das", "Haus", "ist", "klein"], ["the", "house", "is", "small"]
SURE, POSSIBLE = [(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 1), (2, 2), (3, 3)]


def figure(**changes: object) -> heatmap.Drawing:
    systems = [System("fast_align\ngrow-diag", [(0, 0), (1, 1), (3, 0)]), System("none", [])]
    return draw(SOURCE, TARGET, SURE, POSSIBLE, systems, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_bytes_repeat_and_hold_no_date(suffix: str) -> None:
    first = render(figure(caption="demo, sentence 1"), suffix)
    assert first == render(figure(caption="demo, sentence 1"), suffix)
    assert first == render(figure(caption="demo, sentence 1"), suffix)
    assert first != render(figure(caption="demo, sentence 2"), suffix)
    assert b"dc:date" not in first
    assert b"matplotlib" not in first.lower() or suffix == ".svg"


def test_saving_twice_the_same_drawing_gives_the_same_file(tmp_path: Path) -> None:
    drawing = figure()
    save(drawing, tmp_path / "a.svg", tmp_path / "b.svg", tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(tmp_path / "a.svg")
    with pytest.raises(ValueError, match=r"\.pdf"):
        save(drawing, tmp_path / "a.pdf")


def test_a_panel_shows_gold_links_and_the_error_rate_of_the_sentence() -> None:
    axes = figure().figure.axes
    assert [panel.get_title(loc="left") for panel in axes] == ["fast_align\ngrow-diag · AER 33.3", "none · AER 100.0"]
    styles = [patch.get_linestyle() for patch in axes[0].patches]
    assert [style in ("-", "solid") for style in styles] == [True, True, True, False]
    right, wrong = axes[0].collections
    assert sorted(map(tuple, right.get_offsets().tolist())) == [(0.0, 0.0), (1.0, 1.0)]
    assert wrong.get_offsets().tolist() == [[0.0, 3.0]]  # x is the target word, y the source word
    assert [label.get_text() for label in axes[0].get_yticklabels()] == SOURCE
    assert [label.get_text() for label in axes[0].get_xticklabels()] == TARGET


def test_sentence_error_rate_in_closed_form() -> None:
    assert sentence_aer([(0, 0)], [(0, 0)], [(0, 0)]) == 0.0
    assert sentence_aer([(0, 1)], [(0, 0)], []) == 100.0
    assert sentence_aer([(0, 0), (1, 1)], [(0, 0)], [(1, 1)]) == 0.0
    assert sentence_aer([(0, 0), (1, 0)], [(0, 0)], []) == pytest.approx(100 - 100 * 2 / 3)
    assert math.isnan(sentence_aer([], [], [(0, 0)]))


def test_scores_shade_cells_by_target_and_source() -> None:
    scores = np.zeros((2, 3))
    scores[1, 2] = 0.9
    drawing = draw(["a", "b", "c"], ["x", "y"], [], [], [System("s", [], scores)])
    image = drawing.figure.axes[0].images[0].get_array()
    assert image is not None
    assert image.shape == (3, 2)
    assert image[2, 1] == 0.9
    with pytest.raises(ValueError, match="scores of"):
        draw(["a"], ["x", "y"], [], [], [System("s", [], scores)])


def test_long_sentences_get_larger_figures() -> None:
    def size(words: int) -> tuple[float, float]:
        text = [f"w{k}" for k in range(words)]
        width, height = draw(text, text, [], [], [System("s", [])]).figure.get_size_inches()
        return float(width), float(height)

    assert size(60)[0] > 60 * 0.2
    assert size(60)[1] > 60 * 0.2
    assert size(8) < size(20) < size(60)


@pytest.mark.parametrize(
    "word", ["$x$", "a_b^c", "<|&>", "e\u0301", "\u0301", "a\u00a0b", "\u3000", "\x07", "שלום", "▁", "\\frac", "☃"]
)
def test_no_word_breaks_a_figure(word: str) -> None:
    systems = [System(f"s {word}", [(0, 0)])]
    for suffix in (".svg", ".png"):
        assert render(draw([word, "b"], ["c", word], [(0, 0)], [], systems, word), suffix)


def test_missing_glyphs_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    covered = heatmap._covered
    monkeypatch.setattr(heatmap, "_warned", set())
    monkeypatch.setattr(heatmap, "_covered", lambda path, characters: covered(path, characters) - {"日"})
    with pytest.warns(AlignlensWarning, match=r"no installed font has 1 characters .* 日 \(U\+65E5\)"):
        drawing = draw(["日"], ["a"], [], [], [System("s", [])])
    assert "日".encode() in render(drawing, ".svg")  # as text, for the viewer's own fonts
    assert render(drawing, ".png")
    draw(["日"], ["a"], [], [], [System("s", [])])  # a second warning would be an error here
