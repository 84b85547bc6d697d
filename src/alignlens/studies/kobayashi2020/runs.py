"""Which attributions the study needs of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.registry import method
from alignlens.studies.protocol import DEV, FREE

if TYPE_CHECKING:
    from alignlens.studies.contract import AskedModel
    from alignlens.studies.kobayashi2020.study import Kobayashi2020Settings
    from alignlens.studies.protocol import Protocol

#: What is compared: the method's name, and what its scores are called.
KINDS = {"attention": "weights", "norms": "norms"}
#: What they are compared with, and how people call that.
GRADIENTS = {"li_smoothgrad": "Li et al., SmoothGrad", "ding_smoothgrad": "Ding et al., SmoothGrad"}
#: Which step of the decoder stands for a piece: the one that predicts it, or the one that reads it.
STEPS = {"out": "AWO", "in": "AWI"}


def layer_method(kind: str, layer: int, step: str, head: int | None = None) -> str:
    """Returns the canonical method of a layer, or of one of its heads."""
    chosen = {} if head is None else {"head": head}
    return method(kind, {"layer": layer, "step": step, **chosen}).text


def methods(model: AskedModel, settings: Kobayashi2020Settings, protocol: Protocol, decoding: str) -> list[str]:
    """Returns every layer and, on the test text, every head of a Transformer; other architectures have one attention.

    The dev text serves to choose a layer, so that its heads are not asked for.
    """
    if model.architecture != "transformer" or decoding == FREE:
        return []
    layers, heads = range(model.sizes["decoder_layers"]), range(model.sizes["heads"])
    wanted = [layer_method(kind, layer, step) for kind in KINDS for step in STEPS for layer in layers]
    if decoding != DEV:
        wanted += [protocol.method(name) for name in GRADIENTS]
        wanted += [
            layer_method(kind, layer, step, head)
            for kind in KINDS
            for step in STEPS
            for layer in layers
            for head in heads
        ]
    return wanted
