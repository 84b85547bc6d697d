"""Norms of what attention adds up (Kobayashi et al. 2020): a weight counts as much as the vector it is given to.

An attention layer gives ``sum over heads h and keys i of a[h,j,i] f[h](x_i)``, plus its output bias, where ``f`` is the
value projection with its bias, then the head's rows of the output projection. A head's score of a key is the norm of
its summand; a layer's score is the norm of the sum over heads, in which heads can cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.layers import member
from alignlens.attribution.spec import LAYER, STEP, MethodSpec, TracedAttention, place

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.models.contract import Attention


def transformed(attention: Attention) -> Tensor:
    """Returns f(x) of every head and key, (batch, head, key, dim)."""
    batch, heads, keys, _ = attention.values.shape
    return _transformed(attention).view(heads, batch, keys, -1).transpose(0, 1)


def _transformed(attention: Attention) -> Tensor:
    """Returns the same as (head, batch x key, dim): one product per head, where batches outside would make many."""
    return attention.values.transpose(0, 1).flatten(1, 2).bmm(attention.projection)


def of_heads(attention: Attention) -> Tensor:
    """Returns the norms of what every head adds, (batch, head, query, key)."""
    sizes: Tensor = transformed(attention).norm(dim=-1)
    return attention.weights * sizes[:, :, None]


def of_layer(attention: Attention, head: str | int = "sum") -> Tensor:
    """Returns the norms (batch, query, key) of what one head adds, or of the sum over heads.

    The square of the latter is ``a' G a`` with the weights ``a`` of all heads and the products ``G`` of the vectors of
    a key with each other: no vector is ever made for a pair of query and key. Where heads cancel, rounding leaves up to
    a thousandth of what they would have added without.
    """
    if head != "sum":
        member(range(attention.weights.shape[1]), head, "head")
        return of_heads(attention)[:, int(head)]
    batch, heads, queries, keys = attention.weights.shape
    vectors = _transformed(attention).transpose(0, 1)  # (batch x key, head, dim)
    products = vectors @ vectors.transpose(1, 2)
    weights = attention.weights.permute(0, 3, 2, 1).reshape(batch * keys, queries, heads)
    squares = ((weights @ products) * weights).sum(-1)
    return squares.clamp_(min=0).sqrt_().view(batch, keys, queries).transpose(1, 2)


SPEC = MethodSpec(
    name="norms",
    summary="norms of the weighted vectors that attention to the source adds up, of a layer or one head",
    paper="Kobayashi et al. 2020, equations 3 and 4",
    equation="length of the sum over h of a[h,j,i] f_h(x_i)",
    cost="1 forward",
    passes=TracedAttention(of_layer),
    parameters={
        **LAYER,
        "head": place(
            "sum", about="`sum`: the length of the sum over all heads, not the sum of their lengths; or one head"
        ),
        **STEP,
    },
    distribution=False,
    rank=30,
)
