"""Shares of the source in many translations: along the sentence, and sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from alignlens.display.charts import QUIET, STYLES, chart_settings, finished, sheet, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing

_PARTS = 20  # of a sentence
_BARS = 30


def draw_shares(
    by_step: Sequence[NDArray[np.float64]], by_sentence: Sequence[float], bound: float, caption: str
) -> Drawing:
    """Returns a figure of the source's share by relative position, and of its mean in every sentence."""
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(8.6, 3.4)
        along, spread = figure.subplots(1, 2, width_ratios=(3, 2))
        places, quartiles = _quartiles(by_step)
        colour = STYLES[0][0]
        along.fill_between(places, quartiles[0], quartiles[2], color=colour, alpha=0.2, linewidth=0)
        along.plot(places, quartiles[1], color=colour, linewidth=1.6)
        along.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="place in the translation", ylabel="share of the source")
        along.set_title("Step by step: median and quartiles", loc="left", fontsize="medium")
        known = [share for share in by_sentence if not np.isnan(share)]
        spread.hist(known, bins=_BARS, color=colour)
        if np.isfinite(bound):
            spread.axvline(bound, color=STYLES[1][0], linestyle=STYLES[1][2], linewidth=1.4)
        spread.set(xlabel="mean share of the source", ylabel="sentences")
        below = sum(share < bound for share in known)
        spread.set_title(f"Sentence by sentence: {below} below the line", loc="left", fontsize="medium")
        for axes in (along, spread):
            tidy(axes)
            axes.tick_params(colors=QUIET, labelcolor="black")
        return finished(figure, caption, settings)


def _quartiles(by_step: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the middles of parts of a sentence, and the quartiles of all shares there, (quartile, part).

    The first step is left out: there the source has everything.
    """
    places = np.concatenate([np.arange(1, len(shares)) / max(1, len(shares) - 1) for shares in by_step])
    shares = np.concatenate([shares[1:] for shares in by_step])
    part = np.minimum((places * _PARTS).astype(int), _PARTS - 1)
    known = ~np.isnan(shares)
    filled = [number for number in range(_PARTS) if np.any(known & (part == number))]
    quartiles = [np.quantile(shares[known & (part == number)], (0.25, 0.5, 0.75)) for number in filled]
    return (np.array(filled) + 0.5) / _PARTS, np.array(quartiles).reshape(-1, 3).T
