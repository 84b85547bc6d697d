"""The tests of the claims about translation models: whether their pass rules hold, with their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from alignlens.metrics.sampled import Sampled, least_of, mean_of
from alignlens.results.paths import FORCED
from alignlens.results.protocol import KOBAYASHI
from alignlens.results.samples import Samples
from alignlens.studies.claims import Finding, all_of, counted_cases, more_than, outcomes, verdict
from alignlens.studies.kobayashi2020.layers import BEST, MEAN
from alignlens.studies.kobayashi2020.runs import ALIGNERS, KINDS, STEPS
from alignlens.studies.kobayashi2020.shares import END, PERIOD
from alignlens.studies.tally import HELD, Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.kobayashi2020.layers import Curve, Layer
    from alignlens.studies.kobayashi2020.shares import Share

# A layer that is chosen on the test gold is chosen again on every resampled text.
SUMMARIES: dict[str, Callable[[Sequence[Sampled]], Sampled]] = {BEST: least_of, MEAN: mean_of}


@dataclass(frozen=True)
class LayerEvidence:
    """What the tests look at; curves are those of the paper's extraction."""

    results: Results
    curves: Sequence[Curve]
    shares: Sequence[Share]
    samples: Samples = field(repr=False)

    @classmethod
    def of(cls, results: Results, curves: Sequence[Curve], shares: Sequence[Share]) -> LayerEvidence:
        """Returns the evidence of a results folder."""
        by_words = [curve for curve in curves if curve.setting.extraction == KOBAYASHI]
        return cls(results, by_words, shares, Samples(results.draws))

    def tally(self) -> Tally:
        """Returns an empty tally at the level of the results."""
        return Tally(self.results.draws.level)

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

    def layers(self, curve: Curve) -> list[Sampled | None]:
        """Returns the error rate of every layer, mean over seeds."""
        return [self._over_seeds(curve, itemgetter(number)) for number in range(curve.depth)]

    def summary(self, curve: Curve, selection: str) -> Sampled | None:
        """Returns the error rate of the best layer, or the mean over layers, mean over seeds."""
        return self._over_seeds(curve, SUMMARIES[selection])

    def _over_seeds(self, curve: Curve, measure: Callable[[Sequence[Sampled]], Sampled]) -> Sampled | None:
        by_seed = [measure(rates) for layers in curve.seeds.values() if (rates := self._rates(layers)) is not None]
        return (
            self.samples.draws.over_seeds(f"{curve.setting.dataset} {curve.setting.model}", by_seed)
            if by_seed
            else None
        )

    def _rates(self, layers: Sequence[Layer]) -> list[Sampled] | None:
        estimated = [self.samples.error_rate([layer.test]) for layer in layers]
        known = [rate for rate in estimated if rate is not None]
        return known if len(known) == len(estimated) else None

    def best_norms(self) -> dict[Place, Sampled]:
        """Returns the lowest error rate of norms over layers and steps in every dataset and direction."""
        by_place: dict[Place, list[Sampled]] = {}
        for curve in self.curves:
            best = self.summary(curve, BEST)
            if curve.setting.kind == "norms" and best is not None:
                place = Place(curve.setting.dataset, curve.setting.direction, curve.setting.model)
                by_place.setdefault(place, []).append(best)
        return {place: least_of(each) for place, each in by_place.items()}

    def aligner(self, place: Place, row: str) -> Sampled | None:
        """Returns the error rate of a word aligner in the direction of a place."""
        run = self.results.aligner(place.dataset, ALIGNERS[row][0], "offline")
        score = run.find(place.column) if run else None
        return self.samples.error_rate([score] if score else [])

    def saliency(self, place: Place) -> Sampled | None:
        """Returns the error rate of smoothed signed saliency of a model, with links by words like those of norms."""
        method = self.results.protocol.method("ding_smoothgrad")
        runs = [run for run in self.results.runs(place.dataset, decoding=FORCED) if run.model == place.what]
        return self.samples.over_seeds(
            runs, lambda run: self.samples.error_rate(run.find(method, place.column, KOBAYASHI))
        )


def _place(curve: Curve, what: str) -> Place:
    setting = curve.setting
    named = STEPS[setting.step] if what == "step" else KINDS[setting.kind]
    return Place(setting.dataset, setting.direction, f"{setting.model} {named}")


def _layer(place: Place, number: int) -> Place:
    return Place(place.dataset, place.column, f"{place.what} layer {number + 1}")


def layer_by_layer(evidence: LayerEvidence) -> Finding:
    """K08: norms below weights in more than half of the layers."""
    tally = evidence.tally()
    for place, weights, norms in evidence.pairs():
        pairs = zip(evidence.layers(norms), evidence.layers(weights), strict=True)
        for number, pair in enumerate(pairs):
            tally.add(_layer(place, number), tally.below(*pair))
    return counted_cases(tally, more_than(1 / 2), "layers")


def summary_below(selection: str) -> Callable[[LayerEvidence], Finding]:
    """Returns the test that norms are below weights in one summary of the layers (K09, K10)."""

    def test(evidence: LayerEvidence) -> Finding:
        tally, details = evidence.tally(), []
        for place, weights, norms in evidence.pairs():
            left, right = (evidence.summary(curve, selection) for curve in (norms, weights))
            tally.add(place, tally.below(left, right))
            if left is not None and right is not None:
                details.append(f"{place} {left.value:.1f} against {right.value:.1f}")
        return _finding(tally, details)

    return test


