"""The tests of the claims about translation models: whether their pass rules hold, with their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from alignlens.studies.claims import Finding, share
from alignlens.studies.kobayashi2020.layers import BEST, MEAN
from alignlens.studies.kobayashi2020.runs import KINDS, STEPS
from alignlens.studies.kobayashi2020.shares import END, PERIOD
from alignlens.studies.kobayashi2020.table3 import ALIGNERS, best_of
from alignlens.studies.protocol import FORCED, GROW_DIAG, KOBAYASHI
from alignlens.studies.tally import Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alignlens.studies.kobayashi2020.layers import Curve
    from alignlens.studies.kobayashi2020.shares import Share
    from alignlens.studies.results import Results


@dataclass(frozen=True)
class Evidence:
    """What the tests look at; curves are those of the paper's extraction."""

    results: Results
    curves: Sequence[Curve]
    shares: Sequence[Share]

    @classmethod
    def of(cls, results: Results, curves: Sequence[Curve], shares: Sequence[Share]) -> Evidence:
        """Returns the evidence of a results folder."""
        return cls(results, [curve for curve in curves if curve.setting.extraction == KOBAYASHI], shares)

    def pairs(self) -> Iterator[tuple[Place, Curve, Curve]]:
        """Yields weights and norms in every dataset, direction and step."""
        norms = {_place(curve, "step"): curve for curve in self.curves if curve.setting.kind == "norms"}
        for curve in self.curves:
            place = _place(curve, "step")
            if curve.setting.kind == "attention" and place in norms:
                yield place, curve, norms[place]

    def steps(self) -> Iterator[tuple[Place, Curve, Curve]]:
        """Yields the steps ``in`` and ``out`` in every dataset and direction, of weights and of norms."""
        out = {_place(curve, "kind"): curve for curve in self.curves if curve.setting.step == "out"}
        for curve in self.curves:
            place = _place(curve, "kind")
            if curve.setting.step == "in" and place in out:
                yield place, curve, out[place]


def _place(curve: Curve, what: str) -> Place:
    setting = curve.setting
    named = STEPS[setting.step] if what == "step" else KINDS[setting.kind]
    return Place(setting.dataset, setting.direction, what=f"{setting.model} {named}")


def _layer(place: Place, number: int) -> Place:
    return Place(place.dataset, place.column, what=f"{place.what} layer {number + 1}")


def layer_by_layer(evidence: Evidence) -> Finding:
    """K08: norms below weights in more than half of the layers."""
    tally = Tally()
    for place, weights, norms in evidence.pairs():
        for number, (weight, norm) in enumerate(zip(weights.means(), norms.means(), strict=True)):
            tally.add(_layer(place, number), norm < weight)
    return share(tally, 1 / 2, "layers")


def summary_below(selection: str) -> Callable[[Evidence], Finding]:
    """Returns the test that norms are below weights in one summary of the layers (K09, K10)."""

    def test(evidence: Evidence) -> Finding:
        tally, told = Tally(), []
        for place, weights, norms in evidence.pairs():
            left, right = norms.estimate(selection).mean, weights.estimate(selection).mean
            tally.add(place, left < right)
            told.append(f"{place} {left:.1f} against {right:.1f}")
        return _told(tally, told)

    return test


def near_fast_align(evidence: Evidence) -> Finding:
    """K11: the best layer by norms is at most 2 points above fast_align."""
    tally, told = Tally(), []
    for (dataset, model, direction), best in best_of(evidence.curves, "norms").items():
        other = _aligner(evidence.results, dataset, "fast_align")
        place = Place(dataset, direction, what=model)
        tally.add(place, None if other is None else best <= other + 2)
        if other is not None:
            told.append(f"{place} {best:.1f} against {other:.1f}")
    return _told(tally, told, "fast_align was not run")


