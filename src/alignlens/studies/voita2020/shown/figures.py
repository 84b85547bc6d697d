"""Figures 1 to 13, and with another share of positive parts 14 to 20."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.display.lines import Line, Panel, draw_panels
from alignlens.studies.voita2020.evidence import (
    GIVEN,
    INFLUENCE,
    OTHERS,
    OWN,
    RAW,
    SOURCE,
    SOURCE_ENTROPY,
    START,
    TARGET_ENTROPY,
    Key,
    limits,
)
from alignlens.studies.voita2020.runs import MINIMUM_RISK, SOURCE_DROPOUT, TARGET_DROPOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.studies.voita2020.evidence import Curves, Evidence, Snapshot

_ALPHA, _OTHER_ALPHA = 1, "Figures 14 to 20"
_SPREAD = (SOURCE_ENTROPY, TARGET_ENTROPY)
_TARGET, _SOURCE, _UPDATES = "target position", "source position", "update"
_PREFIXES = {GIVEN: "reference prefix", OWN: "own prefix", OTHERS: "random prefix"}
_MODELS = {
    "": "plain",
    SOURCE_DROPOUT: "source word dropout",
    TARGET_DROPOUT: "target word dropout",
    MINIMUM_RISK: "minimum risk",
}
_DIVERGENCE = "divergence from the final model (nats)"


@dataclass(frozen=True)
class Figure:
    """A figure: its name in files, what it shows, and its panels."""

    name: str
    label: str
    """Where it stands on the page."""
    caption: str
    panels: Sequence[Panel]

    def draw(self) -> Drawing:
        """Returns the drawing."""
        return draw_panels(self.panels, self.caption)


def figures(evidence: Evidence, dataset: str, alpha: float) -> Iterator[Figure]:
    """Yields the figures of a dataset for which there are numbers."""
    shown = _Shown(evidence, dataset, alpha)
    for name, subject, panels in (
        ("1", "what the source contributes, and which part of it", shown.one_model((SOURCE, INFLUENCE))),
        ("2", "how far contributions are spread", shown.one_model((SOURCE_ENTROPY, TARGET_ENTROPY))),
        ("3", "reference, own and random prefixes", shown.prefixes()),
        ("4", "objectives, with own prefixes", shown.objectives(OWN)),
        ("5", "objectives, with random prefixes", shown.objectives(OTHERS)),
        ("6", "what the source contributes, by amount of training text", shown.amounts((SOURCE,))),
        ("7", "how far contributions are spread, by amount of training text", shown.amounts(_SPREAD)),
        ("9", "along training", shown.timeline()),
        ("10", "position by position along training", shown.snapshots()),
        ("11", "accuracy by position along training", shown.accuracy()),
        ("12", "influence of source positions, by amount of training text", shown.amounts((INFLUENCE,))),
        ("13", "influence of source positions along training", shown.influence()),
        ("shares", "source, start symbol, and both readings of the source's share", shown.parts()),
    ):
        if panels:
            number = "Shares" if name == "shares" else f"Figure {name}"
            # Print repeats the figures with half of either sign as Figures 14 to 20.
            label = number if alpha == _ALPHA else _OTHER_ALPHA
            yield Figure(
                f"figure{name}-{dataset}-alpha{alpha:g}",
                label,
                f"{number}, {dataset}, alpha {alpha:g}: {subject}",
                panels,
            )


class _Shown:
    """Panels of one dataset and share of positive parts; none where numbers are missing."""

    def __init__(self, evidence: Evidence, dataset: str, alpha: float) -> None:
        self._evidence, self._dataset, self._alpha = evidence, dataset, alpha

    def one_model(self, quantities: Sequence[str]) -> list[Panel]:
        base = self._base(GIVEN)
        return [] if base is None else [self._panel(quantity, {"": base}) for quantity in quantities]

    def prefixes(self) -> list[Panel]:
        lines = {label: base for name, label in _PREFIXES.items() if (base := self._base(name)) is not None}
        if len(lines) < 2:
            return []
        return [self._panel(quantity, lines) for quantity in (SOURCE, SOURCE_ENTROPY)]

    def objectives(self, prefix: str) -> list[Panel]:
        lines = {}
        for name, label in _MODELS.items():
            model = name or self._evidence.base.get(self._dataset, "")
            curves = self._evidence.curves.get(Key(self._dataset, model, prefix, self._alpha))
            if curves is not None:
                lines[label] = curves
        if len(lines) < 2:
            return []
        return [self._panel(quantity, lines) for quantity in (SOURCE, SOURCE_ENTROPY)]

    def amounts(self, quantities: Sequence[str]) -> list[Panel]:
        lines = {f"{pairs:,} pairs": curves for pairs, curves in self._amounts().items()}
        return [self._panel(quantity, lines) for quantity in quantities] if len(lines) > 1 else []

    def timeline(self) -> list[Panel]:
        snapshots = self._snapshots()
        if len(snapshots) < 2:
            return []
        updates = np.array([each.update for each in snapshots], np.float64)
        away = np.stack([each.divergence for each in snapshots], axis=1)
        panels = [Panel(_DIVERGENCE, _UPDATES, [self._line("", updates, away)], logarithmic=True)]
        for quantity in (SOURCE, SOURCE_ENTROPY, TARGET_ENTROPY):
            means = np.stack([each.curves.numbers[quantity][:, 1:].mean(axis=1) for each in snapshots], axis=1)
            panels.append(Panel(f"mean {quantity}", _UPDATES, [self._line("", updates, means)], logarithmic=True))
        return panels

    def snapshots(self) -> list[Panel]:
        lines = {f"{each.update:,} updates": each for each in self._snapshots()}
        if len(lines) < 2:
            return []
        return [
            Panel(quantity, _TARGET, [_plain(label, each.curves, quantity) for label, each in lines.items()])
            for quantity in (SOURCE, SOURCE_ENTROPY)
        ]

    def accuracy(self) -> list[Panel]:
        right = [
            Line(f"{each.update:,} updates", _places(each.correct.shape[1]), each.correct.mean(axis=0))
            for each in self._snapshots()
            if each.correct is not None
        ]
        return [Panel("accuracy", _TARGET, right)] if len(right) > 1 else []

    def influence(self) -> list[Panel]:
        snapshots = self._snapshots()
        if len(snapshots) < 2:
            return []
        lines = [_plain(f"{each.update:,} updates", each.curves, INFLUENCE) for each in snapshots]
        return [Panel(INFLUENCE, _SOURCE, lines, level=1.0)]

    def parts(self) -> list[Panel]:
        base = self._base(GIVEN)
        if base is None:
            return []
        lines = [self._of(base, quantity, quantity) for quantity in (SOURCE, RAW, START)]
        return [Panel("shares", _TARGET, lines)]

    def _base(self, prefix: str) -> Curves | None:
        return self._evidence.of_base(self._dataset, prefix, self._alpha)

    def _amounts(self) -> dict[int, Curves]:
        return self._evidence.amounts(self._dataset, self._alpha)

    def _snapshots(self) -> list[Snapshot]:
        timeline = self._evidence.timelines.get((self._dataset, self._alpha), [])
        return [each for each in timeline if each.update is not None]

    def _panel(self, quantity: str, curves: dict[str, Curves]) -> Panel:
        lines = [self._of(each, quantity, label) for label, each in curves.items()]
        by_source = quantity == INFLUENCE
        return Panel(quantity, _SOURCE if by_source else _TARGET, lines, level=1.0 if by_source else None)

    def _of(self, curves: Curves, quantity: str, label: str) -> Line:
        numbers = curves.numbers[quantity]
        known = ~np.isnan(numbers).any(axis=0)
        return self._line(label, _places(numbers.shape[1])[known], numbers[:, known])

    def _line(self, label: str, x: np.ndarray, numbers: np.ndarray) -> Line:
        """Returns the line of means over sentences, with its band."""
        return Line(label, x, numbers.mean(axis=0), limits(numbers, self._evidence.draws))


def _plain(label: str, curves: Curves, quantity: str) -> Line:
    mean = curves.mean(quantity)
    known = ~np.isnan(mean)
    return Line(label, _places(len(mean))[known], mean[known])


def _places(count: int) -> np.ndarray:
    """Returns positions, counted from 1 as the paper does."""
    return np.arange(1, count + 1, dtype=np.float64)
