"""The tests of the claims about free decoding (D17, D19) and about entropy (D18 to D20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.results.paths import FORCED, FREE
from alignlens.results.protocol import ARCHITECTURES
from alignlens.studies.claims import Finding, counted_cases, more_than
from alignlens.studies.ding2019.evidence import Evidence, gap_of
from alignlens.studies.ding2019.layout import METHODS, SIGMAS
from alignlens.studies.tally import Place

if TYPE_CHECKING:
    from alignlens.metrics.sampled import Sampled
    from alignlens.results.scores import AttributedModel
    from alignlens.studies.ding2019.evidence import Measure


def fewer_errors_when_free(evidence: Evidence) -> Finding:
    """D17: free decoding has fewer errors than forced decoding."""
    tally = evidence.tally()
    for runs in evidence.models(decoding=FREE):
        for column in evidence.columns(runs[0].dataset, FREE):
            for name in METHODS:
                rate = evidence.rate(evidence.results.protocol.method(name), column)
                gap = evidence.samples.over_seeds(runs, _against_forced(evidence, rate))
                tally.add(Place(runs[0].dataset, column, f"{runs[0].model} {name}"), tally.above(gap, 0))
    return counted_cases(tally, more_than(0.8))


def _against_forced(evidence: Evidence, measure: Measure) -> Measure:
    """Returns what measures how far a run is below the same model and seed in forced decoding."""

    def gap(run: AttributedModel) -> Sampled | None:
        forced = evidence.other(run, FORCED)
        return gap_of(measure(run), measure(forced)) if forced else None

    return gap


def flatter_with_noise(evidence: Evidence) -> Finding:
    """D18: entropy rises strictly with the noise."""
    tally = evidence.tally()
    methods = {f"sigma {sigma:g}": evidence.results.protocol.at_sigma(sigma) for sigma in SIGMAS}
    for decoding in (FORCED, FREE):
        for runs in evidence.models(decoding=decoding):
            for direction in evidence.columns(runs[0].dataset, FREE):
                values = {
                    name: evidence.samples.over_seeds(runs, evidence.entropy(method, direction))
                    for name, method in methods.items()
                }
                place = Place(runs[0].dataset, direction, f"{runs[0].model} {decoding}")
                tally.add(place, *tally.rising(values))
    return counted_cases(tally, unit="rows")


def sharper_when_free(evidence: Evidence) -> Finding:
    """D19: entropy is lower in free decoding."""
    tally = evidence.tally()
    protocol = evidence.results.protocol
    methods = {"attention": protocol.method("attention")}
    methods |= {f"sigma {sigma:g}": protocol.at_sigma(sigma) for sigma in SIGMAS}
    for runs in evidence.models(decoding=FREE):
        for direction in evidence.columns(runs[0].dataset, FREE):
            for setting, method in methods.items():
                measure = _against_forced(evidence, evidence.entropy(method, direction))
                gap = evidence.samples.over_seeds(runs, measure)
                tally.add(Place(runs[0].dataset, direction, f"{runs[0].model} {setting}"), tally.above(gap, 0))
    return counted_cases(tally)


def transformer_attention_is_sharpest(evidence: Evidence) -> Finding:
    """D20: the entropy of attention is lowest on the Transformer."""
    tally = evidence.tally()
    method = evidence.results.protocol.method("attention")
    for dataset in evidence.datasets:
        for decoding in (FORCED, FREE):
            for direction in evidence.columns(dataset, FREE):
                measure = evidence.entropy(method, direction)
                own = evidence.across(dataset, "transformer", measure, decoding)
                for name in ("fconv", "lstm"):
                    place = Place(dataset, direction, f"{decoding}, {ARCHITECTURES[name]}")
                    tally.add(place, tally.below(own, evidence.across(dataset, name, measure, decoding)))
    return counted_cases(tally, unit="comparisons")
