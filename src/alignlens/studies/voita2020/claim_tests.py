"""The tests of the claims about one model, its prefixes, and models with other objectives: V01 to V17."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Sampled
from alignlens.metrics.sampled_ranks import correlation
from alignlens.studies.claims import Finding, counted_cases
from alignlens.studies.tally import Place
from alignlens.studies.voita2020.evidence import (
    GIVEN,
    INFLUENCE,
    OTHERS,
    OWN,
    SOURCE,
    SOURCE_ENTROPY,
    TARGET_ENTROPY,
    Key,
)
from alignlens.studies.voita2020.runs import MINIMUM_RISK, SOURCE_DROPOUT, TARGET_DROPOUT
from alignlens.studies.voita2020.statistics import third

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from alignlens.studies.tally import Comparison, Tally
    from alignlens.studies.voita2020.evidence import Curves, Evidence

    Numbers = NDArray[np.float64]
    Compared = Callable[["Evidence", "Tally", "Curves"], tuple[Sequence["Comparison | None"], str]]

_NO_MODEL = "no model was analysed with reference prefixes"


def along(quantity: str, places: slice, below: float | None = None, above: float | None = None) -> Compared:
    """Returns the comparison of a rank correlation of position and mean with a bound (V01, V03, V06)."""

    def compared(evidence: Evidence, tally: Tally, curves: Curves) -> tuple[Sequence[Comparison | None], str]:
        mean = curves.mean(quantity)[places]
        rho = correlation(
            np.arange(len(mean), dtype=np.float64), mean, curves.samples(quantity, evidence.draws)[:, places]
        )
        one = tally.below(rho, below) if below is not None else tally.above(rho, above)
        return [one], f"rho {rho.value:.2f}"

    return compared


def end_takes_little(evidence: Evidence, tally: Tally, curves: Curves) -> tuple[Sequence[Comparison | None], str]:
    """V02: the end symbol has a smaller source share than the position before, and than all earlier ones."""
    mean, samples = curves.mean(SOURCE), curves.samples(SOURCE, evidence.draws)
    end, before = (Sampled(float(mean[place]), samples[:, place]) for place in (-1, -2))
    earlier = Sampled(_mean_less_deviation(mean[None])[0], _mean_less_deviation(samples))
    numbers = f"end {end.value:.3f}, before {before.value:.3f}, mean less deviation {earlier.value:.3f}"
    return [tally.below(end, before, "below the one before"), tally.below(end, earlier, "below earlier ones")], numbers


def _mean_less_deviation(rows: Numbers) -> Numbers:
    earlier = rows[:, 1:-1]
    less: Numbers = earlier.mean(axis=1) - earlier.std(axis=1)
    return less


def widest_after_the_middle(
    evidence: Evidence, tally: Tally, curves: Curves
) -> tuple[Sequence[Comparison | None], str]:
    """V04: where source entropy is greatest, the last two positions left out."""
    rows = [curves.mean(SOURCE_ENTROPY)[None], curves.samples(SOURCE_ENTROPY, evidence.draws)]
    places = [(each[:, :-2].argmax(axis=1) + 1) / curves.positions for each in rows]
    place = Sampled(float(places[0][0]), places[1])
    return [tally.at_least(place, 0.5, "not before"), tally.at_most(place, 0.85, "not after")], f"at {place.value:.2f}"


def end_looks_widely(evidence: Evidence, tally: Tally, curves: Curves) -> tuple[Sequence[Comparison | None], str]:
    """V05: source entropy of the last two positions, each above the mean of the others."""
    mean, samples = curves.mean(SOURCE_ENTROPY), curves.samples(SOURCE_ENTROPY, evidence.draws)
    others = Sampled(float(mean[:-2].mean()), samples[:, :-2].mean(axis=1))
    last = {name: Sampled(float(mean[at]), samples[:, at]) for name, at in (("last piece", -2), ("end symbol", -1))}
    numbers = ", ".join(f"{name} {each.value:.2f}" for name, each in last.items())
    return [tally.above(each, others, name) for name, each in last.items()], f"{numbers}, others {others.value:.2f}"


def of_one_model(compared: Compared, alpha: float | None = None) -> Callable[[Evidence], Finding]:
    """Returns the test of a claim about the first model with reference prefixes."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            curves = evidence.of_base(dataset, GIVEN, _alpha(evidence, alpha))
            if curves is not None and curves.positions > 4:
                comparisons, text = compared(evidence, tally, curves)
                tally.add(Place(dataset), *comparisons)
                details.append(f"{dataset} {text}")
        return _finding(tally, details, _NO_MODEL)

    return test


