"""Learning curves: what every validation of a training measured, a row of panels per direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from alignlens.report.heatmap import Drawing, figure_settings
from alignlens.report.models import MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.report.models import Curve

# Okabe and Ito's colours; markers and dashes tell the lines apart in grey.
_STYLES: tuple[tuple[str, str, Any], ...] = (
    ("#0072B2", "o", "solid"),
    ("#D55E00", "s", (0, (5, 1.5))),
    ("#009E73", "^", (0, (2, 1))),
    ("#CC79A7", "D", (0, (5, 1, 1, 1))),
    ("#E69F00", "v", "solid"),
    ("#56B4E9", "P", (0, (5, 1.5))),
    ("#1a1a1a", "X", (0, (2, 1))),
)
_NAMES = {"dev_loss": "dev loss (nats per piece)", "dev_accuracy": "dev accuracy (%)", "dev_bleu": "dev BLEU"}
_SCALES = {"dev_accuracy": 100.0}
_SIZE = 9.0
_PANEL_INCHES = (3.5, 2.35)
_MOST_MARKERS = 12


def draw_curves(curves: Sequence[Curve], caption: str) -> Drawing:
    """Returns the figure of the models of a dataset; a model has one colour, its seeds a line each."""
    settings = figure_settings(["DejaVu Sans"], _SIZE, outlines=True)
    directions = list(dict.fromkeys(curve.id.direction for curve in curves))
    models = list(dict.fromkeys(curve.id.model for curve in curves))
    measures = [measure for measure in MEASURES if any(curve.points[measure] for curve in curves)] or ["dev_loss"]
    with mpl.rc_context(settings):
        figure = Figure(
            figsize=(_PANEL_INCHES[0] * len(measures), _PANEL_INCHES[1] * len(directions) + 0.8),
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.04),
        )
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(directions), len(measures), squeeze=False, sharex=True, sharey="col")
        for row, direction in enumerate(directions):
            mine = [curve for curve in curves if curve.id.direction == direction]
            for column, measure in enumerate(measures):
                axes = grid[row][column]
                _draw_panel(axes, mine, measure, models)
                axes.set_title(f"{direction}: {_NAMES[measure]}", loc="left", fontweight="bold")
                if row == len(directions) - 1:
                    axes.set_xlabel("updates")
        figure.suptitle(caption, fontsize=_SIZE + 2, fontweight="bold", x=0.01, ha="left")
        handles = [_line(place, label=model) for place, model in enumerate(models)]
        figure.legend(handles=handles, loc="outside lower left", ncols=6, frameon=False, handlelength=3.2)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Drawing(figure, settings)


def _draw_panel(axes: Any, curves: Sequence[Curve], measure: str, models: Sequence[str]) -> None:
    scale = _SCALES.get(measure, 1.0)
    for curve in curves:
        points = curve.points[measure]
        line = _line(models.index(curve.id.model))
        line.set_data([update for update, _ in points], [scale * value for _, value in points])
        line.set_markevery(max(1, len(points) // _MOST_MARKERS))
        axes.add_line(line)
    axes.autoscale_view()
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _line(place: int, label: str = "") -> Line2D:
    colour, marker, dashes = _STYLES[place % len(_STYLES)]
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=dashes, markersize=4.5, linewidth=1.6, label=label or "_"
    )
