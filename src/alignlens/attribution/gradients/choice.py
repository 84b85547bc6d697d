"""Chooses the backward passes of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.bag_of_words import BagOfWordsGradients
from alignlens.attribution.gradients.contract import SourceGradients
from alignlens.attribution.gradients.fconv import FconvGradients
from alignlens.attribution.gradients.lstm import LstmGradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.gradients.transformer_compiled import CompiledTransformerGradients, can_compute
from alignlens.models.bag_of_words import BagOfWords
from alignlens.models.contract import Seq2Seq
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.transformer import Transformer


def _transformer(model: Transformer, true_gradient: bool) -> SourceGradients[Any]:
    return CompiledTransformerGradients(model) if can_compute(model) else TransformerGradients(model)


def _lstm(model: Lstm, true_gradient: bool) -> SourceGradients[Any]:
    plain = model.settings.heads == 1 and model.settings.cell == "lstm"
    return LstmGradients(model) if plain else AutogradGradients(model, true_gradient)


def _bag_of_words(model: BagOfWords, true_gradient: bool) -> SourceGradients[Any]:
    return BagOfWordsGradients(model)


def _fconv(model: Fconv, true_gradient: bool) -> SourceGradients[Any]:
    with model.scaled(not true_gradient):
        return FconvGradients(model)


#: Explicit passes by the exact class of the model: a subclass may compute something else. All others use autograd.
EXPLICIT: dict[type[Seq2Seq], Callable[[Any, bool], SourceGradients[Any]]] = {
    Transformer: _transformer,
    Lstm: _lstm,
    Fconv: _fconv,
    BagOfWords: _bag_of_words,
}


def source_gradients(model: Seq2Seq, true_gradient: bool = False) -> SourceGradients[Any]:
    """Returns the backward passes of a model; ``true_gradient`` switches off what training scales in them."""
    explicit = EXPLICIT.get(type(model), AutogradGradients)
    return explicit(model, true_gradient)


def scales_gradients(model: Seq2Seq) -> bool:
    """Returns whether backward passes in training differ from the derivative."""
    return model.scale_encoder_gradient