def of_prefixes(
    prefix: str, quantity: str, more: bool, part: str, alpha: float | None = None
) -> Callable[[Evidence], Finding]:
    """Returns the test that a number is larger (or smaller) with some prefixes than with reference ones (V07 to V10).

    ``part`` of the positions counts: of ``all`` the mean, too.
    """

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            setting = _alpha(evidence, alpha)
            reference, other = (evidence.of_base(dataset, each, setting) for each in (GIVEN, prefix))
            if reference is None or other is None:
                continue
            places = _places(min(reference.positions, other.positions), part)
            sides = [
                (each.mean(quantity)[places], each.samples(quantity, evidence.draws)[:, places])
                for each in (other, reference)
            ]
            share = Sampled(float(_share(sides[0][0], sides[1][0], more)), _share(sides[0][1], sides[1][1], more))
            comparisons = [tally.above(share, 0.5, "more than half of the positions")]
            if part == "all":
                one, usual = (each.sampled(quantity, evidence.draws) for each in (other, reference))
                comparisons.append((tally.above if more else tally.below)(one, usual, "the mean"))
            tally.add(Place(dataset), *comparisons)
            details.append(f"{dataset} {100 * share.value:.0f} % of {len(sides[0][0])} positions")
        return _finding(tally, details, f"no model was analysed with {prefix} prefixes")

    return test


