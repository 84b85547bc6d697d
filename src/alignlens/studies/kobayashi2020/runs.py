"""What the study asks of the pipeline, and what it calls that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.registry import method
from alignlens.results.paths import DEV, FORCED, TEST
from alignlens.studies.requests import AttributionRequest, EncoderRequest, Requests

if TYPE_CHECKING:
    from alignlens.results.protocol import Protocol
    from alignlens.studies.kobayashi2020.study import Kobayashi2020Settings
    from alignlens.studies.requests import Offer, OfferedModel

#: What is compared: the method's name, and what its scores are called.
KINDS = {"attention": "weights", "norms": "norms"}
#: What they are compared with, and how people call that.
GRADIENTS = {"li_smoothgrad": "Li et al., SmoothGrad", "ding_smoothgrad": "Ding et al., SmoothGrad"}
#: Which step of the decoder stands for a piece: the one that predicts it, or the one that reads it.
STEPS = {"out": "AWO", "in": "AWI"}
#: Word aligners of Table 3, trained with the test text: ours, and how people call them. Print has one direction.
ALIGNERS = {"fast_align": ("fast_align", "fast_align"), "giza": ("ibm4", "GIZA++ (ours: IBM4)")}


def layer_method(kind: str, layer: int, step: str, head: int | None = None) -> str:
    """Returns the canonical method of a layer, or of one of its heads."""
    chosen = {} if head is None else {"head": head}
    return method(kind, {"layer": layer, "step": step, **chosen}).text


def requests(offer: Offer, settings: Kobayashi2020Settings) -> Requests:
    """Returns all Transformers of the configuration with the reference, its aligners, and encoders.

    The dev text serves to choose a layer, where it has gold links.
    """
    transformers = [model for model in offer.models if model.architecture == "transformer"]
    wanted, shown = settings.encoders, {name for name, _ in ALIGNERS.values()}
    return Requests(
        attributions=[
            AttributionRequest(dataset.name, model.name, methods(model, offer.protocol, split), FORCED, split)
            for dataset in offer.scored
            for model in transformers
            for split in (TEST, DEV)
            if (dataset.dev_gold if split == DEV else FORCED in offer.decodings)
        ],
        aligners=[run for run in offer.aligners if run.text == "offline" and run.name in shown],
        encoders=EncoderRequest(wanted.pretrained, wanted.text, wanted.sequences, wanted.tokens),
    )


def methods(model: OfferedModel, protocol: Protocol, split: str) -> tuple[str, ...]:
    """Returns every layer and, on the test text, every head and what they are compared with."""
    layers, heads = range(model.sizes["decoder_layers"]), range(model.sizes["heads"])
    wanted = [layer_method(kind, layer, step) for kind in KINDS for step in STEPS for layer in layers]
    if split != DEV:
        wanted += [protocol.method(name) for name in GRADIENTS]
        wanted += [
            layer_method(kind, layer, step, head)
            for kind in KINDS
            for step in STEPS
            for layer in layers
            for head in heads
        ]
    return tuple(wanted)
