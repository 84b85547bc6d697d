"""What all charts share: colours and markers, a sheet to draw on, and how it is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from alignlens.display.heatmap import Drawing, figure_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = 9.0  # points of ordinary text
QUIET = "#5b6570"
# Okabe and Ito's colours; markers and dashes tell the lines apart in grey.
STYLES: tuple[tuple[str, str, Any], ...] = (
    ("#0072B2", "o", "solid"),
    ("#D55E00", "s", (0, (5, 1.5))),
    ("#009E73", "^", (0, (2, 1))),
    ("#CC79A7", "D", (0, (5, 1, 1, 1))),
    ("#E69F00", "v", "solid"),
    ("#56B4E9", "P", (0, (5, 1.5))),
    ("#1a1a1a", "X", (0, (2, 1))),
)


def chart_settings() -> dict[Any, Any]:
    """Returns the settings under which a chart is drawn and rendered."""
    return figure_settings(["DejaVu Sans"], SIZE, outlines=True)


def sheet(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches whose panels make room for their labels."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, wspace=0.04, hspace=0.05)
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def line_of(place: int, label: str = "") -> Line2D:
    """Returns a line without points in the style of that place."""
    colour, marker, dashes = STYLES[place % len(STYLES)]
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=dashes, markersize=4.5, linewidth=1.6, label=label or "_"
    )


def tidy(axes: Any) -> None:
    """Gives a panel a quiet grid and no box."""
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def finished(
    figure: Figure, caption: str, settings: dict[Any, Any], handles: Sequence[Line2D] = (), note: str = ""
) -> Drawing:
    """Returns the figure with caption, legend and a note below, its layout fixed."""
    figure.suptitle(caption, fontsize=SIZE + 2, fontweight="bold", x=0.01, ha="left")
    if handles:
        figure.legend(handles=handles, loc="outside lower left", ncols=6, frameon=False, handlelength=3.2)
    if note:
        figure.supxlabel(note, fontsize=SIZE - 1, color=QUIET, x=0.01, ha="left")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return Drawing(figure, settings)
