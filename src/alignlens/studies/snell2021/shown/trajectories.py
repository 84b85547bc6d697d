"""Agreement along training: Figure 2, and how the probes come closer to attention and drift away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, NullLocator

from alignlens.display.charts import QUIET, SIZE, chart_settings, finished, line_of, sheet, tidy
from alignlens.studies.snell2021.layout import (
    ACCURACY,
    AGREEMENT,
    ATTENTION_PROBE,
    ATTENTION_UNIFORM,
    BLEU,
    RANDOM,
    SALIENCY_UNIFORM,
    Column,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.snell2021.agreements import Agreement, Curve, Row

SECOND_RUN_NOTE = "Crosses: ξ, the first checkpoint at which the second run agrees more than the level of that colour."
PROBES_NOTE = "Rings: the greatest agreement, which the tables have."
_AGAIN = "again"
_PANEL_INCHES = (3.9, 2.7)
_TITLES = {ACCURACY: "accuracy of the second run (%)", BLEU: "BLEU of the second run"}
_LEVELS = {ATTENTION_UNIFORM: 1, ATTENTION_PROBE: 2, SALIENCY_UNIFORM: 3, RANDOM: 6}
_ALONG = {ATTENTION_UNIFORM: 1, ATTENTION_PROBE: 2, SALIENCY_UNIFORM: 3}


def draw_second_run(agreement: Agreement, caption: str) -> Drawing | None:
    """Returns Figure 2 of a task: agreement of a second run with run A, its performance, and where it passes levels."""
    curve = agreement.curves.get(_AGAIN)
    if curve is None or len(curve.steps()) < 2:
        return None
    performances = [name for name in _TITLES if name in curve.numbers]
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet((1 + len(performances)) * _PANEL_INCHES[0], _PANEL_INCHES[1] + 0.9)
        panels = figure.subplots(1, 1 + len(performances), squeeze=False)[0]
        _draw_line(panels[0], curve, AGREEMENT, 0)
        handles = [line_of(0, "second run")]
        for quantity, place in _LEVELS.items():
            row = agreement.row(quantity)
            if row is not None:
                colour = line_of(place).get_color()
                dashes = line_of(place).get_linestyle()
                panels[0].axhline(row.value, color=colour, linestyle=dashes, linewidth=1.3)
                label = f"{Column('A', quantity).heading()} {row.value:.1f}"
                handles.append(_level(place, label))
        panels[0].set_title("agreement with run A (%)", loc="left", fontweight="bold")
        panels[0].set_ylim(0, None)
        for axes, name in zip(panels[1:], performances, strict=True):
            _draw_line(axes, curve, name, 0)
            _mark(axes, agreement, curve, name)
            axes.set_title(_TITLES[name], loc="left", fontweight="bold")
        for axes in panels:
            _by_update(axes, [step for _, step in curve.steps()])
        return finished(figure, caption, settings, handles)


def _level(place: int, label: str) -> Any:
    handle = line_of(place, label)
    handle.set_marker("x" if place != _LEVELS[RANDOM] else "")
    return handle


def _draw_line(axes: Any, curve: Curve, name: str, place: int) -> None:
    line = line_of(place)
    steps = curve.steps()
    line.set_data([step for _, step in steps], [curve.numbers[name][at] for at, _ in steps])
    axes.add_line(line)
    axes.autoscale_view()


def _mark(axes: Any, agreement: Agreement, curve: Curve, name: str) -> None:
    """Marks the performance at which the second run passes each level, and the best of run A."""
    along, passed = curve.numbers[AGREEMENT], {}
    for quantity, place in _LEVELS.items():
        row = agreement.row(quantity)
        if row is not None and quantity != RANDOM:
            passed[place] = _first(curve, along, row)
    sizes = {place: 9.5 - 1.5 * rank for rank, place in enumerate(passed)}  # crosses at one point stay visible
    for place, at in passed.items():
        if at is not None:
            colour = line_of(place).get_color()
            axes.plot(
                at[1], curve.numbers[name][at[0]], "x", color=colour, markersize=sizes[place], markeredgewidth=2.2
            )
    measure = agreement.measures.get(name)
    if measure is not None:
        axes.axhline(measure.star, color=QUIET, linestyle=(0, (1, 1.5)), linewidth=1.2)
        place = axes.get_yaxis_transform()
        axes.text(
            0.02, measure.star, f"ξ* {measure.star:.1f}", transform=place, va="bottom", fontsize=SIZE - 1, color=QUIET
        )
        axes.margins(y=0.12)
        axes.autoscale_view()


def _first(curve: Curve, along: Sequence[float], row: Row) -> tuple[int, int] | None:
    return next(((at, step) for at, step in curve.steps() if along[at] > row.value), None)


def draw_probes(agreements: Sequence[Agreement], caption: str) -> Drawing | None:
    """Returns how far probes agree with attention and saliency along their training, a panel per task."""
    shown = [each for each in agreements if ATTENTION_UNIFORM in each.curves]
    shown = [each for each in shown if len(each.curves[ATTENTION_UNIFORM].steps()) > 1]
    if not shown:
        return None
    settings, columns = chart_settings(), min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    with mpl.rc_context(settings):
        figure = sheet(max(columns * 3.6, 6.4), rows * 2.6 + 0.9)
        grid = figure.subplots(rows, columns, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number >= len(shown):
                axes.set_visible(False)
                continue
            _draw_task(axes, shown[number])
        handles = [line_of(place, Column("A", quantity).heading()) for quantity, place in _ALONG.items()]
        return finished(figure, caption, settings, handles)


def _draw_task(axes: Any, agreement: Agreement) -> None:
    for quantity, place in _ALONG.items():
        curve = agreement.curves.get(quantity)
        if curve is None:
            continue
        _draw_line(axes, curve, AGREEMENT, place)
        at, step = max(curve.steps(), key=lambda entry: (curve.numbers[AGREEMENT][entry[0]], -entry[0]))
        colour = line_of(place).get_color()
        axes.plot(step, curve.numbers[AGREEMENT][at], "o", markersize=9, markerfacecolor="none", color=colour)
    row = agreement.row(RANDOM)
    if row is not None:
        axes.axhline(row.value, color=QUIET, linestyle=(0, (1, 1.5)), linewidth=1.2)
        axes.text(
            0.98, row.value, "chance", transform=axes.get_yaxis_transform(), ha="right", va="bottom",
            fontsize=SIZE - 1, color=QUIET,
        )  # fmt: skip
    axes.set_title(agreement.task, loc="left", fontweight="bold")
    axes.set_ylabel("agreement (%)")
    axes.set_ylim(0, None)
    _by_update(axes, [step for _, step in agreement.curves[ATTENTION_UNIFORM].steps()])


def _by_update(axes: Any, steps: Sequence[int]) -> None:
    """Draws updates on a scale of powers that begins at 0: checkpoints are dense where training is young."""
    positive = [step for step in steps if step]
    least = min(positive, default=1)
    axes.set_xscale("symlog", linthresh=least, linscale=0.5)
    axes.set_xlim(-0.3 * least, 1.35 * max(positive, default=1))
    powers = [10**power for power in range(int(math.log10(max(positive, default=1))) + 1) if 10**power >= least]
    ticks = [0, *powers] if len(powers) > 1 else sorted({0, least, max(positive, default=1)})
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("update")
    tidy(axes)
