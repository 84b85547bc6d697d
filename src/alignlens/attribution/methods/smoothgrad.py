"""SmoothGrad (Smilkov et al. 2017): any gradient method, averaged over copies with noise on the source embeddings.

The gradient is taken at the noisy point, and multiplied with the clean embedding where a method multiplies. Two orders
circulate: normalise each copy's row and then average, as in the code released with Ding et al. 2019, or average the raw
scores and then normalise. They differ: in the first every copy has the same weight.
"""

from __future__ import annotations

from alignlens.attribution.methods import ding_grad, li_grad
from alignlens.attribution.methods.spec import NOISE, MethodSpec, one_of

NORMALISED_FIRST = ("clip_then_mean", "normalise_then_mean")


def _smooth(spec: MethodSpec, name: str, orders: tuple[str, str]) -> MethodSpec:
    return MethodSpec(
        name=name,
        summary=f"{spec.summary}, averaged over noisy copies",
        paper=f"{spec.paper}; Smilkov et al. 2017",
        equation=f"mean over copies of {spec.equation}",
        cost="n forward, n J backward",
        parameters={**spec.parameters, **NOISE, "order": one_of(*orders)},
    )


DING = _smooth(ding_grad.SPEC, "ding_smoothgrad", ("clip_then_mean", "mean_then_clip"))
LI = _smooth(li_grad.SPEC, "li_smoothgrad", ("normalise_then_mean", "mean_then_normalise"))
