"""Where the evidence for a keyword sits along training (Figure 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from alignlens.display.charts import chart_settings, finished, line_of, sheet, tidy
from alignlens.studies.snell2021.toys import EVIDENCE

if TYPE_CHECKING:
    from alignlens.display.heatmap import Drawing
    from alignlens.studies.snell2021.toys import Keyword

_TITLES = {"one_direction": "one direction", "two_directions": "two directions"}
_LABELS = {
    "keyword": "γ at the keyword l*", "next": "γ at l* + 1", "mean": "γ, mean over positions", "last": "γ at the end L",
}  # fmt: skip


def draw_keyword(toy: Keyword, caption: str) -> Drawing:
    """Returns evidence above and accuracy below, a column per variant; lines are means over seeds, bands ranges."""
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(max(4.2 * len(toy.variants), 6.4), 5.0)
        grid = figure.subplots(
            2, len(toy.variants), squeeze=False, sharex="col", gridspec_kw={"height_ratios": [2.2, 1]}
        )
        for column, (variant, numbers) in enumerate(toy.variants.items()):
            above, below = grid[:, column]
            for place, name in enumerate(EVIDENCE):
                _draw(above, toy.steps, numbers[name], place)
            above.axhline(0, color="#8c8c8c", linewidth=0.8)
            above.set_title(_TITLES[variant], loc="left", fontweight="bold")
            _draw(below, toy.steps, numbers["accuracy"], 6)
            below.set_ylim(0.4, 1.03)
            below.set_xlabel("step")
            if not column:
                above.set_ylabel("evidence γ")
                below.set_ylabel("accuracy")
            for axes in (above, below):
                tidy(axes)
        handles = [line_of(place, _LABELS[name]) for place, name in enumerate(EVIDENCE)]
        for handle in handles:
            handle.set_marker("")
        return finished(figure, caption, settings, handles)


def keyword_note(toy: Keyword) -> str:
    """Returns what lines and bands are."""
    seeds = len(next(iter(toy.variants.values()))["accuracy"])
    return f"Lines: mean over positive texts and {seeds} seed{'s' if seeds > 1 else ''}; shaded: range over seeds."


def _draw(axes: Any, steps: tuple[int, ...], numbers: Any, place: int) -> None:
    line = line_of(place)
    line.set_marker("")
    line.set_data(steps, numbers.mean(axis=0))
    axes.add_line(line)
    axes.fill_between(steps, numbers.min(axis=0), numbers.max(axis=0), color=line.get_color(), alpha=0.14, linewidth=0)
    axes.autoscale_view()
