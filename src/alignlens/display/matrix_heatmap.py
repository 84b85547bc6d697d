"""Score matrices of one sentence in pieces: a row of panels per model, gold links of words as frames."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from alignlens.alignment.extraction import extract
from alignlens.display.heatmap import (
    INK,
    RIGHT,
    WRONG,
    Drawing,
    _fonts_for,
    _quiet_about_glyphs,
    _shown,
    _width,
    figure_settings,
    sentence_aer,
)
from alignlens.subwords.spans import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.display.sentences import Example, Side

END = "END"
_PIECE_GRID, _WORD_GRID = "#e4e4e4", "#b4b4b4"
# Ends in a mid grey, so that frames and marks stay visible on the darkest cell.
_GREYS = LinearSegmentedColormap.from_list("alignlens-greys", ["#ffffff", "#5a5a5a"])
_DASHES = (0, (2.2, 1.6))
_CELL_INCHES = 0.2
_SIZE = 7.2


@dataclass(frozen=True)
class Panel:
    """A matrix under its title; None where it was not run."""

    title: str
    matrix: NDArray[np.floating[Any]] | None


def draw_matrices(example: Example, rows: Sequence[tuple[str, Sequence[Panel]]], caption: str) -> Drawing:
    """Returns the figure: source pieces are rows, target pieces columns, one shading scale for all panels."""
    source, target = labels(example.source), labels(example.target)
    titles = [panel.title for _, panels in rows for panel in panels]
    fonts, missing = _fonts_for("".join([*source, *target, *titles, caption, *(name for name, _ in rows)]))
    settings = figure_settings(fonts, _SIZE, outlines=not missing)
    columns = max(len(panels) for _, panels in rows)
    with mpl.rc_context(settings):
        panel = max(len(target) * _CELL_INCHES, _width(titles, 1.1 * _SIZE)) + 0.2
        high = len(source) * _CELL_INCHES + 0.8 * _width(target, _SIZE) + 0.48
        figure = Figure(
            figsize=(_width(source, _SIZE) + 0.35 + columns * panel + 0.6, len(rows) * high + 0.5),
            layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.09, wspace=0.01, hspace=0.03),
        )
        FigureCanvasAgg(figure)
        maxima = [float(panel.matrix.max()) for _, panels in rows for panel in panels if panel.matrix is not None]
        norm = PowerNorm(0.75, vmin=0.0, vmax=max(maxima, default=1.0) or 1.0)
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for axes_row, (name, panels) in zip(grid, rows, strict=True):
            for k, axes in enumerate(axes_row):
                if k >= len(panels):
                    axes.set_visible(False)
                    continue
                _draw_panel(axes, example, panels[k], norm, source if k == 0 else None, target)
            axes_row[0].set_ylabel(name, fontweight="bold", fontsize=_SIZE + 2, labelpad=6)
        figure.suptitle(caption, fontsize=_SIZE + 2, fontweight="bold", x=0.01, ha="left")
        figure.legend(handles=_legend(), loc="outside lower left", ncols=4, frameon=False, fontsize=_SIZE + 0.5)
        bar = figure.colorbar(ScalarMappable(norm, _GREYS), ax=grid, shrink=0.55, aspect=24, pad=0.015)
        bar.set_label("score (a target piece's scores sum to 1)", fontsize=_SIZE)
        bar.outline.set_linewidth(0.6)
        with _quiet_about_glyphs():
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Drawing(figure, settings)


def labels(side: Side) -> list[str]:
    """Returns what stands beside the pieces: a middle dot before a piece that goes on with a word, END at last."""
    shown = []
    for k, piece in enumerate(side.pieces):
        text = join([piece])
        goes_on = k > 0 and side.word_of_piece[k] == side.word_of_piece[k - 1]
        text = piece if not text or "\ufffd" in text else text
        shown.append(f"·{text}" if goes_on else _shown(text))
    return [*shown, END]


def _draw_panel(
    axes: Any, example: Example, panel: Panel, norm: PowerNorm, source: Sequence[str] | None, target: Sequence[str]
) -> None:
    height, width = len(example.source.pieces) + 1, len(target)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal")
    axes.set_xticks(range(width), target, rotation=90)
    axes.set_yticks(range(height) if source else [], source)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, pad=2)
    for spine in axes.spines.values():
        spine.set_color("#8c8c8c")
    if panel.matrix is None:
        axes.set_title(panel.title, loc="left", fontweight="bold")
        axes.text(
            width / 2 - 0.5, height / 2 - 0.5, "not run", ha="center", va="center", color="#6a6a6a", style="italic"
        )
        return
    if panel.matrix.shape != (width, height):
        raise ValueError(
            f"{panel.title}: a matrix of {panel.matrix.shape} for {width} target and {height} source pieces"
        )
    axes.imshow(panel.matrix.T, cmap=_GREYS, norm=norm, aspect="equal", zorder=0)
    _draw_grid(axes.vlines, example.target, height)
    _draw_grid(axes.hlines, example.source, width)
    sure, gold = set(example.sure), {*example.sure, *example.possible}
    for i, j in sorted(gold):
        _draw_frame(axes, _span(example.source, i), _span(example.target, j), (i, j) in sure)
    _draw_best(axes, example, panel.matrix, gold)
    words = example.source.word_of_piece, example.target.word_of_piece
    links = [(i, j) for i, j, _ in extract(panel.matrix, *words, "ding")]
    aer = sentence_aer(links, example.sure, example.possible)
    subtitle = "AER undefined" if math.isnan(aer) else f"AER {aer:.0f}"
    axes.set_title(f"{panel.title}\n{subtitle}", loc="left", fontweight="bold", linespacing=1.25)


def _draw_grid(lines: Any, side: Side, length: int) -> None:
    """Draws lines between pieces, stronger ones between words and before END."""
    words = [*side.word_of_piece, -1]
    inside = [words[k] == words[k - 1] for k in range(1, len(words))]
    places = [k + 0.5 for k in range(len(inside))]
    colours = [_PIECE_GRID if within else _WORD_GRID for within in inside]
    widths = [0.5 if within else 0.7 for within in inside]
    lines(places, -0.5, length - 0.5, colors=colours, linewidths=widths, zorder=1)


def _span(side: Side, word: int) -> tuple[int, int]:
    """Returns the first and the last piece of a word."""
    places = [k for k, owner in enumerate(side.word_of_piece) if owner == word]
    return places[0], places[-1]


def _draw_frame(axes: Any, rows: tuple[int, int], columns: tuple[int, int], sure: bool) -> None:
    axes.add_patch(
        Rectangle(
            (columns[0] - 0.43, rows[0] - 0.43),
            columns[1] - columns[0] + 0.86,
            rows[1] - rows[0] + 0.86,
            facecolor="none",
            edgecolor=INK,
            linewidth=1.2 if sure else 0.9,
            linestyle="solid" if sure else _DASHES,
            zorder=2,
        )
    )


def _draw_best(axes: Any, example: Example, matrix: NDArray[np.floating[Any]], gold: set[tuple[int, int]]) -> None:
    """Marks the best source piece of every target piece, END set aside."""
    if not example.source.pieces:
        return
    best = np.argmax(matrix[:-1, :-1], axis=1).tolist()
    words = [(example.source.word_of_piece[i], example.target.word_of_piece[j]) for j, i in enumerate(best)]
    for inside, colour, marker in ((True, RIGHT, "o"), (False, WRONG, "X")):
        places = [(j, i) for j, i in enumerate(best) if (words[j] in gold) == inside]
        axes.scatter(
            [j for j, _ in places],
            [i for _, i in places],
            s=26 if marker == "o" else 34,
            color=colour,
            marker=marker,
            linewidths=0.6,
            edgecolors="white",
            zorder=3,
        )


def _legend() -> list[Any]:
    return [
        Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=INK, linewidth=1.2, label="gold link of words, sure"),
        Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=INK, linestyle=_DASHES, label="possible"),
        Line2D([], [], color=RIGHT, marker="o", linestyle="", markersize=5, label="best source piece, in gold"),
        Line2D([], [], color=WRONG, marker="X", linestyle="", markersize=6, label="not in gold"),
    ]
