"""Error rates of every decoder layer and head, of weights and of norms; and ways to choose a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count, product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.results.paths import DEV, FORCED, TEST
from alignlens.studies.kobayashi2020.runs import KINDS, STEPS, layer_method
from alignlens.studies.tables import Estimate, estimate_of, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.results.scores import AttributedModel, Results, Score

BEST, ON_DEV, LARGEST, MEAN = "best", "dev", "norm", "mean"
SELECTIONS = {
    BEST: "best layer (oracle: chosen on the test gold)",
    ON_DEV: "best layer on the dev gold",
    LARGEST: "layer with the largest mean norm",
    MEAN: "mean over layers",
}
LAYER_COLUMNS = (
    "dataset", "model", "seed", "direction", "extraction", "step", "kind", "layer", "aer", "low", "high", "precision",
    "recall", "links", "dev_aer", "mean_norm",
)  # fmt: skip
HEAD_COLUMNS = (
    "dataset", "model", "seed", "direction", "extraction", "step", "kind", "layer", "head", "aer", "mean_norm",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What a curve over layers is about."""

    dataset: str
    model: str
    direction: str
    extraction: str
    step: str
    kind: str


@dataclass(frozen=True)
class Layer:
    """One layer of one seed: its scores on the test text, its error rate on the dev text, its mean norm."""

    test: Score
    dev_aer: float
    mean_norm: float


@dataclass(frozen=True)
class Curve:
    """The layers of a model, the lowest first, by seed."""

    setting: Setting
    seeds: dict[str, tuple[Layer, ...]]

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(next(iter(self.seeds.values())))

    def means(self) -> list[float]:
        """Returns the error rate of every layer, mean over seeds."""
        return [fmean(layers[number].test.aer for layers in self.seeds.values()) for number in range(self.depth)]

    def chosen(self, selection: str) -> dict[str, int]:
        """Returns the layer that each seed gets; none where there is nothing to choose by."""
        places = {}
        for seed, layers in self.seeds.items():
            worth = [_worth(layer, selection) for layer in layers]
            if not any(map(math.isnan, worth)):
                places[seed] = worth.index(min(worth))
        return places

    def estimate(self, selection: str) -> Estimate:
        """Returns the error rate of the layers chosen, mean over seeds."""
        if selection == MEAN:
            return estimate_of([fmean(layer.test.aer for layer in layers) for layers in self.seeds.values()])
        scores = [self.seeds[seed][number].test for seed, number in self.chosen(selection).items()]
        reason = "no dev gold" if selection == ON_DEV else "not measured"
        bounds = [score.low for score in scores], [score.high for score in scores]
        return estimate_of([score.aer for score in scores], *bounds, reason)


def _worth(layer: Layer, selection: str) -> float:
    """Returns what the chosen layer has least of."""
    return {BEST: layer.test.aer, ON_DEV: layer.dev_aer, LARGEST: -layer.mean_norm}[selection]


def curves(results: Results) -> list[Curve]:
    """Returns all curves of forced decoding, those that differ in what is compared one after the other."""
    drawn = []
    for dataset in results.datasets:
        for model in results.names(dataset.name, "transformer"):
            runs = _runs(results, dataset.name, model, TEST)
            dev = {run.seed: run for run in _runs(results, dataset.name, model, DEV)}
            for setting in product(dataset.directions, EXTRACTIONS, STEPS, KINDS):
                chosen = Setting(dataset.name, model, *setting)
                seeds = {run.seed: layers for run in runs if (layers := _layers(run, dev.get(run.seed), chosen))}
                if seeds:
                    drawn.append(Curve(chosen, seeds))
    return drawn


def _runs(results: Results, dataset: str, model: str, split: str) -> list[AttributedModel]:
    return [run for run in results.runs(dataset, decoding=FORCED, split=split) if run.model == model]


def _layers(run: AttributedModel, dev: AttributedModel | None, setting: Setting) -> tuple[Layer, ...]:
    """Returns the layers that a run has scores of."""

    def score(of: AttributedModel | None, kind: str, layer: int) -> Score | None:
        if of is None:
            return None
        scored = of.find(layer_method(kind, layer, setting.step), setting.direction, setting.extraction)
        return scored[0] if scored else None

    layers: list[Layer] = []
    while (test := score(run, setting.kind, len(layers))) is not None:
        chosen, norms = score(dev, setting.kind, len(layers)), score(run, "norms", len(layers))
        layers.append(Layer(test, chosen.aer if chosen else math.nan, norms.score_mean if norms else math.nan))
    return tuple(layers)


def layer_records(drawn_curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Returns one record per layer and seed, layers counted from 1 as in the paper."""
    return [
        {
            **vars(curve.setting),
            "seed": seed,
            "step": STEPS[curve.setting.step],
            "kind": KINDS[curve.setting.kind],
            "layer": number,
            "aer": rounded(layer.test.aer),
            "low": rounded(layer.test.low),
            "high": rounded(layer.test.high),
            "precision": rounded(layer.test.precision),
            "recall": rounded(layer.test.recall),
            "links": layer.test.links_count,
            "dev_aer": rounded(layer.dev_aer),
            "mean_norm": rounded(layer.mean_norm),
        }
        for curve in drawn_curves
        for seed, layers in curve.seeds.items()
        for number, layer in enumerate(layers, start=1)
    ]


@dataclass(frozen=True)
class Head:
    """One head of one seed; layer and head are counted from 0."""

    setting: Setting
    seed: str
    layer: int
    head: int
    aer: float
    mean_norm: float


def heads(results: Results, drawn_curves: Sequence[Curve]) -> list[Head]:
    """Returns the heads of all layers that there are curves of."""
    runs = {(run.dataset, run.model, run.seed): run for run in results.runs(decoding=FORCED)}
    return [
        head
        for curve in drawn_curves
        for seed in curve.seeds
        for layer in range(curve.depth)
        for head in _heads(runs[curve.setting.dataset, curve.setting.model, seed], curve.setting, seed, layer)
    ]


def _heads(run: AttributedModel, setting: Setting, seed: str, layer: int) -> Iterator[Head]:
    for head in count():
        place = setting.direction, setting.extraction
        scores = run.find(layer_method(setting.kind, layer, setting.step, head), *place)
        if not scores:
            return
        norms = run.find(layer_method("norms", layer, setting.step, head), *place)
        yield Head(setting, seed, layer, head, scores[0].aer, norms[0].score_mean if norms else math.nan)


def head_records(all_heads: Sequence[Head]) -> list[dict[str, Any]]:
    """Returns one record per head, layers and heads counted from 1 as in the paper."""
    return [
        {
            **vars(head.setting),
            "seed": head.seed,
            "step": STEPS[head.setting.step],
            "kind": KINDS[head.setting.kind],
            "layer": head.layer + 1,
            "head": head.head + 1,
            "aer": rounded(head.aer),
            "mean_norm": rounded(head.mean_norm),
        }
        for head in all_heads
    ]
