"""The saliency of Ding et al. 2019, averaged over noisy copies."""

from __future__ import annotations

from alignlens.attribution.methods import ding_grad
from alignlens.attribution.smoothing import smoothed

SPEC = smoothed(ding_grad.SPEC, "ding_smoothgrad", "clip", rank=70, aliases=("smoothgrad",))
