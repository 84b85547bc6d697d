"""The alpha-beta rule inside attention, o = sum over keys j of a_j v_j with a = f s, s = softmax(e) and e_j = q . k_j.

The factors f are one but in calibrated attention, and always taken as given, like a gate.

    taylor     all of it is one function of q, k and v, as released: each z is a derivative times its input
    softmax    three layers, as the paper describes it: the product a v, the softmax, the product q k. A product gives
               both sides the same; of the softmax the derivative is taken
    constant   the weights are taken as given, so that values get everything

Derivatives of ``taylor``, with u_j = f_j v_j - o: d o_c / d v_jc = a_j, d o_c / d k_jd = s_j q_d u_jc, and with respect
to q_d the sum of s_j k_jd u_jc over j. Signs of products are products of signs, so that nothing of the size query x key
x width x width is made; for q the sum comes before the sign, which needs a square matrix for every query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from alignlens.attribution.relevance.rules import (
    EPSILON,
    OfAttention,
    by_head,
    gathered,
    of_values_alone,
    part,
    side_by_side,
    sum_of,
)
from alignlens.models.contract import to_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alignlens.attribution.relevance.alpha_beta import AlphaBeta
    from alignlens.attribution.relevance.rules import Attended


class _Side(NamedTuple):
    """All that has one sign and speaks for the outputs of a head."""

    share: float
    sign: int
    values: Tensor  # (row, head, key, value width): that part of v
    # (row, head, query, 2 keys, value width): the part of u that goes with positive products of q and k, and the other
    distances: Tensor
    square: Tensor  # (row, head, query, width, value width): that part of what q gives
    total: Tensor  # (row, head, query, value width): sum of everything


def taylor(rules: AlphaBeta, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
    """Returns the relevance of queries, keys and values of one function."""
    given, weights = by_head(relevance, attended.softmax.shape[1]).contiguous(), attended.weights
    sides = list(_sides(rules, attended))
    scales = [side.share / (side.total + side.sign * EPSILON) for side in sides]
    kept = sum_of(scale * side.total for scale, side in zip(scales, sides, strict=True))
    arrived, passed = (given @ torch.stack((torch.ones_like(kept), kept), -1)).unbind(-1)
    given = given * rules.handed_on(kind, arrived, passed)[..., None]
    ratios = [given * scale[..., None, :] for scale in scales]
    both = list(zip(ratios, sides, strict=True))
    twice = attended.softmax.repeat(1, 1, 1, 2)[:, :, :, None]
    met = sum_of((ratio @ side.distances.transpose(-1, -2)).mul_(twice) for ratio, side in both)
    return OfAttention(
        side_by_side(sum_of(ratio @ side.square.transpose(-1, -2) for ratio, side in both)),
        side_by_side(_of_keys(met, attended)),
        side_by_side(sum_of(gathered(weights, ratio).mul_(side.values[:, :, :, None]) for ratio, side in both)),
    )


def _sides(rules: AlphaBeta, attended: Attended) -> Iterator[_Side]:
    queries, keys, values, softmax, factors, _ = attended
    weights = attended.weights
    products = torch.cat(_products(queries, keys), -1).mul_(softmax.repeat(1, 1, 1, 2))
    scaled = values[:, :, None] if factors is None else factors[..., None] * values[:, :, None]
    distance = scaled - (weights @ values)[:, :, :, None]
    square = queries[..., None] * ((softmax[..., None] * keys[:, :, None]).transpose(-1, -2) @ distance)
    for share, sign in rules.parts():
        of_values, of_square = part(values, sign), part(square, sign)
        distances = torch.cat((part(distance, sign), part(distance, -sign)), -2)
        total = weights @ of_values + of_square.sum(-2) + (products[..., None, :] @ distances)[..., 0, :]
        yield _Side(share, sign, of_values, distances, of_square, total)


def _of_keys(met: Tensor, attended: Attended) -> Tensor:
    """Returns (row, head, key, step, width) of (row, head, query, step, 2 keys): what keys get before q and k.

    Positive entries of a key take what the first has of positive entries of queries, and the other of negative ones;
    negative entries the other way round.
    """
    rows, heads, queries, steps, twice = met.shape
    for_, against = _signs(attended.queries)
    halves = torch.cat((for_, against), -1), torch.cat((against, for_), -1)
    factors = torch.cat(halves, -2)  # (row, head, 2 queries, 2 width)
    turned = met.view(rows, heads, queries, steps, 2, twice // 2).permute(0, 1, 5, 3, 4, 2)
    products = (turned.reshape(rows, heads, -1, 2 * queries) @ factors).view(rows, heads, twice // 2, steps, -1)
    key_for, key_against = _signs(attended.keys)
    first, second = products.chunk(2, -1)
    return first.mul_(key_for[:, :, :, None]).add_(second.mul_(key_against[:, :, :, None]))


def softmax(rules: AlphaBeta, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
    """Returns the relevance of queries, keys and values, propagated through three layers."""
    given = by_head(relevance, attended.softmax.shape[1])
    of_weights, of_values = _weighted_sum(rules, kind, attended, given, both=True)
    of_scores = _softmax(rules, kind, attended, of_weights)
    of_queries, of_keys = _scores(rules, kind, attended, of_scores)
    return OfAttention(*map(side_by_side, (of_queries, of_keys, of_values)))


def constant(rules: AlphaBeta, kind: str, attended: Attended, relevance: Tensor) -> OfAttention:
    """Returns the relevance of the values; queries and keys have none."""
    given = by_head(relevance, attended.softmax.shape[1])
    _, of_values = _weighted_sum(rules, kind, attended, given, both=False)
    return of_values_alone(attended, of_values)


def _weighted_sum(rules: AlphaBeta, kind: str, attended: Attended, given: Tensor, both: bool) -> tuple[Tensor, Tensor]:
    """Returns the relevance of weights (row, head, query, step, key) and values; of values alone unless ``both``."""
    weights, times = attended.weights, 2 if both else 1
    signed = [(share, sign, part(attended.values, sign)) for share, sign in rules.parts()]
    totals = [times * (weights @ values) for _, _, values in signed]
    ratios = [
        share * given / (total + sign * EPSILON)[..., None, :]
        for (share, sign, _), total in zip(signed, totals, strict=True)
    ]
    passed = sum_of(ratio @ total[..., None] for ratio, total in zip(ratios, totals, strict=True))
    factor = rules.handed_on(kind, given.sum(-1), passed[..., 0])[..., None]
    of_weights, of_values = given.new_zeros(()), given.new_zeros(())
    for ratio, (_, _, values) in zip(ratios, signed, strict=True):
        ratio = ratio * factor
        of_values = of_values + gathered(weights, ratio) * values[:, :, :, None]
        if both:
            of_weights = of_weights + weights[:, :, :, None] * (ratio @ values.transpose(-1, -2)[:, :, None])
    return of_weights, of_values


def _softmax(rules: AlphaBeta, kind: str, attended: Attended, given: Tensor) -> Tensor:
    """Returns the relevance of scores of that of weights, both (row, head, query, step, key).

    Given factors hand on what they get.
    """
    weights = attended.softmax
    scores = attended.queries @ attended.keys.transpose(-1, -2)
    even = to_one((weights > 0).to(weights.dtype))
    untouched = (
        even if attended.prior is None else to_one(even * attended.prior)
    )  # what it gives where all scores are zero
    z = -weights[..., None] * (weights * scores)[..., None, :]
    z.diagonal(dim1=-2, dim2=-1).add_(weights * scores)
    if rules.settings.bias == "printed":
        return rules.shares(kind, z, given, untouched)
    return rules.shares(kind, z + untouched[..., None] * even[..., None, :], given)


def _scores(rules: AlphaBeta, kind: str, attended: Attended, given: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the relevance of queries and keys of that of their products (row, head, query, step, key)."""
    (query_for, query_against), (key_for, key_against) = _signs(attended.queries), _signs(attended.keys)
    products = dict(zip((1, -1), _products(attended.queries, attended.keys), strict=True))
    ratios = {
        sign: share * given / (2 * products[sign] + sign * EPSILON)[:, :, :, None] for share, sign in rules.parts()
    }
    passed = sum_of((ratio * 2 * products[sign][:, :, :, None]).sum(-1) for sign, ratio in ratios.items())
    factor = rules.handed_on(kind, given.sum(-1), passed)[..., None]
    of_queries, of_keys = given.new_zeros(()), given.new_zeros(())
    for sign, ratio in ratios.items():
        ratio = ratio * factor
        for query, key in ((query_for, (key_for, key_against)), (query_against, (key_against, key_for))):
            met = key[0] if sign > 0 else key[1]
            of_queries = of_queries + query[:, :, :, None] * (ratio @ met[:, :, None])
            of_keys = of_keys + met[:, :, :, None] * _met(ratio, query)
    return of_queries, of_keys


def _signs(values: Tensor) -> tuple[Tensor, Tensor]:
    return part(values, 1), part(values, -1)


def _products(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the positive and the negative part of all products of entries, summed: (row, head, query, key) each."""
    (query_for, query_against), (key_for, key_against) = _signs(queries), _signs(keys.transpose(-1, -2))
    return (
        query_for @ key_for + query_against @ key_against,
        query_for @ key_against + query_against @ key_for,
    )


def _met(scores: Tensor, queries: Tensor) -> Tensor:
    """Returns (row, head, key, step, width) of scores (row, head, query, step, key) and queries (.., query, width)."""
    steps, keys = scores.shape[3:]
    summed = scores.permute(0, 1, 4, 3, 2).flatten(2, 3) @ queries
    return summed.view(*summed.shape[:2], keys, steps, -1)


ATTENTION_RULES: dict[str, Callable[[AlphaBeta, str, Attended, Tensor], OfAttention]] = {
    "taylor": taylor,
    "softmax": softmax,
    "constant": constant,
}
