"""Attention rollout (Abnar and Zuidema 2020), through encoder and decoder of a Transformer.

Every attention layer is taken to hand on ``residual`` (r) of what was there before, and 1 - r of what its weights
(mean over heads) point at. With A the self-attention of encoder layers, B that of decoder layers and C the attention to
the source, all by layer,

    E = (r + (1 - r) A) E                                 from E = 1, over encoder layers
    S = r (r + (1 - r) B) S + (1 - r) C E                 from S = 0, over decoder layers

The paper has the first recursion, for encoders. Rows of S sum to 1 - r^L for L decoder layers; the rest is the prefix,
and the same for every target piece, so that rows are divided by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import Contributions, MethodSpec, Only, OwnPasses, number
from alignlens.io.limits import Limits

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values
    from alignlens.models.contract import Attention


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns shares of the source (row, target, source) that sum to one."""
    from alignlens.attribution.mixing import DecoderMixing, rolled_out
    from alignlens.attribution.rows import check_finite
    from alignlens.models.contract import to_one

    model, residual = inputs.model, float(values["residual"])
    memory = model.encode(inputs.vectors, inputs.source_mask, trace=True)
    decoded = model.decode(memory, inputs.prefix_vectors, trace=True)
    decoder = []
    for own, cross in zip(decoded.own, decoded.cross, strict=True):
        seen = (1 - residual) * cross.shares.mean(1)
        decoder.append(DecoderMixing(_mixed(own, residual), seen, seen.new_full((*seen.shape[:2], 1), residual)))
    shares = rolled_out((_mixed(layer, residual) for layer in memory.attention), decoder).source
    check_finite(shares, "weights")
    inputs.statistics.forward_passes += len(shares)
    return Contributions(to_one(shares))


def _mixed(attention: Attention, residual: float) -> Tensor:
    """Returns what self-attention and the stream past it make every position of, (row, position, position)."""
    import torch

    weights = attention.weights.mean(1)
    stream = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    return torch.lerp(weights, stream.expand_as(weights), residual)


#: The architectures whose layers mix positions by attention alone.
ATTENTIVE = Only(("transformer", "calibrated", "t5"), "layers other than attention mix its positions")

SPEC = MethodSpec(
    name="rollout",
    summary="attention weights of all layers multiplied, through encoder and decoder, with residual connections",
    paper="Abnar and Zuidema 2020, extended to a decoder",
    equation="S = r (r + (1 - r) B) S + (1 - r) C E by decoder layer; E = (r + (1 - r) A) E by encoder layer",
    cost="1 forward",
    passes=OwnPasses(score, forward=1),
    parameters={"residual": number(0.5, Limits(0, 1, below=True), "share that a layer passes on of its input")},
    only=ATTENTIVE,
    rank=36,
)
