"""Error rate of signed saliency against the number of noisy copies and the noise level, with the cost above."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from alignlens.report.curves import _STYLES
from alignlens.report.heatmap import Drawing, figure_settings
from alignlens.studies.ding2019.curves import SAMPLES, SIGMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.ding2019.curves import Point

_SIZE = 9.0
_PANEL_INCHES = (3.6, 2.5)
_NAMES = {SAMPLES: "noisy copies n", SIGMA: "noise level σ"}


def draw_noise_curves(points: Sequence[Point], caption: str) -> Drawing:
    """Returns the figure: a row of panels per dataset, directions side by side, for copies and for noise."""
    settings = figure_settings(["DejaVu Sans"], _SIZE, outlines=True)
    rows = list(dict.fromkeys((point.dataset, point.direction) for point in points))
    models = list(dict.fromkeys(point.model for point in points))
    with mpl.rc_context(settings):
        figure = Figure(
            figsize=(2 * _PANEL_INCHES[0], _PANEL_INCHES[1] * len(rows) + 1.0),
            layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, wspace=0.04, hspace=0.05),
        )
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(rows), 2, squeeze=False, sharey="row")
        for axes_row, (dataset, direction) in zip(grid, rows, strict=True):
            for axes, curve in zip(axes_row, (SAMPLES, SIGMA), strict=True):
                mine = [
                    point
                    for point in points
                    if (point.dataset, point.direction, point.curve) == (dataset, direction, curve)
                ]
                _draw_panel(axes, mine, models, curve)
            axes_row[0].set_ylabel(f"{dataset} {direction}\nAER (%)")
        figure.suptitle(caption, fontsize=_SIZE + 2, fontweight="bold", x=0.01, ha="left")
        handles = [_line(place, model) for place, model in enumerate(models)]
        handles.append(Line2D([], [], color="#5b6570", linestyle=(0, (1, 1.5)), linewidth=1.2, label="attention"))
        figure.legend(handles=handles, loc="outside lower left", ncols=6, frameon=False, handlelength=3.2)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Drawing(figure, settings)


def _draw_panel(axes: Any, points: Sequence[Point], models: Sequence[str], curve: str) -> None:
    for place, model in enumerate(models):
        mine = sorted((point for point in points if point.model == model), key=lambda point: point.x)
        if not mine:
            continue
        line = _line(place)
        line.set_data([point.x for point in mine], [point.aer for point in mine])
        axes.add_line(line)
        known = [point for point in mine if not (math.isnan(point.low) or math.isnan(point.high))]
        axes.fill_between(
            [point.x for point in known],
            [point.low for point in known],
            [point.high for point in known],
            color=line.get_color(),
            alpha=0.12,
            linewidth=0,
        )
        if not math.isnan(mine[0].attention):
            axes.axhline(mine[0].attention, color=line.get_color(), linestyle=(0, (1, 1.5)), linewidth=1.2)
    axes.autoscale_view()
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(_NAMES[curve])
    passes = dict(sorted({point.x: point.passes for point in points}.items()))
    axes.set_xticks(list(passes), [f"{x:g}" for x in passes])
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(passes), [str(count) for count in passes.values()])
    above.set_xlabel("passes per sentence", fontsize=_SIZE - 1, color="#5b6570")
    above.tick_params(labelsize=_SIZE - 1, labelcolor="#5b6570", color="#8c8c8c")
    axes.spines["right"].set_visible(False)


def _line(place: int, label: str = "") -> Line2D:
    colour, marker, dashes = _STYLES[place % len(_STYLES)]
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=dashes, markersize=4.5, linewidth=1.6, label=label or "_"
    )