def near_fast_align(evidence: LayerEvidence) -> Finding:
    """K11: the best layer by norms is at most 2 points above fast_align in the same direction."""
    tally, details = evidence.tally(), []
    for place, best in evidence.best_norms().items():
        other = evidence.aligner(place, "fast_align")
        tally.add(place, tally.at_most(best, None if other is None else other + 2))
        if other is not None:
            details.append(f"{place} {best.value:.1f} against {other.value:.1f}")
    return _finding(tally, details, "fast_align was not run")


def between_giza_and_gradients(evidence: LayerEvidence) -> Finding:
    """K12: the best layer by norms is worse than IBM4 in the same direction and better than smoothed saliency."""
    tally, details = evidence.tally(), []
    for place, best in evidence.best_norms().items():
        giza, saliency = evidence.aligner(place, "giza"), evidence.saliency(place)
        tally.add(place, tally.above(best, giza, "above IBM4"), tally.below(best, saliency, "below saliency"))
        if giza is not None and saliency is not None:
            details.append(f"{place} {giza.value:.1f} < {best.value:.1f} < {saliency.value:.1f}")
    return _finding(tally, details, "IBM4 or smoothed saliency was not run")


def most_in_lower_layers(evidence: LayerEvidence) -> Finding:
    """K13: what norms gain over weights is larger in the lower half of the layers."""
    tally, details = evidence.tally(), []
    for place, weights, norms in evidence.pairs():
        pairs = zip(evidence.layers(weights), evidence.layers(norms), strict=True)
        gains = [weight - norm for weight, norm in pairs if weight is not None and norm is not None]
        if len(gains) < max(2, weights.depth):
            tally.add(place, None)
            continue
        lower, upper = mean_of(gains[: len(gains) // 2]), mean_of(gains[(len(gains) + 1) // 2 :])
        tally.add(place, tally.above(lower, upper))
        details.append(f"{place} {lower.value:+.1f} against {upper.value:+.1f}")
    return _finding(tally, details, "models of one layer")


def heavy_but_short(evidence: LayerEvidence) -> Finding:
    """K14: END and the final period have more of the weight than of the norm in most layers, each."""
    tallies = {piece: _heavy(evidence, piece) for piece in (END, PERIOD)}
    if not any(tally.total for tally in tallies.values()):
        return Finding(remark="no score matrices of layers below attributions/")
    numbers = "; ".join(
        f"{piece} {tally.counts()[HELD]} of {tally.total} layers" for piece, tally in tallies.items() if tally.total
    )
    absent = [piece for piece, tally in tallies.items() if not tally.total]
    remark = f"no sentence has a {absent[0]}" if absent else ""
    details = "; ".join(f"{piece}: {tally.by_dataset()}" for piece, tally in tallies.items())
    both = all_of(verdict(more_than(1 / 2), outcomes(tally)) for tally in tallies.values())
    return Finding(both, tallies[END] + tallies[PERIOD], numbers, details, remark)


def _heavy(evidence: LayerEvidence, piece: str) -> Tally:
    """Returns the layers in which a piece has more of the weight than of the norm, mean over seeds."""
    ratios: dict[tuple[str, str, str, int], list[Sampled]] = {}
    for share in evidence.shares:
        if share.piece == piece:
            key = share.dataset, share.direction, share.model, share.layer
            samples = evidence.samples.draws.ratio(*share.by_sentence.T)
            ratios.setdefault(key, []).append(Sampled(share.ratio, samples))
    tally = evidence.tally()
    for (dataset, direction, model, layer), by_seed in ratios.items():
        ratio = evidence.samples.draws.over_seeds(f"{dataset} {model}", by_seed)
        tally.add(Place(dataset, direction, f"{model} layer {layer} {piece}"), tally.above(ratio, 1))
    return tally


def reads_low_predicts_high(evidence: LayerEvidence) -> Finding:
    """K16: lower layers align with the word read, upper layers with the word predicted; a middle one counts neither."""
    tally = evidence.tally()
    for place, read, predicted in evidence.steps():
        rates = list(zip(evidence.layers(read), evidence.layers(predicted), strict=True))
        for number, (into, out) in enumerate(rates):
            if 2 * number + 1 == len(rates):
                continue
            lower = number < len(rates) / 2
            tally.add(_layer(place, number), tally.below(into, out) if lower else tally.above(into, out))
    return counted_cases(tally, unit="layers")


def _finding(tally: Tally, details: Sequence[str], missing: str = "") -> Finding:
    if not tally.total:
        return Finding(remark=missing)
    return counted_cases(tally, numbers=f"{tally.text()}: {'; '.join(details)}")


TESTS: dict[str, Callable[[LayerEvidence], Finding]] = {
    "K08": layer_by_layer,
    "K09": summary_below(BEST),
    "K10": summary_below(MEAN),
    "K11": near_fast_align,
    "K12": between_giza_and_gradients,
    "K13": most_in_lower_layers,
    "K14": heavy_but_short,
    "K16": reads_low_predicts_high,
}
