"""The tests of the claims about encoders, K01 to K07 and K15, on the statistics of one encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.claims import Finding
from alignlens.studies.kobayashi2020.encoder_tables import is_bert_base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.studies.kobayashi2020.encoder_tables import Statistics

CLS, SEP, PUNCTUATION, OTHER = "[CLS]", "[SEP]", "punctuation", "other"
SPECIAL = (CLS, SEP, PUNCTUATION)


def judge_encoder(statistics: Statistics) -> dict[str, Finding]:
    """Returns the finding on every claim about encoders."""
    return {name: rule(statistics) for name, rule in RULES.items()}


def inputs_vary_less(statistics: Statistics) -> Finding:
    """K01: transformed vectors vary more in length than inputs do."""
    spread = statistics["dispersion"]
    transformed, inputs = (spread[name]["average"]["cv"] for name in ("transformed", "inputs"))
    numbers = f"mean CV {transformed:.2f} of ‖f(x)‖, {inputs:.2f} of ‖x‖"
    return _finding(statistics, transformed > inputs, numbers)


def special_tokens_get_weight(statistics: Statistics) -> Finding:
    """K02: special tokens and punctuation get more weight than their share of the text."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    weights, tokens = _shares(statistics, "weights", SPECIAL), _token_share(statistics, SPECIAL)
    above = sum(weight > tokens for weight in weights)
    numbers = f"{above} of {len(weights)} layers above the tokens' {tokens:.1%}; weights {_percents(weights)}"
    return _finding(statistics, 2 * above > len(weights), numbers)


def special_tokens_give_little(statistics: Statistics) -> Finding:
    """K03: by norms their share is smaller than by weights; that of separators alone as well."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    below, passed = [], True
    for categories in (SPECIAL, (SEP,)):
        pairs = zip(*(_shares(statistics, kind, categories) for kind in ("norms", "weights")), strict=True)
        held = [norm < weight for norm, weight in pairs]
        passed = passed and 2 * sum(held) > len(held)
        below.append(f"{sum(held)} of {len(held)} layers")
    return _finding(statistics, passed, f"norms below weights: together {below[0]}, {SEP} alone {below[1]}")


def weight_and_norm_cancel(statistics: Statistics) -> Finding:
    """K04: on special tokens and punctuation a larger weight goes with a smaller norm."""
    if missing := _missing(statistics, SPECIAL):
        return missing
    rhos = _rhos(statistics, SPECIAL)
    return _finding(statistics, all(rho < -0.2 for rho in rhos), _listed(SPECIAL, rhos), _sampled(statistics, SPECIAL))


def separators_cancel_most(statistics: Statistics) -> Finding:
    """K05: the rank correlation is lowest on separators, and near zero on ordinary tokens."""
    categories = (*SPECIAL, OTHER)
    if missing := _missing(statistics, categories):
        return missing
    rhos = _rhos(statistics, categories)
    passed = rhos[1] == min(rhos) and abs(rhos[-1]) < 0.15
    return _finding(statistics, passed, _listed(categories, rhos), _sampled(statistics, categories))


def frequency_says_nothing_of_weight(statistics: Statistics) -> Finding:
    """K06: frequency and weight are hardly correlated."""
    return _frequency(statistics, "rho_weights", "weight", lambda rho: abs(rho) < 0.2)


def frequent_tokens_are_short(statistics: Statistics) -> Finding:
    """K07: frequent tokens have small norms."""
    return _frequency(statistics, "rho_norms", "‖f(x)‖", lambda rho: rho > 0.5)


def output_is_the_sum(statistics: Statistics) -> Finding:
    """K15: weighted vectors and bias add up to what the module gives."""
    error = statistics["identity"]["largest_error"]
    return _finding(statistics, error < 1e-4, f"largest error {error:.1e}")


RULES: dict[str, Callable[[Statistics], Finding]] = {
    "K01": inputs_vary_less,
    "K02": special_tokens_get_weight,
    "K03": special_tokens_give_little,
    "K04": weight_and_norm_cancel,
    "K05": separators_cancel_most,
    "K06": frequency_says_nothing_of_weight,
    "K07": frequent_tokens_are_short,
    "K15": output_is_the_sum,
}


def _finding(statistics: Statistics, passed: bool | None, numbers: str, *remarks: str) -> Finding:
    transfer = "" if is_bert_base(statistics) else f"transfer test: {statistics['facts']['encoder']}"
    return Finding(passed, numbers, remark="; ".join(part for part in (transfer, *remarks) if part))


def _missing(statistics: Statistics, categories: Sequence[str]) -> Finding | None:
    """Returns the finding for an encoder or a text without some of the categories."""
    unknown = [name for name in categories if name not in statistics["categories"]]
    if unknown:
        return _finding(statistics, None, "", f"the encoder has no {' and no '.join(unknown)}")
    absent = [name for name in categories if statistics["correlations"][name]["rho"] is None]
    return _finding(statistics, None, "", f"too few tokens of {', '.join(absent)} in the text") if absent else None


def _shares(statistics: Statistics, kind: str, categories: Sequence[str]) -> list[float]:
    """Returns the share of some categories together, by layer."""
    found = statistics["shares"]["by_layer"][kind]
    return [sum(values) for values in zip(*(found[name] for name in categories), strict=True)]


def _token_share(statistics: Statistics, categories: Sequence[str]) -> float:
    return float(sum(statistics["shares"]["tokens"][name] for name in categories))


def _rhos(statistics: Statistics, categories: Sequence[str]) -> list[float]:
    return [statistics["correlations"][name]["rho"] for name in categories]


def _sampled(statistics: Statistics, categories: Sequence[str]) -> str:
    """Returns which rank correlations are over some of the sequences only."""
    found = {name: statistics["correlations"][name] for name in categories}
    told = [
        f"{name} over {item['sequences_used']} of {item['sequences']} sequences"
        for name, item in found.items()
        if not item["exact"]
    ]
    return ", ".join(told)


def _frequency(statistics: Statistics, name: str, what: str, holds: Callable[[float], bool]) -> Finding:
    found = statistics["frequency"]
    if statistics["facts"]["frequency"] is None or found[name] is None:
        return _finding(statistics, None, "", "no frequency ranks of this vocabulary")
    rho = found[name]
    numbers = f"rank correlation of frequency rank and {what} {rho:.2f} ({found['occurrences']} tokens)"
    return _finding(statistics, holds(rho), numbers, f"ranks: {statistics['facts']['frequency']}")


def _listed(categories: Sequence[str], rhos: Sequence[float]) -> str:
    return ", ".join(f"{name} {rho:.2f}" for name, rho in zip(categories, rhos, strict=True))


def _percents(shares: Sequence[float]) -> str:
    return f"{min(shares):.1%} to {max(shares):.1%}"
