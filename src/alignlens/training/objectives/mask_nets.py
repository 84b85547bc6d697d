"""The mask game of Lu et al. 2021 after the fact: mask nets learn what would hurt a model that stays as it is.

There is one player. The decoder reads the target once as it is, which gives the masks, and once more with attention
that these very masks perturb; they follow minus the loss of the second pass, plus ``alpha`` times the penalty for masks
far from one. So masks are learned at the states at which they are read later. Dropout is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from alignlens.errors import ConfigError
from alignlens.training.objectives.contract import Outcome, Player
from alignlens.training.objectives.mask_game import PENALTIES, EncodedBatch, MaskGame

if TYPE_CHECKING:
    from alignlens.corpora.batches import Batch
    from alignlens.models.calibrated import Calibrated
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Material, Moment


class MaskNets(MaskGame):
    """One player: the mask nets of a Transformer whose attention they do not change.

    Measured are ``mask`` and ``perturbed_loss``; the loss without perturbation is that of the model, which does not
    change, and is measured on the dev text alone.
    """

    metrics = ("mask", "perturbed_loss")
    gives_masks = True

    def __init__(self, options: Any, material: Material) -> None:
        super().__init__(options, material)
        fusion = getattr(material.spec.settings, "fusion", None)
        if fusion != "none":
            raise ConfigError(
                f"model.fusion: mask_nets leaves the model unchanged, but with fusion {fusion} masks change what it "
                "computes. Set it to none."
            )

    def players(self, model: Seq2Seq) -> dict[str, Player]:
        """Returns the mask nets; nothing else of the model learns from here on."""
        game = cast("Calibrated", model)
        game.freeze()
        return {"mask": Player(tuple(game.mask_parameters()))}

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns minus the smoothed cross entropy under perturbation, plus the penalty."""
        game = cast("Calibrated", model).eval()
        with self.in_precision(model):
            with torch.no_grad():
                encoded = EncodedBatch.of(game, batch)
            masks = encoded.masks()
            with game.perturbed(masks):
                perturbed, _ = encoded.loss(self._smoothing, trace=False)
        game.train()
        penalty = PENALTIES[self.options.penalty](masks, encoded.keep, encoded.memory.mask)
        measured = {
            "mask": encoded.mean_mask(masks),
            "perturbed_loss": (float(perturbed.detach()), batch.target_tokens),
        }
        return Outcome({"mask": self.options.alpha * penalty - perturbed}, measured)
