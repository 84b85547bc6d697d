"""Figures 4 and 6 of Kobayashi et al. 2020 for one encoder: where weights and norms lie, as densities of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, MaxNLocator

from alignlens.display.charts import STYLES, chart_settings, finished, sheet, tidy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.kobayashi2020.encoder_tables import Statistics

_PANEL_INCHES = (3.6, 2.4)
_CELLS = 38
# A kind of token looks the same in the figures of all encoders.
_ORDER = ("[CLS]", "[SEP]", "punctuation", "other", "END", "BEGIN")
_DARKER = "a darker cell holds more points of a sample"
# Below it a few heads go on for tens of powers, and everything else would be a line.
_SMALLEST_WEIGHT = 1e-7


def style_of(category: str) -> tuple[str, str, Any]:
    """Returns colour, marker and dashes of a kind of token."""
    return STYLES[_ORDER.index(category)]


def draw_weight_and_norm(statistics: Statistics, points: Mapping[str, NDArray[Any]], caption: str) -> Drawing:
    """Returns Figure 4: weight, on a scale of powers, against norm, a panel for every category that occurs."""
    positive = points["weight"] > 0
    kinds = [kind for kind in range(len(statistics["categories"])) if (positive & (points["category"] == kind)).any()]
    rows = (len(kinds) + 1) // 2
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(2 * _PANEL_INCHES[0], rows * _PANEL_INCHES[1] + 0.7)
        grid = figure.subplots(rows, 2, squeeze=False, sharex=True, sharey=True)
        powers = np.log10(np.maximum(points["weight"], _SMALLEST_WEIGHT))
        limits = _limits(points["norm"][positive]), _limits(powers[positive])
        for axes, kind in zip(grid.flat, kinds, strict=False):
            of_kind = positive & (points["category"] == kind)
            name = statistics["categories"][kind]
            _draw_cells(axes, points["norm"][of_kind], powers[of_kind], style_of(name)[0], limits)
            axes.set_title(f"{name}: {_rho(statistics['correlations'][name]['rho'])}", loc="left", fontweight="bold")
            axes.tick_params(labelbottom=True, labelleft=True)
            axes.set_xlabel("‖f(x)‖")
            axes.set_ylabel("log₁₀ α")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in list(grid.flat)[len(kinds) :]:
            axes.set_visible(False)
        return finished(figure, caption, settings, note=f"{_DARKER}; weights below 10⁻⁷ are drawn at it")


def draw_frequency(statistics: Statistics, points: Mapping[str, NDArray[Any]], caption: str) -> Drawing:
    """Returns Figure 6: mean weight and mean norm of token occurrences against the rank of their type."""
    ranks = np.log10(points["frequency_rank"])
    settings = chart_settings()
    panels = (
        ("log₁₀ of mean α", np.log10(points["frequency_weight"]), "rho_weights"),
        ("mean ‖f(x)‖", points["frequency_norm"], "rho_norms"),
    )
    with mpl.rc_context(settings):
        figure = sheet(2 * _PANEL_INCHES[0], _PANEL_INCHES[1] + 0.7)
        for place, (axes, (label, values, rho)) in enumerate(zip(figure.subplots(1, 2), panels, strict=True)):
            _draw_cells(axes, ranks, values, STYLES[place][0], (_limits(ranks), _limits(values)))
            axes.set_title(_rho(statistics["frequency"][rho]), loc="left", fontweight="bold")
            axes.set_xlabel("frequency rank (1 is the most frequent)")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda power, _: f"{10**power:,.0f}"))
            axes.set_ylabel(label)
        return finished(figure, caption, settings, note=_DARKER)


def _draw_cells(
    axes: Any, x: NDArray[Any], y: NDArray[Any], colour: str, limits: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    """Draws how many points lie in cells; shades are logarithms of counts, as few cells hold most points."""
    shades = LinearSegmentedColormap.from_list("shades", ["#e4e7ea", colour])
    extent = (*limits[0], *limits[1])
    axes.hexbin(x, y, gridsize=(_CELLS, _CELLS // 2), extent=extent, bins="log", mincnt=1, cmap=shades, linewidths=0.1)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])
    tidy(axes)


def _limits(values: NDArray[Any]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def _rho(value: float | None) -> str:
    return "no rank correlation" if value is None else f"ρ = {value:.2f}".replace("-", "−")
