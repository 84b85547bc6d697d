"""Value zeroing (Mohebbi et al. 2023), in the attention to the source: how far a state moves without a value vector.

In one decoder layer the value vectors of one source position are zeros, in all heads; weights stay, and so does all
that the layer read. The score is the cosine distance between the states that leave the layer with and without, after
residual sum, norm and feed-forward net (the paper has it for self-attention); rows are divided by their sums, layer by
layer. Without the values of position i the attention of a layer gives ``sum over heads h of a[h,j,i] f[h](x_i)`` less,
so that attention is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alignlens.attribution.methods.norms import transformed
from alignlens.attribution.methods.rollout import ATTENTIVE
from alignlens.attribution.spec import LAYER, STEP, Contributions, MethodSpec, OwnPasses

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values
    from alignlens.models.contract import Attention
    from alignlens.models.transformer import DecoderLayer, Transformer


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns shares (row, target, source) of the distances of a layer, or their mean over layers."""
    from alignlens.attribution import layers
    from alignlens.attribution.rows import normalised

    model = cast("Transformer", inputs.model)
    memory = model.encode(inputs.vectors, inputs.source_mask)
    cross = model.decode(memory, inputs.prefix_vectors, trace=True).cross
    inputs.statistics.forward_passes += len(inputs.vectors)

    def of_layer(number: int) -> Tensor:
        distances = _distances(inputs, cast("DecoderLayer", model.decoder[number]), cross[number])
        return normalised(distances, distances, inputs.source_mask[:, None], inputs.wanted, inputs.statistics)

    distances = layers.read(
        len(cross), of_layer, inputs.labels_mask, model.paper_attention, values["layer"], values["step"]
    )
    return Contributions(distances)


def _distances(inputs: Inputs, layer: DecoderLayer, attention: Attention) -> Tensor:
    """Returns (row, target, source): one minus the cosine of a layer's states with and without a source position."""
    import torch
    from torch.nn import functional

    from alignlens.attribution.rows import check_finite

    stream, output = attention.stream, attention.output
    if stream is None or output is None:
        raise ValueError("its attention does not expose its stream and output")
    vectors = transformed(attention).transpose(1, 2)  # (row, source, head, dim)
    weights = attention.weights.permute(0, 3, 2, 1)  # (row, source, target, head)
    rows, source = inputs.source_mask.shape
    whole = functional.normalize(layer.finish(stream, output), dim=-1)[:, None]
    parts = []
    for some in torch.split(torch.arange(source, device=output.device), max(1, inputs.most_rows // rows)):
        left = output[:, None] - weights[:, some] @ vectors[:, some]  # (row, some, target, dim)
        states = functional.normalize(layer.finish(stream[:, None], left), dim=-1)
        # Of vectors of length one; a small distance would be lost in the difference of one and a cosine.
        parts.append((states - whole).square().sum(-1) / 2)
    distances = torch.cat(parts, 1).transpose(1, 2).masked_fill(~inputs.source_mask[:, None], 0.0)
    check_finite(distances, "states")
    return distances


SPEC = MethodSpec(
    name="value_zeroing",
    summary="how far the states of a decoder layer move if its values of a source position are zeros",
    paper="Mohebbi et al. 2023, here of attention to the source",
    equation="1 - cos(y_j, y_j without the values of i)",
    cost="1 forward, and for every source position the part of the decoder that follows attention",
    passes=OwnPasses(score, forward=1, decoder_by_source=0.25),
    parameters={**LAYER, **STEP},
    only=ATTENTIVE,
    rank=37,
)
