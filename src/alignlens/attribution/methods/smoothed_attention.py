"""Attention weights, averaged over copies of the source with noise on its embeddings."""

from __future__ import annotations

from alignlens.attribution.methods import attention
from alignlens.attribution.spec import NOISE, MethodSpec

SPEC = MethodSpec(
    name="smoothed_attention",
    summary="attention averaged over noisy copies of the source embeddings",
    paper="Ding et al. 2019",
    equation="mean over copies of a[j,i]",
    cost="n forward",
    passes=attention.SPEC.passes,
    parameters={**attention.SPEC.parameters, **NOISE},
    rank=20,
)
