"""Alignment heatmaps: one sentence pair, gold as frames, the links of several systems side by side."""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from alignlens.errors import AlignlensWarning
from alignlens.io.atomic import atomic_path
from alignlens.metrics.aer import scores_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

Link = tuple[int, int]

# Blue and vermilion of Okabe and Ito: apart for colour-blind eyes; shape tells them apart in grey.
RIGHT, WRONG, INK = "#0072B2", "#D55E00", "#1a1a1a"
_GRID, _SURE_FILL = "#d9d9d9", "#e9e9e9"
_FONT = "DejaVu Sans"
_SUFFIXES = (".svg", ".png")
_WIDEST_INCHES = 13.0
_warned: set[str] = set()


@dataclass(frozen=True)
class System:
    """One panel: its links (source, target), and optionally scores, target words x source words.

    The last line of its title gets the AER of the sentence added.
    """

    title: str
    links: Collection[Link]
    scores: NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True)
class Drawing:
    """A figure, and the settings it must be saved with to look as drawn."""

    figure: Figure
    settings: dict[Any, Any]


def draw(
    source: Sequence[str],
    target: Sequence[str],
    sure: Collection[Link],
    possible: Collection[Link],
    systems: Sequence[System],
    caption: str = "",
) -> Drawing:
    """Returns the figure of one sentence pair: source words are rows, target words columns, a panel per system.

    Scores shade the cells on one scale for all panels.
    """
    cell = 0.27 if max(len(source), len(target)) <= 24 else 0.21
    size = cell * 33
    fonts, missing = _fonts_for("".join([*source, *target, caption, *(system.title for system in systems)]))
    settings = figure_settings(fonts, size, outlines=not missing)
    with mpl.rc_context(settings):
        titles = [f"{line} · AER 00.0" for system in systems for line in system.title.split("\n")]
        panel = max(len(target) * cell, _width(titles, 1.08 * size)) + 0.25
        columns = _panels_per_row(len(systems), panel, _width(source, size))
        rows = math.ceil(len(systems) / columns)
        figure = Figure(
            figsize=(
                _width(source, size) + columns * panel,
                rows * (len(source) * cell + _width(target, size) + 0.6) + 0.9,
            ),
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.02, hspace=0.04),
        )
        FigureCanvasAgg(figure)
        top = max((float(s.scores.max()) for s in systems if s.scores is not None and s.scores.size), default=1.0)
        grid = figure.subplots(rows, columns, squeeze=False)
        for k, axes in enumerate(grid.flat):
            if k >= len(systems):
                axes.set_visible(False)
                continue
            _draw_panel(axes, source, target, sure, possible, systems[k], top or 1.0, labels=k % columns == 0)
        if caption:
            figure.suptitle(caption, fontsize=size + 2, fontweight="bold", x=0.01, ha="left")
        legend = figure.legend(
            handles=_legend(systems), loc="outside lower left", ncols=5, frameon=False, fontsize=size
        )
        # Laid out once and for all: every later save would move things by a hair. Titles know only the second time how
        # high the labels below them are.
        with _quiet_about_glyphs():
            figure.draw_without_rendering()
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
        # Cells are square, so panels may be lower than their places: the legend follows them, and the rest is cut off.
        lowest = min(axes.get_tightbbox().y0 for axes in grid.flat if axes.get_visible()) / figure.bbox.height
        legend.set_loc("upper left")
        legend.set_bbox_to_anchor((0, lowest), figure.transFigure)
    return Drawing(figure, settings)


def save(drawing: Drawing, *paths: Path) -> None:
    """Writes the figure as SVG and PNG, by suffix; equal figures are equal bytes."""
    for path in paths:
        content = render(drawing, path.suffix)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)


def render(drawing: Drawing, suffix: str) -> bytes:
    """Returns the bytes of the figure as ``.svg`` or ``.png``."""
    if suffix not in _SUFFIXES:
        raise ValueError(f"a figure is saved as one of {', '.join(_SUFFIXES)}, not {suffix!r}")
    out = io.BytesIO()
    # What changes from run to run (dates, random ids, versions) stays out of the file.
    metadata = {"Date": None, "Creator": None} if suffix == ".svg" else {"Software": None}
    with mpl.rc_context(drawing.settings), _quiet_about_glyphs():
        drawing.figure.savefig(
            out, format=suffix[1:], dpi=160, metadata=metadata, facecolor="white", bbox_inches="tight", pad_inches=0.1
        )
    return out.getvalue()