def _places(positions: int, part: str) -> slice:
    """Returns positions after the first, where the source has everything."""
    if part == "first quarter":
        return slice(1, max(2, positions // 4 + 1))
    return third(positions, 2) if part == "last third" else slice(1, positions)


def _share(one: Numbers, other: Numbers, more: bool) -> Numbers:
    share: Numbers = ((one > other) if more else (one < other)).mean(axis=-1)
    return share


def wide_and_even(alpha: float | None = None) -> Callable[[Evidence], Finding]:
    """Returns the test of V11: with random prefixes source entropy is higher, and varies less over positions."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            sides = [evidence.of_base(dataset, each, _alpha(evidence, alpha)) for each in (OTHERS, GIVEN)]
            if sides[0] is None or sides[1] is None:
                continue
            random, reference = sides[0], sides[1]
            one, usual = (each.sampled(SOURCE_ENTROPY, evidence.draws) for each in (random, reference))
            spread, usual_spread = (_spread(each, evidence) for each in (random, reference))
            tally.add(Place(dataset), tally.above(one, usual, "higher"), tally.below(spread, usual_spread, "more even"))
            details.append(f"{dataset} {one.value:.2f} against {usual.value:.2f}")
        return _finding(tally, details, "no model was analysed with random prefixes")

    return test


def _spread(curves: Curves, evidence: Evidence) -> Sampled:
    rows = curves.mean(SOURCE_ENTROPY)[None, 1:], curves.samples(SOURCE_ENTROPY, evidence.draws)[:, 1:]
    return Sampled(float(rows[0].std(axis=1)[0]), rows[1].std(axis=1))


def changes_most(evidence: Evidence) -> Finding:
    """V12: minimum risk changes the source share more than either word dropout, with own prefixes."""
    tally, details = evidence.tally(), []
    for dataset in evidence.datasets:
        models = _others(evidence, dataset, OWN)
        base = evidence.of_base(dataset, OWN, evidence.alphas[0])
        if base is None or MINIMUM_RISK not in models:
            continue
        away = {name: _distance(curves, base, evidence) for name, curves in models.items()}
        for name in (SOURCE_DROPOUT, TARGET_DROPOUT):
            if name in away:
                tally.add(Place(dataset, what=_short(name)), tally.above(away[MINIMUM_RISK], away[name]))
        details.append(f"{dataset} " + ", ".join(f"{_short(name)} {each.value:.3f}" for name, each in away.items()))
    return _finding(tally, details, "the model of minimum risk was not analysed with its own prefixes")


def _distance(one: Curves, other: Curves, evidence: Evidence) -> Sampled:
    places = slice(1, min(one.positions, other.positions))
    means = np.abs(one.mean(SOURCE)[places] - other.mean(SOURCE)[places])
    samples = np.abs(one.samples(SOURCE, evidence.draws)[:, places] - other.samples(SOURCE, evidence.draws)[:, places])
    return Sampled(float(means.mean()), samples.mean(axis=1))


def compared_models(
    prefix: str, quantity: str, pairs: Sequence[tuple[str, str]], more: bool
) -> Callable[[Evidence], Finding]:
    """Returns the test that of each pair of models the first has the larger (or smaller) mean (V13 to V17)."""

    def test(evidence: Evidence) -> Finding:
        tally, details = evidence.tally(), []
        for dataset in evidence.datasets:
            models = _others(evidence, dataset, prefix)
            base = evidence.of_base(dataset, prefix, evidence.alphas[0])
            if base is not None:
                models[""] = base
            means = {name: curves.sampled(quantity, evidence.draws) for name, curves in models.items()}
            for one, other in pairs:
                comparison = (tally.above if more else tally.below)(means.get(one), means.get(other))
                tally.add(Place(dataset, what=f"{_short(one)}, {_short(other)}"), comparison)
            if means:
                details.append(
                    f"{dataset} " + ", ".join(f"{_short(name)} {each.value:.3f}" for name, each in means.items())
                )
        return _finding(tally, details, "models with other objectives were not trained")

    return test


def _others(evidence: Evidence, dataset: str, prefix: str) -> dict[str, Curves]:
    names = (SOURCE_DROPOUT, TARGET_DROPOUT, MINIMUM_RISK)
    keys = {name: Key(dataset, name, prefix, evidence.alphas[0]) for name in names}
    return {name: evidence.curves[key] for name, key in keys.items() if key in evidence.curves}


def _short(model: str) -> str:
    return model.removeprefix("voita_").replace("_", " ") or "plain"


def _alpha(evidence: Evidence, alpha: float | None) -> float:
    return evidence.alphas[0] if alpha is None else alpha


def _finding(tally: Tally, details: Sequence[str], missing: str) -> Finding:
    if not tally.cases:
        return Finding(remark=missing)
    return counted_cases(tally, details="; ".join(details))


def single_model_tests(alpha: float | None = None) -> dict[str, Callable[[Evidence], Finding]]:
    """Returns the tests of V01 to V11 with one share of positive parts; by default that of the claims."""
    return {
        "V01": of_one_model(along(SOURCE, slice(1, -1), below=-0.5), alpha),
        "V02": of_one_model(end_takes_little, alpha),
        "V03": of_one_model(along(INFLUENCE, slice(0, -1), below=0.0), alpha),
        "V04": of_one_model(widest_after_the_middle, alpha),
        "V05": of_one_model(end_looks_widely, alpha),
        "V06": of_one_model(along(TARGET_ENTROPY, slice(1, None), above=0.8), alpha),
        "V07": of_prefixes(OWN, SOURCE, True, "all", alpha),
        "V08": of_prefixes(OWN, SOURCE_ENTROPY, False, "all", alpha),
        "V09": of_prefixes(OTHERS, SOURCE, True, "first quarter", alpha),
        "V10": of_prefixes(OTHERS, SOURCE, False, "last third", alpha),
        "V11": wide_and_even(alpha),
    }


_RIVALS = (SOURCE_DROPOUT, TARGET_DROPOUT, "")
TESTS: dict[str, Callable[[Evidence], Finding]] = {
    **single_model_tests(),
    "V12": changes_most,
    "V13": compared_models(OWN, SOURCE_ENTROPY, [(TARGET_DROPOUT, "")], more=False),
    "V14": compared_models(OTHERS, SOURCE, [(MINIMUM_RISK, other) for other in _RIVALS], more=True),
    "V15": compared_models(OTHERS, SOURCE_ENTROPY, [(MINIMUM_RISK, other) for other in _RIVALS], more=False),
    "V16": compared_models(
        OTHERS,
        SOURCE,
        [pair for name in _RIVALS[:2] for pair in ((name, ""), (MINIMUM_RISK, name))],
        more=True,
    ),
    "V17": compared_models(OTHERS, SOURCE, [(TARGET_DROPOUT, SOURCE_DROPOUT)], more=True),
}
