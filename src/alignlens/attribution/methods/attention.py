"""Attention weights read as an alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.layers import member
from alignlens.attribution.spec import LABEL, MethodSpec, TracedAttention, one_of, place

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.models.contract import Attention


def of_layer(attention: Attention, head: str | int) -> Tensor:
    """Returns the weights (batch, query, key) of one head, or their mean over heads; rows sum to one."""
    weights = attention.shares
    return weights.mean(1) if head == "mean" else member(weights.unbind(1), head, "head")


SPEC = MethodSpec(
    name="attention",
    summary="weights of the attention to the source, of the layer used in the papers or any layer and head",
    paper="Bahdanau et al. 2015; layers as in Ding et al. 2019",
    equation="a[j,i]",
    cost="1 forward",
    passes=TracedAttention(of_layer),
    parameters={"layer": place("paper", "mean"), "head": place("mean"), "step": one_of("out", "in"), **LABEL},
    rank=10,
)
