"""Word saliency of Ding et al. 2019: gradient times embedding, its sign kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import GRADIENT, GradientPasses, MethodSpec, Reading

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.spec import Values


def row(scores: Tensor) -> Tensor:
    """Returns the positive part, which can be normalised: evidence against the output counts as zero."""
    return scores.clamp(min=0)


def reading(values: Values) -> Reading:
    """Returns gradient times embedding: how much the output grows with the size of each embedding."""
    return Reading(row=row)


SPEC = MethodSpec(
    name="ding_grad",
    summary="gradient times embedding, positive part",
    paper="Ding et al. 2019, equation 3",
    equation="max(0, e_i . d log p(t_j) / d e_i)",
    cost="1 forward, J backward",
    passes=GradientPasses(reading),
    parameters=GRADIENT,
    aliases=("grad",),
    rank=60,
)
