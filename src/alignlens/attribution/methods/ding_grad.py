"""Word saliency of Ding et al. 2019: gradient times embedding, its sign kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.methods.spec import GRADIENT, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

SPEC = MethodSpec(
    name="ding_grad",
    summary="gradient times embedding, positive part",
    paper="Ding et al. 2019, equation 3",
    equation="max(0, e_i . d log p(t_j) / d e_i)",
    cost="1 forward, J backward",
    parameters=GRADIENT,
)


def score(gradient: Tensor, embeddings: Tensor) -> Tensor:
    """Returns (..., source): how much the output grows with the size of each embedding, (..., source, dim) both."""
    return (gradient * embeddings).sum(-1)


def row(scores: Tensor) -> Tensor:
    """Returns what may be normalised: what speaks against the output counts as nothing."""
    return scores.clamp(min=0)
