"""Figures 2 and 4 to 7, each dataset for itself, bars as bootstrap intervals over sentences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.display.lines import Line, Panel, draw_panels
from alignlens.metrics.calibration import ENTROPY_EDGES
from alignlens.studies.lu2021.readings import Run
from alignlens.studies.lu2021.runs import BASELINE, FUSIONS, GATE, calibrated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.display.heatmap import Drawing
    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.lu2021.evidence import Evidence
    from alignlens.studies.lu2021.readings import Bitext

_LAYER, _ENTROPY, _ALPHA = "decoder layer", "entropy of attention (nats)", "weight of the penalty (alpha)"
_FUSED = {"fixed": "fixed sum", "anneal": "annealed", "gate": "gate"}
_PLACES = {"": "all source positions", "_without_end": "without END"}
_EDGES = [f"{edge:g}" for edge in ENTROPY_EDGES]
_BINS = [f"< {_EDGES[0]}", *(f"{low}–{high}" for low, high in pairwise(_EDGES)), f"> {_EDGES[-1]}"]
_FEWEST_POINTS = 2


@dataclass(frozen=True)
class Figure:
    """A figure: its name in files, what it shows, and its panels."""

    name: str
    label: str
    caption: str
    panels: Sequence[Panel]

    def draw(self) -> Drawing:
        """Returns the drawing."""
        return draw_panels(self.panels, self.caption)


def figures(evidence: Evidence, dataset: str) -> Iterator[Figure]:
    """Yields the figures of a dataset for which there are numbers."""
    test_sets = [each for each in evidence.test_sets if each.dataset == dataset]
    shown = _Shown(evidence, test_sets)
    for number, subject, panels in (
        (2, "Kendall's tau of attention and gradient importance, baseline", shown.attention()),
        (4, "masks and BLEU against the weight of the penalty, gate", shown.sweep()),
        (5, "Kendall's tau of masks and of attention with gradient importance, gate", shown.masks()),
        (6, "divergence of attention before and after calibration", shown.divergence()),
        (7, "divergence of attention before and after calibration by its entropy, gate", shown.bins()),
    ):
        if panels:
            label = f"Figure {number}"
            yield Figure(f"figure{number}-{dataset}", label, f"{label}, {dataset}: {subject}", panels)


class _Shown:
    """Panels of one dataset, a direction each; none where numbers are missing."""

    def __init__(self, evidence: Evidence, test_sets: Sequence[Bitext]) -> None:
        self._evidence, self._test_sets = evidence, test_sets

    def attention(self) -> list[Panel]:
        panels = []
        for test_set in self._test_sets:
            run = test_set.run(BASELINE)
            lines = [self._of(run, f"tau_original{suffix}", place) for suffix, place in _PLACES.items()]
            panels += self._by_layer(test_set.direction, lines, level=0.5)
        return panels

    def masks(self) -> list[Panel]:
        panels = []
        for test_set in self._test_sets:
            run = test_set.run(calibrated(GATE))
            for suffix, place in _PLACES.items():
                lines = [
                    self._of(run, f"tau_{quantity}{suffix}", label)
                    for quantity, label in (("mask", "1 − mask"), ("original", "attention"))
                ]
                panels += self._by_layer(f"{test_set.direction}, {place}", lines)
        return panels

    def divergence(self) -> list[Panel]:
        panels = []
        for test_set in self._test_sets:
            lines = [self._of(test_set.run(calibrated(name)), "jsd", _FUSED[name]) for name in FUSIONS]
            panels += self._by_layer(test_set.direction, lines)
        return panels

    def bins(self) -> list[Panel]:
        panels = []
        for test_set in self._test_sets:
            run = test_set.run(calibrated(GATE))
            lines = []
            for layer in range(self._evidence.layers(run)):
                measured = [self._evidence.measured(run, "jsd_by_entropy", layer, place) for place in range(len(_BINS))]
                known = {place: each for place, each in enumerate(measured, 1) if each is not None}
                lines.append(self._line(f"layer {layer + 1}", known))
            if any(line.x.size for line in lines):
                panels.append(Panel(test_set.direction, _ENTROPY, lines, places=_BINS))
        return panels

    def sweep(self) -> list[Panel]:
        panels = []
        for test_set in self._test_sets:
            points = self._evidence.sweep(test_set)
            if len(points) < _FEWEST_POINTS:
                continue
            places = [f"{point.alpha:g}" for point in points]
            masks = {place: point.mask for place, point in enumerate(points, 1)}
            scored = {place: point.bleu for place, point in enumerate(points, 1) if point.bleu is not None}
            panels.append(Panel(f"{test_set.direction}, mean mask", _ALPHA, [self._line("", masks)], places=places))
            if scored:
                panels.append(Panel(f"{test_set.direction}, BLEU", _ALPHA, [self._line("", scored)], places=places))
        return panels

    def _by_layer(self, title: str, lines: Sequence[Line | None], level: float | None = None) -> list[Panel]:
        known = [line for line in lines if line is not None]
        if not known:
            return []
        places = [f"{number}" for number in range(1, max(len(line.x) for line in known) + 1)]
        return [Panel(title, _LAYER, known, level=level, places=places)]

    def _of(self, run: Run, quantity: str, label: str) -> Line | None:
        numbers = self._evidence.by_layer(run, quantity)
        return self._line(label, dict(enumerate(numbers, 1))) if numbers else None

    def _line(self, label: str, numbers: dict[int, Sampled]) -> Line:
        """Returns a line through numbers at places, with bars where their limits are known."""
        known = {place: each for place, each in numbers.items() if not np.isnan(each.value)}
        level = self._evidence.draws.level
        limits = [each.interval(level) or (each.value, each.value) for each in known.values()]
        band = np.array(limits, np.float64).reshape(-1, 2).T
        band = np.where(np.isfinite(band), band, [each.value for each in known.values()])
        return Line(label, np.array(list(known), np.float64), np.array([each.value for each in known.values()]), band)