@contextmanager
def _quiet_about_glyphs() -> Iterator[None]:
    """Silences matplotlib's warning per glyph: ours has been given, once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Glyph .* missing from", category=UserWarning)
        yield


def sentence_aer(links: Collection[Link], sure: Collection[Link], possible: Collection[Link]) -> float:
    """Returns the AER of one sentence in percent; nan where there is nothing to count."""
    link_set, sure_set = set(links), set(sure)
    return scores_of(
        len(link_set & sure_set), len(link_set & (set(possible) | sure_set)), len(link_set), len(sure_set)
    ).aer


def _draw_panel(
    axes: Any,
    source: Sequence[str],
    target: Sequence[str],
    sure: Collection[Link],
    possible: Collection[Link],
    system: System,
    top: float,
    labels: bool,
) -> None:
    sure_set, gold = set(sure), set(possible) | set(sure)
    if system.scores is not None:
        if system.scores.shape != (len(target), len(source)):
            raise ValueError(f"scores of {system.scores.shape} for {len(target)} target and {len(source)} source words")
        axes.imshow(system.scores.T, cmap="Greys", vmin=0, vmax=1.4 * top, aspect="equal", zorder=0)
    for k in range(len(target) + 1):
        axes.axvline(k - 0.5, color=_GRID, linewidth=0.6, zorder=1)
    for k in range(len(source) + 1):
        axes.axhline(k - 0.5, color=_GRID, linewidth=0.6, zorder=1)
    for i, j in sorted(gold):
        certain = (i, j) in sure_set
        axes.add_patch(
            Rectangle(
                (j - 0.42, i - 0.42),
                0.84,
                0.84,
                facecolor=_SURE_FILL if certain and system.scores is None else "none",
                edgecolor=INK,
                linewidth=1.3 if certain else 1.0,
                linestyle="solid" if certain else (0, (2.2, 1.6)),
                zorder=2,
            )
        )
    right = [(i, j) for i, j in sorted(system.links) if (i, j) in gold]
    wrong = [(i, j) for i, j in sorted(system.links) if (i, j) not in gold]
    area = 56 if max(len(source), len(target)) <= 24 else 32
    axes.scatter([j for _, j in right], [i for i, _ in right], s=area, color=RIGHT, marker="o", linewidths=0, zorder=3)
    axes.scatter([j for _, j in wrong], [i for i, _ in wrong], s=area, color=WRONG, marker="x", linewidths=2, zorder=3)
    axes.set(xlim=(-0.5, len(target) - 0.5), ylim=(len(source) - 0.5, -0.5), aspect="equal")
    axes.set_xticks(range(len(target)), [_shown(word) for word in target], rotation=90)
    axes.set_yticks(range(len(source)), [_shown(word) for word in source] if labels else [""] * len(source))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, pad=3)
    for spine in axes.spines.values():
        spine.set_color("#8c8c8c")
    aer = sentence_aer(system.links, sure, possible)
    shown = "AER undefined" if math.isnan(aer) else f"AER {aer:.1f}"
    axes.set_title(f"{system.title} · {shown}", loc="left", fontweight="bold")


def _legend(systems: Sequence[System]) -> list[Any]:
    scored = any(system.scores is not None for system in systems)
    fill = "none" if scored else _SURE_FILL
    entries: list[Any] = [
        Rectangle((0, 0), 1, 1, facecolor=fill, edgecolor=INK, linewidth=1.3, label="gold, sure"),
        Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=INK, linestyle=(0, (2.2, 1.6)), label="gold, possible"),
        Line2D([], [], color=RIGHT, marker="o", linestyle="", markersize=6, label="link in gold"),
        Line2D([], [], color=WRONG, marker="x", linestyle="", markeredgewidth=2, label="link not in gold"),
    ]
    if scored:
        entries.append(Rectangle((0, 0), 1, 1, facecolor="#8c8c8c", edgecolor="none", label="score (darker is higher)"))
    return entries


def _panels_per_row(count: int, panel: float, labels: float) -> int:
    """Returns how many panels stand side by side: as many as a page holds, in rows of equal length."""
    fitting = max(1, min(count, int((_WIDEST_INCHES - labels) / panel)))
    return math.ceil(count / math.ceil(count / fitting)) if count else 1


def _width(texts: Sequence[str], size: float) -> float:
    """Returns a guess at the widest word in inches; wide characters count twice."""
    longest = max((sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in word) for word in texts), default=1)
    return longest * size * 0.6 / 72 + 0.15


def _shown(text: str) -> str:
    """Returns a word with something to see for what is invisible."""
    visible = "".join(" " if c == "\u00a0" else "\ufffd" if unicodedata.category(c) == "Cc" else c for c in text)
    if visible and unicodedata.combining(visible[0]):
        visible = "\u25cc" + visible
    return visible


def figure_settings(fonts: list[str], size: float, outlines: bool) -> dict[Any, Any]:
    """Returns matplotlib's settings for figures that are equal bytes on every machine."""
    return {
        "font.family": fonts,
        "font.size": size,
        "axes.titlesize": size,
        "axes.titlepad": 6,
        "axes.linewidth": 0.8,
        "svg.fonttype": "path" if outlines else "none",
        "svg.hashsalt": "alignlens",
        "text.usetex": False,
        "text.parse_math": False,
    }


def _fonts_for(text: str) -> tuple[list[str], set[str]]:
    """Returns fonts that together draw a text, and the characters that none of this machine's fonts has."""
    missing = {c for c in text if not c.isspace() and unicodedata.category(c)[0] != "C"}
    missing -= _covered(font_manager.findfont(_FONT), missing)
    fonts = [_FONT]
    if missing:
        # "Last Resort" has a box with a code for every character: that is what a missing glyph looks like.
        installed = {
            entry.name: entry.fname
            for entry in font_manager.fontManager.ttflist
            if entry.weight == 400 and not entry.name.startswith("Last Resort")
        }
        for name, path in sorted(installed.items()):
            if covered := _covered(path, missing):
                fonts.append(name)
                missing -= covered
            if not missing:
                break
    if new := missing - _warned:
        _warned.update(new)
        some = " ".join(f"{c} (U+{ord(c):04X})" for c in sorted(new)[:5])
        warnings.warn(
            f"no installed font has {len(new)} characters of a figure, e.g. {some}; PNG files show boxes, SVG files "
            "leave them to the viewer. Install a font for this script, e.g. Noto Sans CJK.",
            AlignlensWarning,
            stacklevel=2,
        )
    return fonts, missing


def _covered(path: str, characters: set[str]) -> set[str]:
    has = font_manager.get_font(path).get_charmap()
    return {character for character in characters if ord(character) in has}
