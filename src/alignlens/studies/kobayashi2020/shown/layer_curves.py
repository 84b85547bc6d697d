"""Error rate by decoder layer (Figure 7 of Kobayashi et al. 2020), and by head."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from alignlens.display.charts import SIZE, chart_settings, finished, line_of, sheet, tidy
from alignlens.studies.kobayashi2020.runs import KINDS, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.kobayashi2020.layers import Curve, Head

_PANEL_INCHES = (3.3, 2.5)


def draw_layers(curves: Sequence[Curve], caption: str) -> Drawing:
    """Returns the figure: a row of panels per direction, a column per step, weights and norms in each.

    The band is the range over seeds; of one seed, the interval over sentences.
    """
    settings = chart_settings()
    rows = list(dict.fromkeys((curve.setting.model, curve.setting.direction) for curve in curves))
    with mpl.rc_context(settings):
        figure = sheet(len(STEPS) * _PANEL_INCHES[0], _PANEL_INCHES[1] * len(rows) + 0.9)
        grid = figure.subplots(len(rows), len(STEPS), squeeze=False, sharey="row")
        for axes_row, (model, direction) in zip(grid, rows, strict=True):
            for axes, (step, name) in zip(axes_row, STEPS.items(), strict=True):
                for curve in curves:
                    setting = curve.setting
                    if (setting.model, setting.direction, setting.step) == (model, direction, step):
                        _draw_curve(axes, curve)
                axes.set_title(f"{direction}, {name}", loc="left", fontweight="bold")
                _finish(axes)
            axes_row[0].set_ylabel(f"{model}\nAER (%)")
        handles = [line_of(place, label) for place, label in enumerate(KINDS.values())]
        return finished(figure, caption, settings, handles)


def _draw_curve(axes: Any, curve: Curve) -> None:
    numbers = range(1, curve.depth + 1)
    line = line_of(list(KINDS).index(curve.setting.kind))
    line.set_data(list(numbers), curve.means())
    axes.add_line(line)
    by_layer = list(zip(*curve.seeds.values(), strict=True))
    if len(curve.seeds) > 1:
        bounds = [(min(x.test.aer for x in layer), max(x.test.aer for x in layer)) for layer in by_layer]
    else:
        bounds = [(layer[0].test.low, layer[0].test.high) for layer in by_layer]
    if not any(math.isnan(value) for pair in bounds for value in pair):
        low, high = zip(*bounds, strict=True)
        axes.fill_between(numbers, low, high, color=line.get_color(), alpha=0.14, linewidth=0)


def _finish(axes: Any) -> None:
    axes.autoscale_view()
    axes.margins(x=0.08)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("decoder layer")
    tidy(axes)


def draw_heads(heads: Sequence[Head], caption: str) -> Drawing:
    """Returns the map: layers from below, heads from the left, a row of panels per direction, mean over seeds."""
    settings = chart_settings()
    rows = list(dict.fromkeys((head.setting.model, head.setting.direction) for head in heads))
    columns = [(step, kind) for step in STEPS for kind in KINDS]
    layers, across = 1 + max(head.layer for head in heads), 1 + max(head.head for head in heads)
    cell = 0.44
    with mpl.rc_context(settings):
        size = len(columns) * (across * cell + 0.6) + 1.0, len(rows) * (layers * cell + 0.95) + 0.5
        figure = sheet(max(size[0], 7.2), size[1])
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        rates = [head.aer for head in heads if not math.isnan(head.aer)]
        limits = min(rates, default=0.0), max(rates, default=100.0)
        for axes_row, (model, direction) in zip(grid, rows, strict=True):
            for axes, (step, kind) in zip(axes_row, columns, strict=True):
                of_panel = [
                    head
                    for head in heads
                    if (head.setting.model, head.setting.direction) == (model, direction)
                    and (head.setting.step, head.setting.kind) == (step, kind)
                ]
                image = _draw_map(axes, of_panel, layers, across, limits)
                axes.set_title(f"{direction}\n{KINDS[kind]}, {STEPS[step]}", loc="left", fontweight="bold")
            axes_row[0].set_ylabel(f"{model}\nlayer")
        figure.colorbar(image, ax=grid, shrink=0.7, aspect=22, pad=0.015).set_label("AER (%)")
        return finished(figure, caption, settings)


def _draw_map(axes: Any, heads: Sequence[Head], layers: int, across: int, limits: tuple[float, float]) -> Any:
    rates = np.full((layers, across), np.nan)
    for layer in range(layers):
        for head in range(across):
            rates_of_head = [each.aer for each in heads if (each.layer, each.head) == (layer, head)]
            rates[layer, head] = fmean(rates_of_head) if rates_of_head else np.nan
    image = axes.imshow(rates, cmap="cividis", vmin=limits[0], vmax=limits[1], origin="lower", aspect="equal")
    middle = sum(limits) / 2
    for (layer, head), rate in np.ndenumerate(rates):
        if not math.isnan(rate):
            colour = "black" if rate > middle else "white"
            axes.text(head, layer, f"{rate:.0f}", ha="center", va="center", fontsize=SIZE - 1.5, color=colour)
    axes.set_xticks(range(across), [str(head + 1) for head in range(across)])
    axes.set_yticks(range(layers), [str(layer + 1) for layer in range(layers)])
    axes.set_xlabel("head")
    axes.tick_params(length=0)
    return image
