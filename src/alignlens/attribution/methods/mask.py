"""Masks of attention read as an alignment (Lu et al. 2021): where perturbing attention hurts, the source matters.

A mask is near 0 there, so that the score is one minus the mask. A calibrated Transformer has its masks; any other
Transformer has those of mask nets that were trained beside it, while it stayed as it is (``alignlens masks``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.layers import member
from alignlens.attribution.spec import HEAD, LAYER, STEP, MethodSpec, Only, TracedMasks
from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.models.contract import Attention

_LEAST = 2.0**-25
"""Less than single precision tells from nothing beside one. A net that is sure has rows of masks of one, and a row of
scores must have a sum."""


def of_layer(attention: Attention, head: str | int) -> Tensor:
    """Returns 1 - m (batch, query, key) of one head, or its mean over heads."""
    if attention.mask is None:
        raise ConfigError("this model has no masks, and none were given. Train them: alignlens masks --help")
    importance = (1 - attention.mask).clamp(min=_LEAST)
    return importance.mean(1) if head == "mean" else member(importance.unbind(1), head, "head")


SPEC = MethodSpec(
    name="mask",
    summary="how much a mask net would perturb the attention to a source position to hurt the translation",
    paper="Lu et al. 2021, equations 3 to 6; for a trained model, too",
    equation="1 - m[j,i]",
    cost="1 forward, after the mask nets have been trained",
    passes=TracedMasks(of_layer),
    parameters={**LAYER, **HEAD, **STEP},
    distribution=False,
    only=Only(("transformer", "calibrated"), "masks are those of the attention of its layers"),
    rank=35,
)
