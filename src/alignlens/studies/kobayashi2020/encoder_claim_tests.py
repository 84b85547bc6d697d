"""The tests of the claims about encoders, K01 to K07 and K15, on the statistics of one encoder.

Its files hold sums over all sequences, of which none can be drawn again: all comparisons are exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alignlens.metrics.sampled import Sampled
from alignlens.studies.claims import Finding, all_of, counted_cases, every, more_than, outcomes, verdict
from alignlens.studies.kobayashi2020.encoder_tables import is_bert_base
from alignlens.studies.tally import HELD, Comparison, Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alignlens.studies.claims import PassRule
    from alignlens.studies.kobayashi2020.encoder_tables import Statistics

CLS, SEP, PUNCTUATION, OTHER = "[CLS]", "[SEP]", "punctuation", "other"
SPECIAL = (CLS, SEP, PUNCTUATION)


def judge_encoder(statistics: Statistics) -> dict[str, Finding]:
    """Returns the finding on every claim about encoders."""
    return {name: rule(statistics) for name, rule in TESTS.items()}


def inputs_vary_less(statistics: Statistics) -> Finding:
    """K01: transformed vectors vary more in length than inputs do."""
    spread = statistics["dispersion"]
    transformed, inputs = (spread[name]["average"]["cv"] for name in ("transformed", "inputs"))
    tally = Tally()
    tally.add(_place(statistics), tally.above(Sampled(transformed), inputs))
    return _finding(statistics, tally, f"mean CV {transformed:.2f} of ‖f(x)‖, {inputs:.2f} of ‖x‖")


def special_tokens_get_weight(statistics: Statistics) -> Finding:
    """K02: special tokens and punctuation get more weight than their share of the text."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    weights, tokens = _shares(statistics, "weights", SPECIAL), _token_share(statistics, SPECIAL)
    tally = Tally()
    for layer, weight in enumerate(weights, start=1):
        tally.add(_place(statistics, layer), tally.above(Sampled(weight), tokens))
    above = f"{tally.counts()[HELD]} of {len(weights)} layers above the tokens' {tokens:.1%}"
    return _finding(statistics, tally, f"{above}; weights {_percents(weights)}", rule=more_than(1 / 2))


def special_tokens_give_little(statistics: Statistics) -> Finding:
    """K03: by norms their share is smaller than by weights; that of separators alone as well."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    together, alone = (_smaller_by_norms(statistics, categories) for categories in (SPECIAL, (SEP,)))
    counts = [f"{tally.counts()[HELD]} of {tally.total} layers" for tally in (together, alone)]
    numbers = f"norms below weights: together {counts[0]}, {SEP} alone {counts[1]}"
    both = all_of(verdict(more_than(1 / 2), outcomes(tally)) for tally in (together, alone))
    return replace(_finding(statistics, together + alone, numbers), verdict=both)


def _smaller_by_norms(statistics: Statistics, categories: Sequence[str]) -> Tally:
    """Returns the layers in which some categories have less of the norms than of the weights."""
    tally = Tally()
    pairs = zip(*(_shares(statistics, kind, categories) for kind in ("norms", "weights")), strict=True)
    for layer, (norm, weight) in enumerate(pairs, start=1):
        tally.add(_place(statistics, layer, " ".join(categories)), tally.below(Sampled(norm), weight))
    return tally


def weight_and_norm_cancel(statistics: Statistics) -> Finding:
    """K04: on special tokens and punctuation a larger weight comes with a smaller norm."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    rhos, tally = _rhos(statistics, SPECIAL), Tally()
    for name, rho in rhos.items():
        tally.add(_place(statistics, what=name), tally.below(Sampled(rho), -0.2))
    return _finding(statistics, tally, _listed(rhos), _sampled(statistics, SPECIAL))


def separators_cancel_most(statistics: Statistics) -> Finding:
    """K05: the rank correlation is lowest on separators, and near zero on ordinary tokens."""
    categories = (*SPECIAL, OTHER)
    if missing := _missing(statistics, categories):
        return missing
    rhos, tally = _rhos(statistics, categories), Tally()
    for name in categories:
        if name != SEP:
            tally.add(_place(statistics, what=f"{SEP} at most {name}"), tally.at_most(Sampled(rhos[SEP]), rhos[name]))
    tally.add(_place(statistics, what=f"{OTHER} near zero"), tally.below(Sampled(abs(rhos[OTHER])), 0.15))
    return _finding(statistics, tally, _listed(rhos), _sampled(statistics, categories))


