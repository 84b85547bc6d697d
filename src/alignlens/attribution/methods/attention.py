"""Attention weights read as an alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.methods.spec import LABEL, MethodSpec, one_of, place
from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

PARAMETERS = {"layer": place("paper", "mean"), "head": place("mean"), "step": one_of("out", "in"), **LABEL}

SPEC = MethodSpec(
    name="attention",
    summary="weights of the attention to the source; the papers' layer, or any layer and head",
    paper="Bahdanau et al. 2015; layers as in Ding et al. 2019",
    equation="a[j,i]",
    cost="1 forward",
    parameters=PARAMETERS,
)


def weights_of(
    cross: Sequence[Tensor], labels_mask: Tensor, paper_layer: str, layer: str | int, head: str | int, step: str
) -> Tensor:
    """Returns (row, target, source) of the weights (row, head, target, source) of every layer.

    ``paper_layer`` is what ``layer="paper"`` means for the architecture: ``last`` or ``mean``. With step ``out`` row j
    belongs to the step that predicts piece j; with ``in`` to the step that reads it, the next one, which the end
    symbol does not have: its row stays. ``labels_mask`` (row, target) tells pieces and end symbol from padding.
    """
    if layer == "paper":
        layer = -1 if paper_layer == "last" else "mean"
    chosen = cross if layer == "mean" else [_member(cross, layer, "layer")]
    by_layer = [_head(weights, head) for weights in chosen]
    weights = sum(by_layer[1:], by_layer[0]) / len(by_layer)
    if step == "in":
        has_next = labels_mask.roll(-1, 1)
        has_next[:, -1] = False
        weights = weights.roll(-1, 1).where(has_next[..., None], weights)
    return weights


def _head(weights: Tensor, head: str | int) -> Tensor:
    return weights.mean(1) if head == "mean" else _member(weights.unbind(1), head, "head")


def _member(items: Sequence[Tensor], number: str | int, what: str) -> Tensor:
    if not -len(items) <= int(number) < len(items):
        raise ConfigError(f"attention: this model has no {what} {number}; it has {len(items)}, counted from 0.")
    return items[int(number)]
