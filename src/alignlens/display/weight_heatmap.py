"""Weights of one sentence in pieces, some matrices side by side, each with a scale of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from alignlens.display.heatmap import Drawing, _fonts_for, _quiet_about_glyphs, _width, figure_settings
from alignlens.display.matrix_heatmap import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.display.sentences import Side

_CELL_INCHES = 0.2
_SIZE = 7.2


def draw_weights(
    source: Side, target: Side, matrices: Mapping[str, NDArray[np.floating[Any]]], caption: str
) -> Drawing:
    """Returns the figure: source pieces are rows, target pieces columns, both with END; titles are the keys."""
    rows, columns = labels(source), labels(target)
    for title, matrix in matrices.items():
        if matrix.shape != (len(columns), len(rows)):
            raise ValueError(
                f"{title}: a matrix of {matrix.shape} for {len(columns)} target and {len(rows)} source pieces"
            )
    fonts, missing = _fonts_for("".join([*rows, *columns, *matrices, caption]))
    settings = figure_settings(fonts, _SIZE, outlines=not missing)
    with mpl.rc_context(settings):
        panel = max(len(columns) * _CELL_INCHES, _width(list(matrices), 1.1 * _SIZE)) + 0.5
        wide = max(_width(rows, _SIZE) + 0.3 + len(matrices) * panel, _width([caption], _SIZE + 3))
        high = len(rows) * _CELL_INCHES + _width(columns, _SIZE) + 0.9
        layout = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.06, wspace=0.01)
        figure = Figure(figsize=(wide, high), layout=layout)
        FigureCanvasAgg(figure)
        grid = figure.subplots(1, len(matrices), squeeze=False)[0]
        for place, (axes, (title, matrix)) in enumerate(zip(grid, matrices.items(), strict=True)):
            shown = axes.imshow(matrix.T, cmap="Greys", vmin=0.0, vmax=float(matrix.max()) or 1.0, aspect="equal")
            axes.set_xticks(range(len(columns)), columns, rotation=90)
            axes.set_yticks(range(len(rows)) if place == 0 else [], rows if place == 0 else None)
            axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, pad=2)
            axes.set_title(title, loc="left", fontweight="bold")
            bar = figure.colorbar(shown, ax=axes, shrink=0.7, aspect=18, pad=0.02)
            bar.outline.set_linewidth(0.6)
        figure.suptitle(caption, fontsize=_SIZE + 2, fontweight="bold", x=0.01, ha="left")
        with _quiet_about_glyphs():
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Drawing(figure, settings)