def frequency_says_nothing_of_weight(statistics: Statistics) -> Finding:
    """K06: frequency and weight are hardly correlated."""
    return _frequency(statistics, "rho_weights", "weight", lambda tally, rho: tally.below(abs(rho), 0.2))


def frequent_tokens_are_short(statistics: Statistics) -> Finding:
    """K07: frequent tokens have small norms."""
    return _frequency(statistics, "rho_norms", "‖f(x)‖", lambda tally, rho: tally.above(rho, 0.5))


def output_is_the_sum(statistics: Statistics) -> Finding:
    """K15: weighted vectors and bias add up to what the module gives."""
    error, tally = statistics["identity"]["largest_error"], Tally()
    tally.add(_place(statistics), tally.below(Sampled(error), 1e-4))
    return _finding(statistics, tally, f"largest error {error:.1e}")


TESTS: dict[str, Callable[[Statistics], Finding]] = {
    "K01": inputs_vary_less,
    "K02": special_tokens_get_weight,
    "K03": special_tokens_give_little,
    "K04": weight_and_norm_cancel,
    "K05": separators_cancel_most,
    "K06": frequency_says_nothing_of_weight,
    "K07": frequent_tokens_are_short,
    "K15": output_is_the_sum,
}


def _place(statistics: Statistics, layer: int | None = None, what: str = "") -> Place:
    return Place(statistics["facts"]["encoder"], "" if layer is None else f"layer {layer}", what)


def _finding(statistics: Statistics, tally: Tally, numbers: str, *remarks: str, rule: PassRule = every) -> Finding:
    transfer = "" if is_bert_base(statistics) else f"transfer test: {statistics['facts']['encoder']}"
    remark = "; ".join(part for part in (transfer, *remarks) if part)
    return counted_cases(tally, rule, numbers=numbers, remark=remark)


def _missing(statistics: Statistics, categories: Sequence[str]) -> Finding | None:
    """Returns the finding for an encoder or a text without some of the categories."""
    unknown = [name for name in categories if name not in statistics["categories"]]
    if unknown:
        return _finding(statistics, Tally(), "", f"the encoder has no {' and no '.join(unknown)}")
    absent = [name for name in categories if statistics["correlations"][name]["rho"] is None]
    return _finding(statistics, Tally(), "", f"too few tokens of {', '.join(absent)} in the text") if absent else None


def _shares(statistics: Statistics, kind: str, categories: Sequence[str]) -> list[float]:
    """Returns the share of some categories together, by layer."""
    by_category = statistics["shares"]["by_layer"][kind]
    return [sum(values) for values in zip(*(by_category[name] for name in categories), strict=True)]


def _token_share(statistics: Statistics, categories: Sequence[str]) -> float:
    return float(sum(statistics["shares"]["tokens"][name] for name in categories))


def _rhos(statistics: Statistics, categories: Sequence[str]) -> dict[str, float]:
    return {name: statistics["correlations"][name]["rho"] for name in categories}


def _sampled(statistics: Statistics, categories: Sequence[str]) -> str:
    """Returns which rank correlations are over some of the sequences only."""
    correlations = {name: statistics["correlations"][name] for name in categories}
    notes = [
        f"{name} over {item['sequences_used']} of {item['sequences']} sequences"
        for name, item in correlations.items()
        if not item["exact"]
    ]
    return ", ".join(notes)


def _frequency(
    statistics: Statistics, name: str, what: str, compared: Callable[[Tally, Sampled], Comparison | None]
) -> Finding:
    frequency = statistics["frequency"]
    if statistics["facts"]["frequency"] is None or frequency[name] is None:
        return _finding(statistics, Tally(), "", "no frequency ranks of this vocabulary")
    rho, tally = frequency[name], Tally()
    tally.add(_place(statistics), compared(tally, Sampled(rho)))
    numbers = f"rank correlation of frequency rank and {what} {rho:.2f} ({frequency['occurrences']} tokens)"
    return _finding(statistics, tally, numbers, f"ranks: {statistics['facts']['frequency']}")


def _listed(rhos: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {rho:.2f}" for name, rho in rhos.items())


def _percents(shares: Sequence[float]) -> str:
    return f"{min(shares):.1%} to {max(shares):.1%}"
