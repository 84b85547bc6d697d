"""From the description of a model to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from alignlens.models.settings import architecture_of

if TYPE_CHECKING:
    from alignlens.models.contract import Seq2Seq
    from alignlens.models.settings import ModelSpec


def build(spec: ModelSpec, seed: int | None = None) -> Seq2Seq:
    """Returns a new model; the same ``seed`` gives the same initial weights."""
    if seed is not None:
        torch.manual_seed(seed)
    model = architecture_of(spec.architecture).model()(spec.settings, spec.source_vocab, spec.target_vocab)
    model.frame = spec.frame
    return model
