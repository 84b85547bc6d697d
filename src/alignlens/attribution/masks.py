"""Mask nets beside a trained model, written by ``alignlens masks``, for the methods that read masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.models.checkpoint import load_model, read_card

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq

_USUAL = "weights"


def load_masks(folder: Path, trained: TrainedModel) -> Seq2Seq:
    """Returns the model with its mask nets, which shares all other weights with the trained model, in memory too.

    Masks that were not trained for the checkpoint that it was loaded from are refused.
    """
    file = trained.weights
    name = file.relative_to(trained.folder).with_suffix("").as_posix()
    model = f"--model {trained.folder}" if name == _USUAL else f"--model {trained.folder} --weights {name}"
    train = f"Train them: alignlens masks {model} --source TEXT --target TEXT --work DIR --out DIR."
    if not folder.is_dir():
        raise InputError(
            "there are no masks for this model.", folder, advice=f"{train} Or give their folder with --masks."
        )
    belongs_to = read_card(folder).get("masks_of")
    if belongs_to is None:
        raise InputError("not a folder of masks.", folder, advice=train)
    if belongs_to != sha256_of(file):
        problem = f"holds masks for other weights than {file}."
        raise InputError(problem, folder, advice=train.replace("them", "masks for these"))
    masks, _ = load_model(folder)
    masks.load_state_dict(trained.model.state_dict(), strict=False, assign=True)
    return masks.to(next(trained.model.parameters()).device)
