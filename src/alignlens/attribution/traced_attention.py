"""Methods that read the attention to the source, or its masks, off one forward pass, layer by layer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import torch

from alignlens.attribution import layers
from alignlens.attribution.outputs import outputs_of
from alignlens.attribution.spec import Contributions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from alignlens.attribution.gradients.contract import Forward
    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.passes import Kind
    from alignlens.attribution.spec import TracedAttention, TracedMasks, Values
    from alignlens.models.contract import Attention


def read_attention(
    kinds: Sequence[tuple[Kind, TracedAttention]], inputs: Inputs, forward: Forward
) -> dict[Kind, Contributions]:
    """Returns the scores of every kind; kinds that read the same of a layer share it."""
    cross = cache(lambda label: _cross(label, inputs, forward))
    of_layer = cache(lambda read, label, head, number: read(cross(label)[number], head))
    scores = {}
    for kind, traced in kinds:
        values = kind.values
        chosen = partial(of_layer, traced.of_layer, values.get("label", "reference"), values["head"])
        scores[kind] = _read(inputs, len(forward.cross), chosen, values)
    return scores


def read_masks(
    kinds: Sequence[tuple[Kind, TracedMasks]], inputs: Inputs, cross: Sequence[Attention]
) -> dict[Kind, Contributions]:
    """Returns the scores of every kind, of layers with masks; kinds that read the same of a layer share it."""
    of_layer = cache(lambda read, head, number: read(cross[number], head))
    return {
        kind: _read(inputs, len(cross), partial(of_layer, traced.of_layer, kind.values["head"]), kind.values)
        for kind, traced in kinds
    }


def _read(inputs: Inputs, count: int, of_layer: Callable[[int], Tensor], values: Values) -> Contributions:
    paper = inputs.model.paper_attention
    return Contributions(layers.read(count, of_layer, inputs.labels_mask, paper, values["layer"], values["step"]))


def _cross(label: str, inputs: Inputs, forward: Forward) -> Sequence[Attention]:
    """Returns the attention of every layer; for runner-ups, its weights at each step with the label replaced."""
    if label == "reference":
        return forward.cross
    model = inputs.model
    others = outputs_of(model, forward.states, inputs.labels, inputs.labels_mask, runner_up=True).labels
    memory = model.encode(inputs.vectors, inputs.source_mask)
    steps = []
    for step in range(inputs.labels.shape[1]):
        # The step after this one reads the replaced token. Later ones cannot matter here.
        prefix = inputs.prefix[:, : step + 2].clone()
        prefix[:, step + 1 :] = others[:, step, None]
        decoded = model.decode(memory, model.embed_target(prefix), trace=True)
        steps.append([layer.weights[:, :, step] for layer in decoded.cross])
    weights = [torch.stack(layer, 2) for layer in zip(*steps, strict=True)]
    return [replace(layer, weights=changed) for layer, changed in zip(forward.cross, weights, strict=True)]