def between_giza_and_gradients(evidence: Evidence) -> Finding:
    """K12: the best layer by norms is worse than IBM4 and better than smoothed saliency."""
    tally, told = Tally(), []
    method = evidence.results.protocol.method("ding_smoothgrad")
    for (dataset, model, direction), best in best_of(evidence.curves, "norms").items():
        giza = _aligner(evidence.results, dataset, "giza")
        runs = [run for run in evidence.results.runs(dataset, decoding=FORCED) if run.model == model]
        rates = [score.aer for run in runs for score in run.find(method, direction)]
        place = Place(dataset, direction, what=model)
        known = giza is not None and bool(rates)
        tally.add(place, giza < best < fmean(rates) if giza is not None and rates else None)
        if known:
            told.append(f"{place} {giza:.1f} < {best:.1f} < {fmean(rates):.1f}")
    return _told(tally, told, "IBM4 or smoothed saliency was not run")


def most_in_lower_layers(evidence: Evidence) -> Finding:
    """K13: what norms gain over weights is larger in the lower half of the layers."""
    tally, told = Tally(), []
    for place, weights, norms in evidence.pairs():
        gains = [weight - norm for weight, norm in zip(weights.means(), norms.means(), strict=True)]
        if len(gains) < 2:
            tally.add(place, None)
            continue
        lower, upper = fmean(gains[: len(gains) // 2]), fmean(gains[(len(gains) + 1) // 2 :])
        tally.add(place, lower > upper)
        told.append(f"{place} {lower:+.1f} against {upper:+.1f}")
    return _told(tally, told, "models of one layer")


def heavy_but_short(evidence: Evidence) -> Finding:
    """K14: END and the final period have more of the weight than of the norm in most layers, each."""
    found = {}
    for piece in (END, PERIOD):
        tally = Tally()
        for entry in evidence.shares:
            if entry.piece == piece:
                place = Place(entry.dataset, entry.direction, entry.seed, f"{entry.model} layer {entry.layer}")
                tally.add(place, None if math.isnan(entry.ratio) else entry.ratio > 1)
        found[piece] = tally
    if not any(tally.total for tally in found.values()):
        return Finding(None, remark="no score matrices of layers below attributions/")
    passed = all(tally.hits > tally.total / 2 for tally in found.values() if tally.total)
    numbers = "; ".join(
        f"{piece} {tally.hits} of {tally.total} layers" for piece, tally in found.items() if tally.total
    )
    absent = [piece for piece, tally in found.items() if not tally.total]
    remark = f"no sentence has a {absent[0]}" if absent else ""
    return Finding(passed, numbers, "; ".join(f"{piece}: {t.by_dataset()}" for piece, t in found.items()), remark)


def reads_low_predicts_high(evidence: Evidence) -> Finding:
    """K16: lower layers align with the word read, upper layers with the word predicted; a middle one counts neither."""
    tally = Tally()
    for place, read, predicted in evidence.steps():
        rates = list(zip(read.means(), predicted.means(), strict=True))
        for number, (into, out) in enumerate(rates):
            if 2 * number + 1 == len(rates):
                continue
            lower = number < len(rates) / 2
            tally.add(_layer(place, number), into < out if lower else into > out)
    return share(tally, None, "layers")


def _aligner(results: Results, dataset: str, row: str) -> float | None:
    run = results.aligner(dataset, ALIGNERS[row][0], "offline")
    score = run.scores.get(GROW_DIAG) if run else None
    return score.aer if score is not None and not math.isnan(score.aer) else None


def _told(tally: Tally, told: Sequence[str], missing: str = "") -> Finding:
    if not tally.total:
        return Finding(None, remark=missing)
    return Finding(tally.hits == tally.total, f"{tally.text()}: {'; '.join(told)}", tally.by_dataset())


RULES: dict[str, Callable[[Evidence], Finding]] = {
    "K08": layer_by_layer,
    "K09": summary_below(BEST),
    "K10": summary_below(MEAN),
    "K11": near_fast_align,
    "K12": between_giza_and_gradients,
    "K13": most_in_lower_layers,
    "K14": heavy_but_short,
    "K16": reads_low_predicts_high,
}
