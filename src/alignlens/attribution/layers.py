"""Which layer and which decoder step are read for a target piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

Item = TypeVar("Item")


def read(
    layers: int, of_layer: Callable[[int], Tensor], labels_mask: Tensor, paper_layer: str, layer: str | int, step: str
) -> Tensor:
    """Returns (row, target, source) of what ``of_layer`` gives for the number of a layer.

    ``paper_layer`` is what ``layer="paper"`` means for the architecture: ``last`` or ``mean``; ``middle`` is the third
    of six. With step ``out`` row j belongs to the step that predicts piece j; with ``in`` to the step that reads it,
    the next one, which the end symbol does not have: its row stays. ``labels_mask`` (row, target) tells pieces and end
    symbol from padding.
    """
    if layer == "paper":
        layer = -1 if paper_layer == "last" else "mean"
    elif layer == "middle":
        layer = (layers - 1) // 2
    chosen = range(layers) if layer == "mean" else [member(range(layers), layer, "layer")]
    by_layer = [of_layer(number) for number in chosen]
    scores = sum(by_layer[1:], by_layer[0]) / len(by_layer)
    if step == "in":
        has_next = labels_mask.roll(-1, 1)
        has_next[:, -1] = False
        scores = scores.roll(-1, 1).where(has_next[..., None], scores)
    return scores


def member(items: Sequence[Item], number: str | int, what: str) -> Item:
    """Returns the layer or head with a number; negative ones count from the last."""
    if not -len(items) <= int(number) < len(items):
        raise ConfigError(f"this model has no {what} {number}: it has {len(items)}, counted from 0.")
    return items[int(number)]
