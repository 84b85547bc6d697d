"""ALTI+ (Ferrando et al. 2022): what source and prefix contribute, rolled out through encoder and decoder.

In every attention block the share of a part is how near it is to the block's output, by the sum of absolute differences
(``attribution/nearness.py``): of the positions that self-attention looks at, the stream counted with its own position;
of source positions and of the stream in attention to the source. Feed-forward nets mix no positions. Shares of all
layers are multiplied (``attribution/mixing.py``). Source and prefix sum to one together.

The released code takes the deviation of a norm with n - 1, and that of numbers to which the norm's epsilon was added;
here it is what the norm divides by. It does not depend on the label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alignlens.attribution.methods.rollout import ATTENTIVE
from alignlens.attribution.spec import Contributions, MethodSpec, OwnPasses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values
    from alignlens.models.transformer import DecoderLayer, EncoderLayer, Transformer


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns shares of source (row, target, source) and prefix (row, target, target)."""
    import torch

    from alignlens.attribution.mixing import DecoderMixing, rolled_out
    from alignlens.attribution.nearness import cross_shares, own_shares

    model, (rows, target) = cast("Transformer", inputs.model), inputs.labels.shape
    memory = model.encode(inputs.vectors, inputs.source_mask, trace=True)
    decoded = model.decode(memory, inputs.prefix_vectors, trace=True)
    inputs.statistics.forward_passes += rows
    at_once = max(1, inputs.most_rows // rows)
    real = inputs.source_mask[:, None]
    itself = torch.eye(real.shape[-1], dtype=torch.bool, device=real.device)  # which padding must see, too
    backwards = torch.ones(target, target, dtype=torch.bool, device=real.device).tril()
    encoder = [
        own_shares(layer.own_branch, seen, real | itself, at_once)
        for layer, seen in zip(cast("Iterable[EncoderLayer]", model.encoder), memory.attention, strict=True)
    ]
    decoder = [
        DecoderMixing(
            own_shares(layer.own_branch, own, backwards, at_once),
            *cross_shares(layer.cross_branch, cross, real.expand(-1, target, -1), at_once),
        )
        for layer, own, cross in zip(
            cast("Iterable[DecoderLayer]", model.decoder), decoded.own, decoded.cross, strict=True
        )
    ]
    return rolled_out(encoder, decoder)


SPEC = MethodSpec(
    name="alti",
    summary="shares of source and prefix by how near the parts of each attention block are to its output, multiplied",
    paper="Ferrando et al. 2022, ALTI and ALTI+",
    equation="max(0, L1(y) - L1(y - T(x_i))) / its sum over all parts of y, rolled out through all layers",
    cost="1 forward",
    passes=OwnPasses(score, forward=2),
    distribution=False,
    prefix=True,
    only=ATTENTIVE,
    rank=130,
)
