"""The saliency after Li et al. 2016, averaged over noisy copies."""

from __future__ import annotations

from alignlens.attribution.methods import li_grad
from alignlens.attribution.smoothing import smoothed

SPEC = smoothed(li_grad.SPEC, "li_smoothgrad", "normalise", rank=50)
