"""Tables of counts as heat maps: which words occur together, and what they translate to (Figures 1, 4, 5 and 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from alignlens.display.charts import SIZE, chart_settings, finished, sheet
from alignlens.display.heatmap import _fonts_for, _shown, figure_settings
from alignlens.studies.snell2021.toys import TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.snell2021.counts import Counts
    from alignlens.studies.snell2021.toys import Copy

_COLOURS = "Blues"
_CELL_INCHES = 0.27


def draw_text_counts(counts: Counts, caption: str) -> Drawing:
    """Returns the counts of the most frequent words of a text and their translation table, side by side."""
    fonts, missing = _fonts_for("".join([*counts.source, *counts.target, caption]))
    settings = figure_settings(fonts, SIZE, outlines=not missing)
    panels = {
        "how often they occur together, C": counts.table,
        "translation table, C over the sum of its row": counts.translation,
    }
    with mpl.rc_context(settings):
        wide, high = len(counts.target) * _CELL_INCHES + 1.9, len(counts.source) * _CELL_INCHES + 1.6
        figure = sheet(max(2 * wide, 7.0), high + 0.6)
        for axes, (title, table) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            _draw(figure, axes, table, title)
            axes.set_xticks(range(len(counts.target)), list(map(_shown, counts.target)), rotation=90)
            axes.set_yticks(range(len(counts.source)), list(map(_shown, counts.source)))
        note = f"Rows: source words, columns: target words, by frequency; {counts.pairs:,} pairs."
        return finished(figure, caption, settings, note=note)


def draw_task_counts(toys: Sequence[Copy], caption: str) -> Drawing:
    """Returns the counts of generated tasks: a task whose table is flat gives attention nothing to begin with."""
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(max(3.7 * len(toys), 6.4), 3.9)
        for axes, toy in zip(figure.subplots(1, len(toys), squeeze=False)[0], toys, strict=True):
            if toy.counts is not None:
                _draw(figure, axes, toy.counts, TITLES[toy.task])
                axes.set_xlabel("target word")
                axes.set_ylabel("source word")
        note = "Scales differ and begin at 0: a flat table has one colour."
        return finished(figure, caption, settings, note=note)


def _draw(figure: Any, axes: Any, table: NDArray[np.float64], title: str) -> None:
    top = float(table.max()) or 1.0
    image = axes.imshow(table, cmap=_COLOURS, vmin=0, vmax=top, aspect="equal", interpolation="nearest")
    axes.set_title(title, loc="left", fontweight="bold")
    axes.tick_params(length=0, labelsize=SIZE - 1)
    for spine in axes.spines.values():
        spine.set_color("#8c8c8c")
    bar = figure.colorbar(image, ax=axes, shrink=0.75, aspect=18, pad=0.02)
    bar.outline.set_linewidth(0.6)
    bar.ax.tick_params(labelsize=SIZE - 1)
