"""Plain gradient times input (Delta of Snell et al. 2021): nothing is clipped, and rows are not normalised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import GRADIENT, GradientPasses, MethodSpec, Reading

if TYPE_CHECKING:
    from alignlens.attribution.spec import Values


def reading(values: Values) -> Reading:
    """Returns gradient times embedding; positive values support the output."""
    return Reading()


SPEC = MethodSpec(
    name="grad_input",
    summary="gradient times embedding with its sign, rows not normalised",
    paper="Snell et al. 2021, Delta",
    equation="e_i . d log p(t_j) / d e_i",
    cost="1 forward, J backward",
    passes=GradientPasses(reading, normalised=False),
    parameters=GRADIENT,
    distribution=False,
    signed=True,
    rank=80,
)
