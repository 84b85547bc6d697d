"""Attention weights read as an alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.layers import member
from alignlens.attribution.spec import HEAD, LABEL, STEP, MethodSpec, TracedAttention, place

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.models.contract import Attention


def of_layer(attention: Attention, head: str | int) -> Tensor:
    """Returns the weights (batch, query, key) of one head, or their mean over heads; rows sum to one."""
    weights = attention.shares
    return weights.mean(1) if head == "mean" else member(weights.unbind(1), head, "head")


_LAYER = (
    "`paper`: the last of a Transformer, the mean of all of FConv, the only one of an LSTM; `mean` of all; a number "
    "picks one, from 0; negative numbers count from the last"
)

SPEC = MethodSpec(
    name="attention",
    summary="weights of the attention to the source, of the layer used in the papers or any layer and head",
    paper="Bahdanau et al. 2015; layers as in Ding et al. 2019",
    equation="a[j,i]",
    cost="1 forward",
    passes=TracedAttention(of_layer),
    parameters={"layer": place("paper", "mean", about=_LAYER), **HEAD, **STEP, **LABEL},
    rank=10,
)
