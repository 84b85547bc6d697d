"""The agreements of one task (Snell et al. 2021): which runs and checkpoints each is made of, and what comes out.

Alpha and Delta are attention and gradient times input of run A at its best checkpoint, beta the probe of the first run
that is compared with A, beta_uf that of a model with uniform attention, beta_px that of the bag-of-words proxy,
beta_log that of a logistic regression, and alpha_fr the attention of a model whose probe is frozen. Of a run with
checkpoints the greatest agreement counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.errors import InputError
from alignlens.io.trajectories import FINAL
from alignlens.metrics.agreement import first_above, greatest
from alignlens.metrics.comparisons import ItemSums, Pair, Series, compare
from alignlens.metrics.sampled import Sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from alignlens.io.trajectories import Trajectory
    from alignlens.metrics.comparisons import Compared
    from alignlens.metrics.sampled import Draws

AGAIN, RANDOM = "again", "random"
ACCURACY, BLEU = "accuracy", "bleu"
KINDS = ("agreement", "kendall")
_GOLD, _UNIFORM, _PROXY, _FROZEN, _LOGISTIC = "attention", "uniform", "proxy", "frozen", "logistic"
_ATTENTION, _SALIENCY = "attention", "grad_input"
# Logarithms tell probabilities apart that are all but one; the order is the same.
_PROBES = ("probe,scale=log_p", "probe")
_PROXY_PROBES = ("probe,scale=log_p,bias=dropped", "probe,bias=dropped", *_PROBES)
_ADVICE = "Give trajectories of the same text, made with the same options."
#: Checkpoint -> pairs that are averaged there, in the order of training.
Curve = dict[str, list[Pair]]


@dataclass(frozen=True)
class TaskRuns:
    """The trajectories of one task; ``again`` are runs like A, of other seeds."""

    attention: Trajectory
    again: tuple[Trajectory, ...]
    uniform: Trajectory
    proxy: Trajectory
    frozen: Trajectory | None = None
    logistic: Trajectory | None = None

    def by_name(self) -> dict[str, Trajectory]:
        """Returns all runs by the names that series have."""
        named = {_GOLD: self.attention, _UNIFORM: self.uniform, _PROXY: self.proxy}
        named |= {_again(place): run for place, run in enumerate(self.again)}
        others = {_FROZEN: self.frozen, _LOGISTIC: self.logistic}
        return named | {name: run for name, run in others.items() if run is not None}

    def check(self) -> None:
        """Raises unless all runs are about the same items, and those that are averaged have the same checkpoints."""
        if not len(self.attention):
            raise InputError("has no items.", self.attention.folder, advice=_ADVICE)
        for run in self.by_name().values():
            if not np.array_equal(run.shapes, self.attention.shapes):
                raise InputError(f"covers other items than {self.attention.folder}.", run.folder, advice=_ADVICE)
        for run in self.again[1:]:
            if _checkpoints(run) != _checkpoints(self.again[0]):
                raise InputError(f"has other checkpoints than {self.again[0].folder}.", run.folder, advice=_ADVICE)

    def measures(self) -> list[str]:
        """Returns what all runs with standard attention were measured by, at every checkpoint."""
        compared = [(run, weights) for run in self.again for weights in _checkpoints(run)]
        compared += [(self.attention, weights) for weights in self.attention.weights]
        for run, weights in compared:
            if ACCURACY not in run.performance[weights]:
                raise InputError(f"has no accuracy for checkpoint {weights}.", run.folder, advice=_ADVICE)
        return [ACCURACY, *([BLEU] if all(BLEU in run.performance[weights] for run, weights in compared) else [])]


def _again(place: int) -> str:
    return f"{AGAIN} {place}"


def _checkpoints(run: Trajectory) -> tuple[str, ...]:
    """Returns the checkpoints of a curve; the weights that were kept count only where there are no others."""
    return run.updates or run.weights


def _curves(runs: TaskRuns, gold: str) -> dict[str, Curve]:
    """Returns the pairs of every quantity, with alpha and Delta of one checkpoint."""
    alpha, delta = Series(_GOLD, gold, _ATTENTION), Series(_GOLD, gold, _SALIENCY)
    beta_px = Series(_PROXY, FINAL, _probe_of(runs.proxy, _PROXY_PROBES))
    beta_uf = [Series(_UNIFORM, weights, _probe_of(runs.uniform)) for weights in _checkpoints(runs.uniform)]
    beta = [Series(_again(0), weights, _probe_of(runs.again[0])) for weights in _checkpoints(runs.again[0])]
    curves = {
        "alpha,beta_uf": _against(alpha, beta_uf),
        "beta_uf,beta_px": _reversed(_against(beta_px, beta_uf)),
        "beta_px,beta_uf": _against(beta_px, beta_uf),
        "Delta,beta_uf": _against(delta, beta_uf),
        "alpha,beta": _against(alpha, beta),
    }
    if runs.frozen is not None:
        alpha_fr = [Series(_FROZEN, weights, _ATTENTION) for weights in _checkpoints(runs.frozen)]
        curves["alpha,alpha_fr"] = _against(alpha, alpha_fr)
    if runs.logistic is not None:
        beta_log = Series(_LOGISTIC, FINAL, _probe_of(runs.logistic))
        curves["beta_uf,beta_log"] = _reversed(_against(beta_log, beta_uf))
        curves["beta_log,beta_uf"] = _against(beta_log, beta_uf)
    for name, shuffled in ((AGAIN, False), (RANDOM, True)):
        curves[name] = {
            weights: [
                Pair(alpha, Series(_again(place), weights, _ATTENTION), shuffled) for place in range(len(runs.again))
            ]
            for weights in _checkpoints(runs.again[0])
        }
    return curves


def _probe_of(run: Trajectory, names: Sequence[str] = _PROBES) -> str:
    """Returns the name of a run's probe."""
    return next((name for name in names if name in run.quantities), names[-1])


