"""From the description of a model to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from alignlens.models.settings import FconvSettings, LstmSettings, ModelSpec, TransformerSettings

if TYPE_CHECKING:
    from alignlens.models.contract import Seq2Seq


def build(spec: ModelSpec, seed: int | None = None) -> Seq2Seq:
    """Returns a new model; the same ``seed`` gives the same initial weights."""
    if seed is not None:
        torch.manual_seed(seed)
    sizes = (spec.source_vocab, spec.target_vocab)
    if spec.architecture == "transformer":
        from alignlens.models.transformer import Transformer

        return Transformer(cast("TransformerSettings", spec.settings), *sizes)
    if spec.architecture == "lstm":
        from alignlens.models.lstm import Lstm

        return Lstm(cast("LstmSettings", spec.settings), *sizes)
    from alignlens.models.fconv import Fconv

    return Fconv(cast("FconvSettings", spec.settings), *sizes)
