"""Which backward passes a model gets."""

from __future__ import annotations

from typing import Any

from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.contract import SourceGradients
from alignlens.attribution.gradients.fconv import FconvGradients
from alignlens.attribution.gradients.lstm import LstmGradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.gradients.transformer_compiled import CompiledTransformerGradients, can_compute
from alignlens.models.contract import Seq2Seq
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.transformer import Transformer


def source_gradients(model: Seq2Seq, true_gradient: bool = False) -> SourceGradients[Any]:
    """Returns the backward passes of a model; ``true_gradient`` switches off what training scales in them."""
    if isinstance(model, Fconv):
        trained = model.scale_encoder_gradient
        model.scale_encoder_gradient = trained and not true_gradient
        try:
            return FconvGradients(model)
        finally:
            model.scale_encoder_gradient = trained
    # A subclass may compute something else, so only the exact types have explicit passes.
    if type(model) is Transformer:
        return CompiledTransformerGradients(model) if can_compute(model) else TransformerGradients(model)
    if type(model) is Lstm:
        return LstmGradients(model)
    return AutogradGradients(model)


def scales_gradients(model: Seq2Seq) -> bool:
    """Returns whether backward passes in training differ from the derivative."""
    return isinstance(model, Fconv) and model.scale_encoder_gradient