def _against(fixed: Series, moving: Iterable[Series]) -> Curve:
    return {series.weights: [Pair(fixed, series)] for series in moving}


def _reversed(curve: Curve) -> Curve:
    return {weights: [Pair(pair.v, pair.u) for pair in pairs] for weights, pairs in curve.items()}


@dataclass(frozen=True)
class TaskAgreement:
    """The results of a task: measures and curves as JSON, and the sums of every item by name."""

    content: dict[str, Any]
    names: list[str]
    sums: NDArray[np.float64]
    counts: NDArray[np.float64]


def agreement_of(runs: TaskRuns, draws: Draws, advance: Callable[[int], None] | None = None) -> TaskAgreement:
    """Returns all agreements of a task, with intervals; shuffles have the seed of the draws."""
    runs.check()
    measures = runs.measures()
    golds = {measure: runs.attention.best(measure) for measure in measures}
    curves = {gold: _curves(runs, gold) for gold in dict.fromkeys(golds.values())}
    pairs = dict.fromkeys(pair for of_gold in curves.values() for curve in of_gold.values() for pair in _pairs(curve))
    _check_series(runs, pairs)
    compared = compare(runs.by_name(), pairs, draws.seed, advance)
    written: dict[str, Any] = {}
    kept: dict[str, ItemSums] = {}
    for measure, gold in golds.items():
        performance = _performance(runs, measure)
        star = _percent(measure, runs.attention.performance[gold][measure])
        content: dict[str, Any] = {"star": star, "gold": gold}
        for kind in KINDS:
            content[kind], by_item = _table(curves[gold], compared, kind, performance, draws)
            kept |= {f"{measure}.{kind}.{name}": each for name, each in by_item.items()}
        written[measure] = content
    content = {
        "items": len(runs.attention),
        "rows": int(runs.attention.shapes[:, 0].sum()),
        "interval": {"level": draws.level, "samples": draws.samples, "seed": draws.seed},
        "measures": written,
        "curves": _written_curves(runs, curves[golds[ACCURACY]], compared, measures),
    }
    sums, counts = (np.stack([getattr(each, part) for each in kept.values()]) for part in ("sums", "counts"))
    return TaskAgreement(content, list(kept), sums, counts)


def _pairs(curve: Curve) -> Iterable[Pair]:
    return (pair for pairs in curve.values() for pair in pairs)


def _check_series(runs: TaskRuns, pairs: Iterable[Pair]) -> None:
    """Raises for what a run lacks, before anything is computed."""
    named = runs.by_name()
    for series in dict.fromkeys(series for pair in pairs for series in (pair.u, pair.v)):
        named[series.run].check(series.weights, series.quantity)


def _performance(runs: TaskRuns, measure: str) -> dict[str, float]:
    """Returns the mean performance of the runs that are compared with A, in percent, by checkpoint."""
    return {
        weights: _percent(measure, fmean(run.performance[weights][measure] for run in runs.again))
        for weights in _checkpoints(runs.again[0])
    }


def _percent(measure: str, value: float) -> float:
    return value if measure == BLEU else 100 * value


def _values(curve: Curve, compared: Mapping[Pair, Compared], kind: str) -> dict[str, float]:
    """Returns a curve in percent; the runs of a checkpoint count the same, but for those where nothing is known."""
    by_weights = {}
    for weights, pairs in curve.items():
        means = [mean for pair in pairs if not math.isnan(mean := getattr(compared[pair], kind).mean())]
        by_weights[weights] = 100 * fmean(means) if means else math.nan
    return by_weights


def _table(
    curves: Mapping[str, Curve],
    compared: Mapping[Pair, Compared],
    kind: str,
    performance: Mapping[str, float],
    draws: Draws,
) -> tuple[list[dict[str, Any]], dict[str, ItemSums]]:
    """Returns the row of every quantity, and what it is by item."""
    again = _values(curves[AGAIN], compared, kind)
    rows, kept = [], {}
    for name, curve in curves.items():
        if name == AGAIN:
            continue
        at = None if name == RANDOM else greatest(_values(curve, compared, kind))
        chosen = list(_pairs(curve)) if at is None else curve[at]
        sums = ItemSums.pooled([getattr(compared[pair], kind) for pair in chosen])
        value = 100 * sums.mean()
        samples = Sampled(value, 100 * draws.ratio(sums.sums, sums.counts))
        low, high = samples.interval(draws.level) or (value, value)
        distinct = ItemSums.pooled([compared[pair].distinct for pair in chosen]).mean()
        row = {"quantity": name, "value": _known(value), "low": _known(low), "high": _known(high), "at": at}
        rows.append({**row, "xi": first_above(value, again, performance), "distinct": distinct})
        kept[name] = sums
    return rows, kept


def _written_curves(
    runs: TaskRuns, curves: Mapping[str, Curve], compared: Mapping[Pair, Compared], measures: Iterable[str]
) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, curve in curves.items():
        if name != RANDOM:
            values = {kind: [_known(value) for value in _values(curve, compared, kind).values()] for kind in KINDS}
            written[name] = {"weights": list(curve), **values}
    written[AGAIN] |= {measure: list(_performance(runs, measure).values()) for measure in measures}
    return written


def _known(value: float) -> float | None:
    """Returns a number that JSON has, or None."""
    return value if math.isfinite(value) else None
