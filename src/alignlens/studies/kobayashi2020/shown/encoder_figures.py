"""Figures 3, 5 and 9 of Kobayashi et al. 2020 for one encoder: shares, means and singular values by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from alignlens.display.charts import QUIET, STYLES, chart_settings, finished, sheet, tidy
from alignlens.studies.kobayashi2020.shown.encoder_densities import draw_frequency, draw_weight_and_norm, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.kobayashi2020.encoder_tables import Statistics

_PANEL_INCHES = (3.6, 2.6)
_MANY_TIMES = 10


def encoder_figures(statistics: Statistics, points: Mapping[str, NDArray[Any]]) -> dict[str, tuple[Drawing, str]]:
    """Returns the figures of an encoder with their captions; ``points`` are those of ``points.npz``."""
    name = statistics["facts"]["encoder"]
    captions = {
        "figure3": f"Figure 3, {name}: share of attention by kind of token",
        "figure4": f"Figure 4, {name}: weight against norm by kind of token",
        "figure5": f"Figure 5, {name}: mean weight and norm by kind of token",
        "figure9": f"Figure 9, {name}: singular values of the heads",
    }
    drawings = {
        "figure3": draw_shares(statistics, captions["figure3"]),
        "figure4": draw_weight_and_norm(statistics, points, captions["figure4"]),
        "figure5": draw_means(statistics, captions["figure5"]),
        "figure9": draw_singular_values(statistics, captions["figure9"]),
    }
    if statistics["frequency"]["rho_norms"] is not None:
        captions["figure6"] = f"Figure 6, {name}: frequency against mean weight and norm"
        drawings["figure6"] = draw_frequency(statistics, points, captions["figure6"])
    return {figure: (drawings[figure], captions[figure]) for figure in sorted(drawings)}


def draw_shares(statistics: Statistics, caption: str) -> Drawing:
    """Returns Figure 3: the share of every category by layer, by weights and by norms; dots are shares of tokens."""
    shares = statistics["shares"]

    def draw(axes: Any, kind: str) -> None:
        _draw_lines(axes, shares["by_layer"][kind], statistics["categories"])
        for category in statistics["categories"]:
            axes.axhline(shares["tokens"][category], color=style_of(category)[0], linestyle=(0, (1, 2)), linewidth=1.1)
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))

    panels = {"share of weights α": "weights", "share of norms ‖αf(x)‖": "norms"}
    tokens = Line2D([], [], color=QUIET, linestyle=(0, (1, 2)), linewidth=1.1, label="share of tokens")
    return _two_panels(statistics, caption, panels, draw, [tokens], shared=True)


def draw_means(statistics: Statistics, caption: str) -> Drawing:
    """Returns Figure 5: mean weight, on a scale of powers where it takes one, and mean norm of a token by layer."""
    weights = [value for row in statistics["means"]["weights"].values() for value in row if value is not None]
    by_powers = max(weights) > _MANY_TIMES * min(weights) > 0

    def draw(axes: Any, kind: str) -> None:
        _draw_lines(axes, statistics["means"][kind], statistics["categories"])
        if kind == "weights" and by_powers:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(bottom=0)

    panels = {"mean α (log scale)" if by_powers else "mean α": "weights", "mean ‖f(x)‖": "norms"}
    return _two_panels(statistics, caption, panels, draw, [])


def draw_singular_values(statistics: Statistics, caption: str) -> Drawing:
    """Returns Figure 9: the largest and the smallest non-zero singular value of every head, heads side by side."""
    singular = statistics["singular_values"]
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(2 * _PANEL_INCHES[0], _PANEL_INCHES[1] + 1.0)
        axes = figure.subplots()
        for layer, (largest, smallest) in enumerate(
            zip(singular["largest"], singular["smallest"], strict=True), start=1
        ):
            places = [layer + 0.7 * ((head + 0.5) / len(largest) - 0.5) for head in range(len(largest))]
            axes.vlines(places, smallest, largest, color="#bcbcbc", linewidth=0.8, zorder=1)
            for values, style in ((largest, STYLES[0]), (smallest, STYLES[1])):
                axes.plot(places, values, linestyle="none", color=style[0], marker=style[1], markersize=3.6)
        axes.set_ylim(bottom=0)
        _finish(axes, len(singular["largest"]))
        axes.set_ylabel("singular value")
        handles = [
            Line2D([], [], linestyle="none", color=style[0], marker=style[1], markersize=4.5, label=label)
            for style, label in ((STYLES[0], "largest"), (STYLES[1], "smallest non-zero"))
        ]
        return finished(figure, caption, settings, handles)


def _two_panels(
    statistics: Statistics,
    caption: str,
    panels: Mapping[str, str],
    draw: Callable[[Any, str], None],
    more_handles: Sequence[Line2D],
    shared: bool = False,
) -> Drawing:
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(2 * _PANEL_INCHES[0], _PANEL_INCHES[1] + 1.0)
        for axes, (title, kind) in zip(figure.subplots(1, 2, sharey=shared), panels.items(), strict=True):
            draw(axes, kind)
            _finish(axes, statistics["facts"]["layers"])
            axes.set_title(title, loc="left", fontweight="bold")
        handles = [_line(category) for category in statistics["categories"]]
        return finished(figure, caption, settings, [*handles, *more_handles])


def _draw_lines(axes: Any, values: Mapping[str, Sequence[float | None]], categories: Sequence[str]) -> None:
    """Draws one line per category over layers; a category that does not occur has none."""
    for category in categories:
        known = [(layer, value) for layer, value in enumerate(values[category], start=1) if value is not None]
        line = _line(category)
        line.set_data([layer for layer, _ in known], [value for _, value in known])
        axes.add_line(line)
    axes.autoscale_view()


def _finish(axes: Any, layers: int) -> None:
    axes.set_xticks(range(1, layers + 1))
    axes.set_xlim(0.5, layers + 0.5)
    axes.set_xlabel("layer")
    tidy(axes)


def _line(category: str) -> Line2D:
    colour, marker, dashes = style_of(category)
    return Line2D([], [], color=colour, marker=marker, linestyle=dashes, markersize=4.5, linewidth=1.6, label=category)
