"""Accuracy along training of generated tasks: copying (Figure 3) and eight heads (Figure 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D

from alignlens.display.charts import QUIET, SIZE, STYLES, chart_settings, finished, sheet, tidy
from alignlens.studies.snell2021.network_claim_tests import SCENARIO_NAMES, single_success, success
from alignlens.studies.snell2021.toys import LEARNED, SCENARIOS, TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing
    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.snell2021.evidence import Evidence
    from alignlens.studies.snell2021.toys import Copy, Heads

_MOST_LINES = 60
_HELD, _FAILED = STYLES[0][0], STYLES[1][0]
_NOTE = f"Blue, whole: ends above {LEARNED}. Red, broken: does not."


def draw_copying(toys: Sequence[Copy], caption: str) -> Drawing:
    """Returns a panel per task, a line per seed, and how many seeds learn it."""
    settings = chart_settings()
    with mpl.rc_context(settings):
        figure = sheet(max(3.3 * len(toys), 6.4), 3.4)
        for axes, toy in zip(figure.subplots(1, len(toys), squeeze=False, sharey=True)[0], toys, strict=True):
            draw_runs(axes, toy.steps, toy.accuracy)
            title = f"{TITLES[toy.task]}\n{toy.converged()} of {toy.seeds} seeds converge"
            axes.set_title(title, loc="left", fontweight="bold", linespacing=1.3)
        return finished(figure, caption, settings, note=f"Each line is a seed. {_NOTE}")


def draw_runs(axes: Any, steps: Sequence[int], accuracy: NDArray[np.float64]) -> None:
    """Draws accuracy against steps, a line per run; those that learn and those that do not look different."""
    for row in accuracy:
        held = row[-1] > LEARNED
        axes.plot(
            steps, row, color=_HELD if held else _FAILED, linestyle="solid" if held else (0, (4, 1.5)), linewidth=1.1,
            alpha=0.75,
        )  # fmt: skip
    axes.axhline(LEARNED, color=QUIET, linestyle=(0, (1, 1.5)), linewidth=1.0)
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel("step")
    axes.set_ylabel("accuracy")
    axes.label_outer()
    tidy(axes)


def draw_heads(toy: Heads, evidence: Evidence, caption: str) -> Drawing:
    """Returns curves of single heads and of the three ways to begin with eight, and how often each succeeds."""
    settings = chart_settings()
    panels = {"single heads": toy.single, **{_named(toy, name): toy.scenarios[name] for name in SCENARIOS}}
    with mpl.rc_context(settings):
        figure = sheet(11.0, 6.0)
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.1, 1])[:, 0]
        grid = above.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, accuracy) in zip(grid, panels.items(), strict=True):
            draw_runs(axes, toy.steps, accuracy[:_MOST_LINES])
            drawn = f", {_MOST_LINES} drawn" if len(accuracy) > _MOST_LINES else ""
            axes.set_title(f"{title}\n{len(accuracy)} runs{drawn}", loc="left", fontweight="bold", linespacing=1.3)
        _draw_success(below.subplots(), toy, evidence)
        note = f"{_NOTE} Good heads: {toy.kinds['good']}, bad: {toy.kinds['bad']}, neither: {toy.kinds['rejected']}."
        return finished(figure, caption, settings, note=note)


def independent(toy: Heads) -> float:
    """Returns how often several heads would succeed if each did by itself and one were enough."""
    return float(1 - (1 - toy.successes / toy.trials) ** toy.heads)


def _draw_success(axes: Any, toy: Heads, evidence: Evidence) -> None:
    shares: dict[str, Sampled | None] = {"single head": single_success(evidence, toy)}
    shares |= {_named(toy, name): success(evidence, toy, name) for name in SCENARIOS}
    for place, share in enumerate(shares.values()):
        if share is None:
            axes.text(0.02, place, "too few such heads were found", va="center", fontsize=SIZE, color=QUIET)
            continue
        low, high = share.interval(evidence.draws.level) or (share.value, share.value)
        axes.barh(place, share.value, color="#bcd7e8", edgecolor=_HELD, linewidth=1.0, height=0.62)
        axes.plot([low, high], [place, place], color="#1a1a1a", linewidth=1.4)
        axes.text(1.02, place, f"{share.value:.2f}", va="center", fontsize=SIZE)
    estimate = independent(toy)
    axes.plot(estimate, len(shares) - 1, "D", color=_FAILED, markersize=7, zorder=4)
    axes.set_yticks(range(len(shares)), list(shares))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("share of runs that succeed")
    axes.set_title("success", loc="left", fontweight="bold")
    label = f"1 − (1 − p)^{toy.heads} = {estimate:.2f}, if heads succeeded independently"
    handle = Line2D([], [], color=_FAILED, marker="D", linestyle="", markersize=7, label=label)
    axes.legend(handles=[handle], loc="upper center", bbox_to_anchor=(0.5, -0.27), frameon=False)
    tidy(axes)
    axes.grid(axis="y", visible=False)


def _named(toy: Heads, scenario: str) -> str:
    return f"{toy.heads} heads, {SCENARIO_NAMES[scenario]}"
