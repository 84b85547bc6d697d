"""First-derivative saliency after Li et al. 2016, in the two readings that circulate.

``mean_abs`` is the mean absolute entry of the gradient (equation 4 of Ding et al. 2019); ``abs_dot`` the absolute value
of gradient times embedding, as in the revision of their code that the experiments name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import GRADIENT, GradientPasses, MethodSpec, Reading, one_of

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.spec import Values


def mean_abs(gradient: Tensor, embeddings: Tensor) -> Tensor:
    """Returns (..., source) of gradients (..., source, dim)."""
    return gradient.abs().mean(-1)


def absolute(product: Tensor) -> Tensor:
    """Returns gradient times embedding without its sign."""
    return product.abs()


def reading(values: Values) -> Reading:
    """Returns the requested reading; both are positive already."""
    return Reading(mean_abs) if values["reading"] == "mean_abs" else Reading(raw=absolute)


_READING = (
    "`mean_abs`: the printed equation; `abs_dot`: the code released by Ding et al., at the revision that the "
    "experiments name"
)

SPEC = MethodSpec(
    name="li_grad",
    summary="size of the gradient, without sign",
    paper="Li et al. 2016; Ding et al. 2019, equation 4",
    equation="mean over d of abs(d log p(t_j) / d e_id), or abs(e_i . d log p(t_j) / d e_i)",
    cost="1 forward, J backward",
    passes=GradientPasses(reading),
    parameters={"reading": one_of("mean_abs", "abs_dot", about=_READING), **GRADIENT},
    rank=40,
)
