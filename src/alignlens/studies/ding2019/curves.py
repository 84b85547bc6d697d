"""Error rate against the number of noisy copies and against the noise level, with what they cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse
from alignlens.results.paths import FORCED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import AttributedModel, Results

SAMPLES, SIGMA = "n", "sigma"


@dataclass(frozen=True)
class Point:
    """Signed saliency of one model and direction with some noise; ``passes``: runs of the model per sentence."""

    dataset: str
    architecture: str
    model: str
    direction: str
    curve: str
    sigma: float
    n: int
    passes: int
    aer: float
    low: float
    high: float
    seeds: int
    spread: float
    attention: float
    """The error rate of attention of the same model and direction."""

    @property
    def x(self) -> float:
        """The place on the curve."""
        return float(self.n) if self.curve == SAMPLES else self.sigma

    def record(self) -> dict[str, Any]:
        """Returns the point as a row of samples.csv."""
        return {key: _plain(value) for key, value in asdict(self).items()}


COLUMNS = tuple(field.name for field in fields(Point))


@dataclass(frozen=True)
class _Level:
    curve: str
    sigma: float
    n: int
    method: str


def points(results: Results) -> list[Point]:
    """Returns all points of forced decoding, curve by curve."""
    levels = _levels(results)
    curve = []
    for dataset in results.datasets:
        runs = results.runs(dataset.name, decoding=FORCED)
        for model in dict.fromkeys(run.model for run in runs):
            of_model = [run for run in runs if run.model == model]
            for direction in dataset.directions:
                candidates = (_point(results, of_model, direction, level) for level in levels)
                curve += [point for point in candidates if point is not None]
    return curve


def _point(results: Results, runs: Sequence[AttributedModel], direction: str, level: _Level) -> Point | None:
    """Returns the mean over the seeds of one model, or None if it was not run with this noise."""
    scores = [score for run in runs for score in run.find(level.method, direction) if not math.isnan(score.aer)]
    plain = results.protocol.method("attention")
    attention = [score for run in runs for score in run.find(plain, direction) if not math.isnan(score.aer)]
    if not scores:
        return None
    errors = [score.aer for score in scores]
    return Point(
        dataset=runs[0].dataset,
        architecture=runs[0].architecture,
        model=runs[0].model,
        direction=direction,
        curve=level.curve,
        sigma=level.sigma,
        n=level.n,
        passes=level.n,
        aer=fmean(errors),
        low=fmean(score.low for score in scores),
        high=fmean(score.high for score in scores),
        seeds=len(scores),
        spread=stdev(errors) if len(errors) > 1 else math.nan,
        attention=fmean(score.aer for score in attention) if attention else math.nan,
    )


def _levels(results: Results) -> list[_Level]:
    """Returns everything that varies noise or copies and nothing else; without noise one copy is enough."""
    protocol = results.protocol
    levels = [_Level(SIGMA, 0.0, 1, protocol.at_sigma(0.0))]
    for text in {method for run in results.models for method in run.methods()}:
        method = parse(text)
        if method.name != "ding_smoothgrad":
            continue
        sigma, samples = float(method.parameters["sigma"]), int(method.parameters["n"])
        if text == protocol.method("ding_smoothgrad", sigma=sigma):
            levels.append(_Level(SIGMA, sigma, samples, text))
        if text == protocol.method("ding_smoothgrad", n=samples):
            levels.append(_Level(SAMPLES, sigma, samples, text))
    return sorted(levels, key=lambda level: (level.curve, level.sigma, level.n))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value
