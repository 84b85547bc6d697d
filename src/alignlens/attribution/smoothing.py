"""SmoothGrad (Smilkov et al. 2017): any gradient method, averaged over copies with noise on the source embeddings.

The gradient is taken at the noisy point, and multiplied with the clean embedding where a method multiplies. Two orders
circulate: normalise each copy's row and then average, as in the code released with Ding et al. 2019, or average the raw
scores and then normalise. They differ: in the first every copy has the same weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alignlens.attribution.spec import NOISE, one_of

if TYPE_CHECKING:
    from alignlens.attribution.spec import MethodSpec, Values

ORDER = "order"
_MEAN_FIRST = "mean_then_"
_ORDER = (
    "whether every copy is normalised before the mean is taken, as in the released code, or raw scores are averaged "
    "first"
)


def smoothed(spec: MethodSpec, name: str, step: str, *, rank: int, aliases: tuple[str, ...] = ()) -> MethodSpec:
    """Returns the smoothed version of a gradient method; ``step`` is what makes a row of raw scores positive."""
    return replace(
        spec,
        name=name,
        summary=f"{spec.summary}, averaged over noisy copies",
        paper=f"{spec.paper}; Smilkov et al. 2017",
        equation=f"mean over copies of {spec.equation}",
        cost="n forward, n J backward",
        parameters={
            **spec.parameters,
            **NOISE,
            ORDER: one_of(f"{step}_then_mean", f"{_MEAN_FIRST}{step}", about=_ORDER),
        },
        rank=rank,
        aliases=aliases,
    )


def averages_raw(values: Values) -> bool:
    """Returns whether raw scores are averaged before rows are normalised."""
    return str(values.get(ORDER, "")).startswith(_MEAN_FIRST)
