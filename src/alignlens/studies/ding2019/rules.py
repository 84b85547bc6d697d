"""The tests of the claims: each takes the evidence and says whether its pass rule holds, with its numbers."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from alignlens.studies.claims import Finding, share
from alignlens.studies.ding2019.evidence import Evidence, entropy, error_rate, paired_rates
from alignlens.studies.ding2019.layout import METHODS, SIGMAS
from alignlens.studies.protocol import ARCHITECTURES, BIDIR, FORCED, FREE
from alignlens.studies.tally import Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from alignlens.studies.results import ModelRun

GIZA_NOTE = (
    "GIZA++ is IBM4 of sil-thot here; Zenkel et al. is not run, and eflomal, which the paper does not have, is left out"
)

_RO_EN = frozenset({"ro", "en"})


def _below(left: float | None, right: float | None) -> bool | None:
    return None if left is None or right is None else left < right


def _pairs(
    evidence: Evidence, method: str, other: str, architectures: Sequence[str] = (), decoding: str = FORCED
) -> Iterator[tuple[Place, float | None, float | None]]:
    """Yields the error rates of two methods in every cell of every model."""
    names = [evidence.results.protocol.method(name) for name in (method, other)]
    for run in evidence.runs(architectures, decoding):
        for column in evidence.columns(run.dataset, decoding):
            left, right = (error_rate(run, name, column) for name in names)
            yield Place(run.dataset, column, run.seed, run.model), left, right


def better(
    method: str,
    other: str,
    architectures: Sequence[str] = (),
    decoding: str = FORCED,
    more_than: float | None = None,
) -> Callable[[Evidence], Finding]:
    """Returns the test that a method has fewer errors than another one."""

    def test(evidence: Evidence) -> Finding:
        tally = Tally()
        for place, left, right in _pairs(evidence, method, other, architectures, decoding):
            tally.add(place, _below(left, right))
        return share(tally, more_than)

    return test


def no_better_with_noise(evidence: Evidence) -> Finding:
    """D09: attention with noise has at least as many errors as without."""
    tally = Tally()
    for place, smoothed, plain in _pairs(evidence, "smoothed_attention", "attention"):
        tally.add(place, None if smoothed is None or plain is None else smoothed >= plain)
    return share(tally, 1 / 2)


def _gaps(evidence: Evidence, method: str, other: str, architectures: Sequence[str] = ()) -> dict[str, list[float]]:
    """Returns the differences of two methods in all cells, by dataset."""
    found: dict[str, list[float]] = {}
    for place, left, right in _pairs(evidence, method, other, architectures):
        if left is not None and right is not None:
            found.setdefault(place.dataset, []).append(left - right)
    return found


def _flat(gaps: dict[str, list[float]]) -> list[float]:
    return [gap for found in gaps.values() for gap in found]


def penalty_by_architecture(evidence: Evidence) -> Finding:
    """D05: what unsmoothed saliency loses against attention, by architecture."""
    gaps = {name: _gaps(evidence, "ding_grad", "attention", (name,)) for name in ("transformer", "lstm", "fconv")}
    if not all(gaps.values()):
        return Finding(None)
    means = {name: fmean(_flat(found)) for name, found in gaps.items()}
    ordered = all(more > less for more, less in pairwise(means.values()))
    datasets = list(dict.fromkeys(dataset for found in gaps.values() for dataset in found))
    told = [
        f"{dataset} " + ", ".join(f"{ARCHITECTURES[name]} {fmean(gaps[name][dataset]):+.1f}" for name in gaps)
        for dataset in datasets
        if all(dataset in found for found in gaps.values())
    ]
    numbers = ", ".join(f"{ARCHITECTURES[name]} {mean:+.1f}" for name, mean in means.items())
    return Finding(ordered and means["transformer"] >= 10, f"mean loss {numbers}", "; ".join(told))


def gain_over_attention(evidence: Evidence) -> Finding:
    """D08: the mean gain lies between 8 and 22 points."""
    gaps = _gaps(evidence, "attention", "ding_smoothgrad")
    if not gaps:
        return Finding(None)
    cells = _flat(gaps)
    numbers = f"mean {fmean(cells):.1f}, smallest {min(cells):.1f}, largest {max(cells):.1f} ({len(cells)} cells)"
    told = "; ".join(f"{dataset} {fmean(found):.1f}" for dataset, found in sorted(gaps.items()))
    return Finding(8 <= fmean(cells) <= 22, numbers, told)


def signed_beats_unsigned(evidence: Evidence) -> Finding:
    """D10: smoothed signed saliency is below both unsigned scores on FConv and LSTM."""
    tally = Tally()
    method = evidence.results.protocol.method
    for run in evidence.runs(("fconv", "lstm")):
        for column in evidence.columns(run.dataset):
            signed, *unsigned = (
                error_rate(run, method(name), column) for name in ("ding_smoothgrad", "li_grad", "li_smoothgrad")
            )
            known = [value for value in unsigned if value is not None]
            both = min(known) if len(known) == len(unsigned) else None
            tally.add(Place(run.dataset, column, run.seed, run.model), _below(signed, both))
    return share(tally)


def nearly_equal_on_transformer(evidence: Evidence) -> Finding:
    """D11: the unsigned score wins somewhere, and the two are close on average."""
    gaps = _gaps(evidence, "li_smoothgrad", "ding_smoothgrad", ("transformer",))
    if not gaps:
        return Finding(None)
    cells = _flat(gaps)
    won, gap = sum(cell < 0 for cell in cells), fmean(map(abs, cells))
    told = "; ".join(
        f"{dataset} {sum(cell < 0 for cell in found)} of {len(found)}, gap {fmean(map(abs, found)):.1f}"
        for dataset, found in sorted(gaps.items())
    )
    numbers = f"unsigned ahead in {won} of {len(cells)} cells; mean absolute gap {gap:.1f}"
    return Finding(won >= 1 and gap <= 3, numbers, told)


def giza_is_best(evidence: Evidence) -> Finding:
    """D12: no row of Table 1 is below GIZA++ in any column."""
    tally = Tally()
    for dataset in evidence.datasets:
        for column in evidence.columns(dataset):
            giza = evidence.aligner(dataset, "giza", column)
            others = evidence.systems(dataset, column)
            best = min(others, key=lambda name: others[name], default="")
            holds = None if giza is None or not others else giza <= others[best]
            if holds is None and giza is None and not others:
                continue
            tally.add(Place(dataset, column, what=f"({best} is lower)" if best else ""), holds)
    return share(tally, unit="columns", remark=GIZA_NOTE)


def ahead_of_fast_align(evidence: Evidence) -> Finding:
    """D13: FConv with smoothed signed saliency against fast_align online, and offline for information."""
    tallies = {}
    for text in ("online", "offline"):
        tally = tallies[text] = Tally()
        for place, fast_align, saliency in _against_fast_align(evidence, text):
            tally.add(place, _below(saliency, fast_align))
    online = share(tallies["online"], 1 / 2)
    offline = tallies["offline"]
    numbers = f"online: {online.numbers}; offline: {offline.text() if offline.total else 'not run'}"
    return Finding(online.passed, numbers if online.passed is not None else "", online.by_dataset)


def _against_fast_align(evidence: Evidence, text: str) -> Iterable[tuple[Place, float | None, float | None]]:
    method = evidence.results.protocol.method("ding_smoothgrad")
    for run in evidence.runs(("fconv",)):
        for column in evidence.columns(run.dataset):
            aligner = evidence.aligner(run.dataset, f"fast_align_{text}", column)
            yield Place(run.dataset, column, run.seed, run.model), aligner, error_rate(run, method, column)


def largest_lead(evidence: Evidence) -> Finding:
    """D14: the largest lead over fast_align online is on ro<>en bidir, or is at least 4 points."""
    leads: dict[tuple[str, str], list[float]] = {}
    for place, fast_align, saliency in _against_fast_align(evidence, "online"):
        if fast_align is not None and saliency is not None:
            leads.setdefault((place.dataset, place.column), []).append(fast_align - saliency)
    if not leads:
        return Finding(None)
    means = {where: fmean(found) for where, found in leads.items()}
    (dataset, column), lead = max(means.items(), key=lambda entry: entry[1])
    same = column == BIDIR and frozenset(evidence.datasets[dataset].pair) == _RO_EN
    names = sorted({name for name, _ in means})
    told = [max((lead, column) for (name, column), lead in means.items() if name == wanted) for wanted in names]
    by_dataset = "; ".join(f"{name} {lead:+.1f} on {column}" for name, (lead, column) in zip(names, told, strict=True))
    pairs = {frozenset(evidence.datasets[name].pair) for name in names}
    remark = "" if _RO_EN in pairs else "no ro<>en text here: only the size of the lead counts"
    return Finding(same or lead >= 4, f"largest lead {lead:+.1f} on {dataset} {column}", by_dataset, remark)


def architecture_order(methods: Sequence[str], more_than: float | None = None) -> Callable[[Evidence], Finding]:
    """Returns the test that errors grow from FConv over LSTM to the Transformer."""

    def test(evidence: Evidence) -> Finding:
        tally = Tally()
        for dataset in evidence.datasets:
            for seed in evidence.seeds(dataset):
                for column in evidence.columns(dataset):
                    for name in methods:
                        method = evidence.results.protocol.method(name)
                        values = [
                            evidence.across(dataset, seed, architecture, _at(method, column), FORCED)
                            for architecture in ARCHITECTURES
                        ]
                        holds = None if None in values else all(_below(*pair) for pair in pairwise(values))
                        tally.add(Place(dataset, column, seed, name if len(methods) > 1 else ""), holds)
        return share(tally, more_than, "columns" if len(methods) == 1 else "cells")

    return test


def _at(method: str, column: str) -> Callable[[ModelRun], float | None]:
    return lambda run: error_rate(run, method, column)


def _entropy_at(method: str, direction: str) -> Callable[[ModelRun], float | None]:
    return lambda run: entropy(run, method, direction)


def fewer_errors_when_free(evidence: Evidence) -> Finding:
    """D17: free decoding has fewer errors than forced decoding."""
    tally = Tally()
    for run in evidence.runs(decoding=FREE):
        forced = evidence.other(run, FORCED)
        for column in evidence.columns(run.dataset, FREE):
            for name in METHODS:
                method = evidence.results.protocol.method(name)
                given = error_rate(forced, method, column) if forced else None
                place = Place(run.dataset, column, run.seed, f"{run.model} {name}")
                tally.add(place, _below(error_rate(run, method, column), given))
    return share(tally, 0.8)


def flatter_with_noise(evidence: Evidence) -> Finding:
    """D18: entropy rises strictly with the noise."""
    tally = Tally()
    methods = [evidence.results.protocol.at_sigma(sigma) for sigma in SIGMAS]
    for decoding in (FORCED, FREE):
        for run in evidence.runs(decoding=decoding):
            for direction in evidence.columns(run.dataset, FREE):
                values = [entropy(run, method, direction) for method in methods]
                holds = None if None in values else all(_below(*pair) for pair in pairwise(values))
                tally.add(Place(run.dataset, direction, run.seed, f"{run.model} {decoding}"), holds)
    return share(tally, unit="rows")


def sharper_when_free(evidence: Evidence) -> Finding:
    """D19: entropy is lower in free decoding."""
    tally = Tally()
    protocol = evidence.results.protocol
    methods = {"attention": protocol.method("attention")}
    methods |= {f"sigma {sigma:g}": protocol.at_sigma(sigma) for sigma in SIGMAS}
    for run in evidence.runs(decoding=FREE):
        forced = evidence.other(run, FORCED)
        for direction in evidence.columns(run.dataset, FREE):
            for setting, method in methods.items():
                given = entropy(forced, method, direction) if forced else None
                place = Place(run.dataset, direction, run.seed, f"{run.model} {setting}")
                tally.add(place, _below(entropy(run, method, direction), given))
    return share(tally)


def transformer_attention_is_sharpest(evidence: Evidence) -> Finding:
    """D20: the entropy of attention is lowest on the Transformer."""
    tally = Tally()
    method = evidence.results.protocol.method("attention")
    for dataset in evidence.datasets:
        for seed in evidence.seeds(dataset):
            for decoding in (FORCED, FREE):
                for direction in evidence.columns(dataset, FREE):
                    mine, *others = (
                        evidence.across(dataset, seed, name, _entropy_at(method, direction), decoding)
                        for name in ("transformer", "fconv", "lstm")
                    )
                    for name, other in zip(("fconv", "lstm"), others, strict=True):
                        place = Place(dataset, direction, seed, f"{decoding}, {ARCHITECTURES[name]}")
                        tally.add(place, _below(mine, other))
    return share(tally, unit="comparisons")


def middle_noise_is_best(evidence: Evidence) -> Finding:
    """D21: on the Transformer sigma 0.15 is better than no noise and than much noise."""
    tally, little = Tally(), Tally()
    methods = {sigma: evidence.results.protocol.at_sigma(sigma) for sigma in SIGMAS}
    for run in evidence.runs(("transformer",)):
        direction = evidence.datasets[run.dataset].directions[0]
        value = {sigma: error_rate(run, method, direction) for sigma, method in methods.items()}
        place = Place(run.dataset, direction, run.seed, run.model)
        both = [_below(value[0.15], value[sigma]) for sigma in (0.0, 0.3)]
        tally.add(place, None if None in both else all(both))
        little.add(place, _below(value[0.15], value[0.05]))
    return share(tally, unit="models", remark=f"also below sigma 0.05: {little.text('models')}")


def sign_matters(evidence: Evidence) -> Finding:
    """D22: absolute values of the same products give more errors than their positive part."""
    tally = Tally()
    method = evidence.results.protocol.method
    told = []
    for unsigned, signed, label in (
        ("li_grad", "ding_grad", "Grad"),
        ("li_smoothgrad", "ding_smoothgrad", "SmoothGrad"),
    ):
        before = tally.hits, tally.total
        for run in evidence.runs():
            for column in evidence.columns(run.dataset):
                values = paired_rates(run, method(signed), method(unsigned, reading="abs_dot"), column)
                tally.add(Place(run.dataset, column, run.seed, f"{run.model} {label}"), _below(*values))
        told.append(f"{label} {tally.hits - before[0]} of {tally.total - before[1]}")
    return share(tally, 1 / 2, remark=", ".join(told))
