"""Learning curves: what every validation of a training measured, a row of panels per direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, MaxNLocator

from alignlens.display.charts import chart_settings, finished, line_of, sheet, tidy
from alignlens.report.models import MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.report.models import Curve

_NAMES = {"dev_loss": "dev loss (nats per piece)", "dev_accuracy": "dev accuracy (%)", "dev_bleu": "dev BLEU"}
_SCALES = {"dev_accuracy": 100.0}
_PANEL_INCHES = (3.5, 2.35)
_MOST_MARKERS = 12


def draw_curves(curves: Sequence[Curve], caption: str) -> Drawing:
    """Returns the figure of the models of a dataset; a model has one colour, its seeds a line each."""
    settings = chart_settings()
    directions = list(dict.fromkeys(curve.id.direction for curve in curves))
    models = list(dict.fromkeys(curve.id.model for curve in curves))
    measures = [measure for measure in MEASURES if any(curve.points[measure] for curve in curves)] or ["dev_loss"]
    with mpl.rc_context(settings):
        figure = sheet(_PANEL_INCHES[0] * len(measures), _PANEL_INCHES[1] * len(directions) + 0.8)
        grid = figure.subplots(len(directions), len(measures), squeeze=False, sharex=True, sharey="col")
        for row, direction in enumerate(directions):
            of_direction = [curve for curve in curves if curve.id.direction == direction]
            for column, measure in enumerate(measures):
                axes = grid[row][column]
                _draw_panel(axes, of_direction, measure, models)
                axes.set_title(f"{direction}: {_NAMES[measure]}", loc="left", fontweight="bold")
                if row == len(directions) - 1:
                    axes.set_xlabel("updates")
        handles = [line_of(place, model) for place, model in enumerate(models)]
        return finished(figure, caption, settings, handles)


def _draw_panel(axes: Any, curves: Sequence[Curve], measure: str, models: Sequence[str]) -> None:
    scale = _SCALES.get(measure, 1.0)
    for curve in curves:
        points = curve.points[measure]
        line = line_of(models.index(curve.id.model))
        line.set_data([update for update, _ in points], [scale * value for _, value in points])
        line.set_markevery(max(1, len(points) // _MOST_MARKERS))
        axes.add_line(line)
    axes.autoscale_view()
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    tidy(axes)
