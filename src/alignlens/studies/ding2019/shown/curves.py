"""Error rate of signed saliency against the number of noisy copies and the noise level, with the cost above."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D

from alignlens.display.charts import QUIET, SIZE, chart_settings, finished, line_of, sheet
from alignlens.studies.ding2019.curves import SAMPLES, SIGMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.ding2019.curves import Point

_PANEL_INCHES = (3.6, 2.5)
_NAMES = {SAMPLES: "noisy copies n", SIGMA: "noise level σ"}


def draw_noise_curves(points: Sequence[Point], caption: str) -> Drawing:
    """Returns the figure: a row of panels per dataset, directions side by side, for copies and for noise."""
    settings = chart_settings()
    rows = list(dict.fromkeys((point.dataset, point.direction) for point in points))
    models = list(dict.fromkeys(point.model for point in points))
    with mpl.rc_context(settings):
        figure = sheet(2 * _PANEL_INCHES[0], _PANEL_INCHES[1] * len(rows) + 1.0)
        grid = figure.subplots(len(rows), 2, squeeze=False, sharey="row")
        for axes_row, (dataset, direction) in zip(grid, rows, strict=True):
            for axes, curve in zip(axes_row, (SAMPLES, SIGMA), strict=True):
                of_direction = [
                    point
                    for point in points
                    if (point.dataset, point.direction, point.curve) == (dataset, direction, curve)
                ]
                _draw_panel(axes, of_direction, models, curve)
            axes_row[0].set_ylabel(f"{dataset} {direction}\nAER (%)")
        handles = [line_of(place, model) for place, model in enumerate(models)]
        handles.append(Line2D([], [], color=QUIET, linestyle=(0, (1, 1.5)), linewidth=1.2, label="attention"))
        return finished(figure, caption, settings, handles)


def _draw_panel(axes: Any, points: Sequence[Point], models: Sequence[str], curve: str) -> None:
    for place, model in enumerate(models):
        of_model = sorted((point for point in points if point.model == model), key=lambda point: point.x)
        if not of_model:
            continue
        line = line_of(place)
        line.set_data([point.x for point in of_model], [point.aer for point in of_model])
        axes.add_line(line)
        known = [point for point in of_model if not (math.isnan(point.low) or math.isnan(point.high))]
        axes.fill_between(
            [point.x for point in known],
            [point.low for point in known],
            [point.high for point in known],
            color=line.get_color(),
            alpha=0.12,
            linewidth=0,
        )
        if not math.isnan(of_model[0].attention):
            axes.axhline(of_model[0].attention, color=line.get_color(), linestyle=(0, (1, 1.5)), linewidth=1.2)
    axes.autoscale_view()
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(_NAMES[curve])
    passes = dict(sorted({point.x: point.passes for point in points}.items()))
    axes.set_xticks(list(passes), [f"{x:g}" for x in passes])
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(passes), [str(count) for count in passes.values()])
    above.set_xlabel("passes per sentence", fontsize=SIZE - 1, color=QUIET)
    above.tick_params(labelsize=SIZE - 1, labelcolor=QUIET, color="#8c8c8c")
    axes.spines["right"].set_visible(False)
