"""The tests of the claims: each takes the evidence and says whether its pass rule holds, with its numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from alignlens.metrics.sampled import greatest_of, mean_of
from alignlens.results.paths import FORCED
from alignlens.results.protocol import ARCHITECTURES, BIDIR
from alignlens.studies.claims import (
    Finding,
    all_of,
    any_of,
    at_least,
    counted_cases,
    every,
    more_than,
    outcomes,
    verdict,
)
from alignlens.studies.ding2019.evidence import Evidence, gap_of
from alignlens.studies.ding2019.layout import SIGMAS
from alignlens.studies.tally import HELD, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.claims import PassRule

GIZA_NOTE = (
    "GIZA++ is IBM4 of sil-thot here; Zenkel et al. is not run, and eflomal, which the paper does not have, is left out"
)

_RO_EN = frozenset({"ro", "en"})


def _gaps(
    evidence: Evidence, method: str, other: str, architectures: Sequence[str] = (), decoding: str = FORCED
) -> Iterator[tuple[Place, Sampled | None]]:
    """Yields how far a method is below another one in every cell of every model, mean over seeds."""
    first, second = (evidence.results.protocol.method(name) for name in (method, other))
    for runs in evidence.models(architectures, decoding):
        for column in evidence.columns(runs[0].dataset, decoding):
            gap = evidence.gap(first, second, column)
            yield Place(runs[0].dataset, column, runs[0].model), evidence.samples.over_seeds(runs, gap)


def better(
    method: str, other: str, architectures: Sequence[str] = (), decoding: str = FORCED, rule: PassRule = every
) -> Callable[[Evidence], Finding]:
    """Returns the test that a method has fewer errors than another one."""

    def test(evidence: Evidence) -> Finding:
        tally = evidence.tally()
        for place, gap in _gaps(evidence, method, other, architectures, decoding):
            tally.add(place, tally.above(gap, 0))
        return counted_cases(tally, rule)

    return test


def no_better_with_noise(evidence: Evidence) -> Finding:
    """D09: attention with noise has at least as many errors as without."""
    tally = evidence.tally()
    for place, gap in _gaps(evidence, "attention", "smoothed_attention"):
        tally.add(place, tally.at_least(gap, 0))
    return counted_cases(tally, more_than(1 / 2))


def _by_dataset(gaps: Iterable[tuple[Place, Sampled | None]]) -> dict[str, list[Sampled]]:
    """Returns the gaps of all cells that have one."""
    by_dataset: dict[str, list[Sampled]] = {}
    for place, gap in gaps:
        if gap is not None:
            by_dataset.setdefault(place.dataset, []).append(gap)
    return by_dataset


def _flat(gaps: dict[str, list[Sampled]]) -> list[Sampled]:
    return [gap for of_dataset in gaps.values() for gap in of_dataset]


def _together(datasets: Iterable[str], what: str) -> Place:
    """Returns the place of a comparison of means over all datasets."""
    return Place(" + ".join(sorted(set(datasets))), what=what)


def penalty_by_architecture(evidence: Evidence) -> Finding:
    """D05: what unsmoothed saliency loses against attention, by architecture."""
    names = ("transformer", "lstm", "fconv")
    gaps = {name: _by_dataset(_gaps(evidence, "attention", "ding_grad", (name,))) for name in names}
    if not all(gaps.values()):
        return Finding()
    means = {name: mean_of(_flat(of_dataset)) for name, of_dataset in gaps.items()}
    datasets = list(dict.fromkeys(dataset for of_dataset in gaps.values() for dataset in of_dataset))
    tally = evidence.tally()
    for more, less in pairwise(names):
        place = _together(datasets, f"{ARCHITECTURES[more]} above {ARCHITECTURES[less]}")
        tally.add(place, tally.above(means[more], means[less]))
    place = _together(datasets, "at least 10 points for the Transformer")
    tally.add(place, tally.at_least(means["transformer"], 10))
    details = [
        f"{dataset} " + ", ".join(f"{ARCHITECTURES[name]} {mean_of(gaps[name][dataset]).value:+.1f}" for name in gaps)
        for dataset in datasets
        if all(dataset in of_dataset for of_dataset in gaps.values())
    ]
    numbers = ", ".join(f"{ARCHITECTURES[name]} {mean.value:+.1f}" for name, mean in means.items())
    return counted_cases(tally, numbers=f"mean loss {numbers}", details="; ".join(details))


def gain_over_attention(evidence: Evidence) -> Finding:
    """D08: the mean gain lies between 8 and 22 points."""
    gaps = _by_dataset(_gaps(evidence, "ding_smoothgrad", "attention"))
    if not gaps:
        return Finding()
    mean, cells = mean_of(_flat(gaps)), [gap.value for gap in _flat(gaps)]
    tally = evidence.tally()
    tally.add(_together(gaps, "at least 8 points"), tally.at_least(mean, 8))
    tally.add(_together(gaps, "at most 22 points"), tally.at_most(mean, 22))
    numbers = f"mean {mean.value:.1f}, smallest {min(cells):.1f}, largest {max(cells):.1f} ({len(cells)} cells)"
    details = "; ".join(f"{dataset} {mean_of(of_dataset).value:.1f}" for dataset, of_dataset in sorted(gaps.items()))
    return counted_cases(tally, numbers=numbers, details=details)


def signed_beats_unsigned(evidence: Evidence) -> Finding:
    """D10: smoothed signed saliency is below both unsigned scores on FConv and LSTM."""
    tally = evidence.tally()
    names = ("li_grad", "li_smoothgrad")
    against = {name: dict(_gaps(evidence, "ding_smoothgrad", name, ("fconv", "lstm"))) for name in names}
    for place in against["li_grad"]:
        tally.add(place, *(tally.above(gaps[place], 0, f"below {name}") for name, gaps in against.items()))
    return counted_cases(tally)


def nearly_equal_on_transformer(evidence: Evidence) -> Finding:
    """D11: the unsigned score wins somewhere, and the two are close on average."""
    wins, close = evidence.tally(), evidence.tally()
    gaps_by_place = list(_gaps(evidence, "li_smoothgrad", "ding_smoothgrad", ("transformer",)))
    for place, gap in gaps_by_place:
        wins.add(place, wins.above(gap, 0))
    gaps = _by_dataset(gaps_by_place)
    if not gaps:
        return Finding()
    sizes = {dataset: mean_of(list(map(abs, cells))) for dataset, cells in gaps.items()}
    mean = mean_of(list(map(abs, _flat(gaps))))
    close.add(_together(gaps, "mean absolute gap at most 3"), close.at_most(mean, 3))
    won = {dataset: sum(gap.value > 0 for gap in cells) for dataset, cells in gaps.items()}
    details = [f"{name} {won[name]} of {len(gaps[name])}, gap {sizes[name].value:.1f}" for name in sorted(gaps)]
    numbers = f"unsigned ahead in {sum(won.values())} of {wins.total} cells; mean absolute gap {mean.value:.1f}"
    both = all_of((verdict(at_least(1), outcomes(wins)), verdict(every, outcomes(close))))
    return Finding(both, wins + close, numbers, "; ".join(details))


def giza_is_best(evidence: Evidence) -> Finding:
    """D12: no row of Table 1 is below GIZA++ in any column."""
    tally = evidence.tally()
    for dataset in evidence.datasets:
        for column in evidence.columns(dataset):
            giza = evidence.aligner(dataset, "giza", column)
            others = evidence.systems(dataset, column)
            if giza is None and not others:
                continue
            _, best = min(((rate.value, name) for name, rate in others.items()), default=(0, ""))
            compared = [tally.at_most(giza, other, f"at most {name}") for name, other in others.items()]
            tally.add(Place(dataset, column, f"(next: {best})" if best else ""), *(compared or [None]))
    return counted_cases(tally, unit="columns", remark=GIZA_NOTE)


def ahead_of_fast_align(evidence: Evidence) -> Finding:
    """D13: FConv with smoothed signed saliency against fast_align online, and offline for information."""
    tallies = {}
    for text in ("online", "offline"):
        tally = tallies[text] = evidence.tally()
        for place, lead in _leads(evidence, text):
            tally.add(place, tally.above(lead, 0))
    offline = tallies["offline"].text() if tallies["offline"].total else "not run"
    numbers = f"online: {tallies['online'].text()}; offline: {offline}"
    return counted_cases(tallies["online"], more_than(1 / 2), numbers=numbers)


def _leads(evidence: Evidence, text: str) -> Iterator[tuple[Place, Sampled | None]]:
    """Yields how far smoothed signed saliency on FConv is below fast_align."""
    method = evidence.results.protocol.method("ding_smoothgrad")
    for runs in evidence.models(("fconv",)):
        dataset = runs[0].dataset
        for column in evidence.columns(dataset):
            aligner = evidence.aligner(dataset, f"fast_align_{text}", column)
            rate = evidence.samples.over_seeds(runs, evidence.rate(method, column))
            yield Place(dataset, column, runs[0].model), gap_of(rate, aligner)


def largest_lead(evidence: Evidence) -> Finding:
    """D14: the largest lead over fast_align online is on ro<>en bidir, or is at least 4 points."""
    by_column: dict[tuple[str, str], list[Sampled]] = {}
    for place, lead in _leads(evidence, "online"):
        if lead is not None:
            by_column.setdefault((place.dataset, place.column), []).append(lead)
    if not by_column:
        return Finding()
    leads = {where: mean_of(each) for where, each in by_column.items()}
    first, size = evidence.tally(), evidence.tally()
    for (dataset, column), lead in leads.items():
        if column == BIDIR and frozenset(evidence.datasets[dataset].pair) == _RO_EN:
            others = [other for where, other in leads.items() if where != (dataset, column)]
            if others:
                first.add(Place(dataset, column, "largest of all"), first.at_least(lead, greatest_of(others)))
    largest = greatest_of(list(leads.values()))
    (dataset, column) = max(leads, key=lambda where: leads[where].value)
    size.add(_together((name for name, _ in leads), "at least 4 points"), size.at_least(largest, 4))
    names = sorted({name for name, _ in leads})
    largest_of = [
        max((lead.value, column) for (name, column), lead in leads.items() if name == wanted) for wanted in names
    ]
    details = "; ".join(
        f"{name} {lead:+.1f} on {column}" for name, (lead, column) in zip(names, largest_of, strict=True)
    )
    pairs = {frozenset(evidence.datasets[name].pair) for name in names}
    remark = "" if _RO_EN in pairs else "no ro<>en text here: only the size of the lead counts"
    either = any_of((verdict(at_least(1), outcomes(first)), verdict(every, outcomes(size))))
    numbers = f"largest lead {largest.value:+.1f} on {dataset} {column}"
    return Finding(either, first + size, numbers, details, remark)


def architecture_order(methods: Sequence[str], rule: PassRule = every) -> Callable[[Evidence], Finding]:
    """Returns the test that errors grow from FConv over LSTM to the Transformer."""

    def test(evidence: Evidence) -> Finding:
        tally = evidence.tally()
        for dataset in evidence.datasets:
            for column in evidence.columns(dataset):
                for name in methods:
                    rate = evidence.rate(evidence.results.protocol.method(name), column)
                    values = [evidence.across(dataset, architecture, rate) for architecture in ARCHITECTURES]
                    place = Place(dataset, column, name if len(methods) > 1 else "")
                    tally.add(place, *tally.rising(dict(zip(ARCHITECTURES.values(), values, strict=True))))
        return counted_cases(tally, rule, "columns" if len(methods) == 1 else "cells")

    return test


def middle_noise_is_best(evidence: Evidence) -> Finding:
    """D21: on the Transformer sigma 0.15 is better than no noise and than much noise."""
    tally, little = evidence.tally(), evidence.tally()
    methods = {sigma: evidence.results.protocol.at_sigma(sigma) for sigma in SIGMAS}
    for runs in evidence.models(("transformer",)):
        direction = evidence.datasets[runs[0].dataset].directions[0]
        value = {
            sigma: evidence.samples.over_seeds(runs, evidence.rate(method, direction))
            for sigma, method in methods.items()
        }
        place = Place(runs[0].dataset, direction, runs[0].model)
        compared = (tally.below(value[0.15], value[sigma], f"below sigma {sigma:g}") for sigma in (0.0, 0.3))
        tally.add(place, *compared)
        little.add(place, little.below(value[0.15], value[0.05]))
    return counted_cases(tally, unit="models", remark=f"also below sigma 0.05: {little.text('models')}")


def sign_matters(evidence: Evidence) -> Finding:
    """D22: absolute values of the same products give more errors than their positive part."""
    tally = evidence.tally()
    method = evidence.results.protocol.method
    remarks = []
    for unsigned, signed, label in (
        ("li_grad", "ding_grad", "Grad"),
        ("li_smoothgrad", "ding_smoothgrad", "SmoothGrad"),
    ):
        own = evidence.tally()
        for runs in evidence.models():
            for column in evidence.columns(runs[0].dataset):
                gap = evidence.paired_gap(method(signed), method(unsigned, reading="abs_dot"), column)
                place = Place(runs[0].dataset, column, f"{runs[0].model} {label}")
                own.add(place, own.above(evidence.samples.over_seeds(runs, gap), 0))
        remarks.append(f"{label} {own.counts()[HELD]} of {own.total}")
        tally += own
    return counted_cases(tally, more_than(1 / 2), remark=", ".join(remarks))
