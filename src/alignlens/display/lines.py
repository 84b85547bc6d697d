"""Panels of lines with bands or bars."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from alignlens.display.charts import STYLES, chart_settings, finished, line_of, sheet, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing

    Numbers = NDArray[np.float64]

_PANEL_INCHES = (3.7, 2.6)
_MOST_COLUMNS = 3
_NAME_SHARE = 0.14  # of an axis, that the name of an update takes
_LETTER_INCHES = 0.086  # of a caption
#: More lines than styles are an order, such as that of snapshots, and get a scale of colours.
_MOST_STYLES = len(STYLES)
_SCALE = "viridis"
_APART = 0.05


@dataclass(frozen=True, eq=False)
class Line:
    """A line with the limits (2, place) that its numbers lie between, where they are known."""

    label: str
    x: Numbers
    y: Numbers
    band: Numbers | None = None


@dataclass(frozen=True)
class Panel:
    """Some lines under a title."""

    title: str
    across: str
    lines: Sequence[Line]
    logarithmic: bool = False
    level: float | None = field(default=None)
    """A number that is drawn across."""
    places: Sequence[str] = ()
    """What few places, numbered from 1, are called; limits are then bars, since nothing lies between places."""


def draw_panels(panels: Sequence[Panel], caption: str) -> Drawing:
    """Returns the figure; lines of one label have one style in all panels."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    settings, rows = chart_settings(), math.ceil(len(panels) / _MOST_COLUMNS)
    columns = math.ceil(len(panels) / rows)
    with mpl.rc_context(settings):
        width = max(columns * _PANEL_INCHES[0], _LETTER_INCHES * len(caption))
        figure = sheet(width, rows * _PANEL_INCHES[1] + 0.9)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        ordered = len(labels) > _MOST_STYLES
        for axes, panel in zip(grid.flat, panels, strict=False):
            for line in panel.lines:
                _draw(axes, line, labels, ordered, bars=bool(panel.places))
            if panel.level is not None:
                axes.axhline(panel.level, color="#999999", linewidth=0.8)
                axes.autoscale_view()
            if panel.logarithmic:
                _by_update(axes, panel)
            if panel.places:
                axes.set_xticks(range(1, len(panel.places) + 1), panel.places)
                axes.set_xlim(0.6, len(panel.places) + 0.4)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            axes.set_xlabel(panel.across)
            tidy(axes)
        handles = [] if ordered else [line_of(place, label) for place, label in enumerate(labels) if label]
        if ordered:
            scale = ScalarMappable(Normalize(0, len(labels) - 1), _SCALE)
            bar = figure.colorbar(scale, ax=grid.ravel().tolist(), shrink=0.8, pad=0.02)
            shown = sorted({0, len(labels) // 2, len(labels) - 1})
            bar.set_ticks(shown, labels=[labels[place] for place in shown])
        return finished(figure, caption, settings, handles)


def _by_update(axes: Any, panel: Panel) -> None:
    """Gives a panel an axis of updates, closer together the later they are; those are named that have room for it."""
    updates = sorted({float(x) for line in panel.lines for x in line.x})
    first = min((x for x in updates if x > 0), default=1.0)
    if updates[0] > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=first)
    axes.xaxis.set_major_locator(FixedLocator(_with_room(updates, first)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda update, _: f"{update:,.0f}"))


def _with_room(updates: Sequence[float], first: float) -> list[float]:
    """Returns the last update, and those before it whose names do not run into each other on such an axis."""
    places = [math.log10(x / first) if x > 0 else -1.0 for x in updates]
    room = _NAME_SHARE * max(places[-1] - places[0], 1e-9)
    named = [len(updates) - 1]
    for place in range(len(updates) - 2, -1, -1):
        if places[named[-1]] - places[place] >= room:
            named.append(place)
    return [updates[place] for place in reversed(named)]


def _draw(axes: Any, line: Line, labels: Sequence[str], ordered: bool, bars: bool) -> None:
    place = labels.index(line.label)
    styled: Line2D = line_of(place)
    if ordered:
        styled.set_color(mpl.colormaps[_SCALE](place / (len(labels) - 1)))
        styled.set_marker("")
        styled.set_linestyle("solid")
        styled.set_linewidth(1.2)
    # Bars of several lines at one place stand beside each other.
    x = line.x + _APART * (place - (len(labels) - 1) / 2) if bars else line.x
    styled.set_data(x, line.y)
    styled.set_markersize(3.0)
    axes.add_line(styled)
    if line.band is not None and bars:
        axes.vlines(x, *line.band, color=styled.get_color(), linewidth=1.0)
    elif line.band is not None:
        axes.fill_between(line.x, *line.band, color=styled.get_color(), alpha=0.18, linewidth=0)
    axes.autoscale_view()
