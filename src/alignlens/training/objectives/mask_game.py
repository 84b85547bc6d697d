"""The game of Lu et al. 2021 for calibrated Transformers: masks learn what hurts, and the model to make use of them.

The source is encoded once and read twice by the decoder, each time with its own dropout: with calibrated attention, and
with the attention that masks perturb. The model follows the loss of the first pass, and the mask nets minus the loss of
the second, plus ``alpha`` times a penalty for masks (of the first) that are far from one. Nothing is detached: the loss
of the model also reaches its states through the masks, but each loss moves the parameters of its own player alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from alignlens.training.objectives.contract import Objective, Outcome, Player
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.corpora.batches import Batch
    from alignlens.models.calibrated import Calibrated
    from alignlens.models.contract import Memory, Seq2Seq
    from alignlens.training.objectives.contract import Moment

_SHUFFLE_SEED = 1  # checkpoints differ by their weights, not by luck


@dataclass(frozen=True)
class EncodedBatch:
    """A batch whose source was read, for passes of the decoder."""

    model: Calibrated
    memory: Memory
    prefix: Tensor  # (batch, target, dim): token vectors
    keep: Tensor  # (batch, target): True where there is a label
    labels: Tensor

    @classmethod
    def of(cls, model: Calibrated, batch: Batch) -> EncodedBatch:
        """Returns a batch after the pass of the encoder."""
        arrays = (batch.source, batch.source_mask, batch.prefix, batch.labels_mask, batch.labels)
        source, mask, prefix, keep, labels = (torch.from_numpy(each).to(model.output.weight.device) for each in arrays)
        memory = model.encode(model.embed_source(source), mask)
        return cls(model, memory, model.embed_target(prefix), keep, labels[keep])

    def loss(self, smoothing: float, trace: bool) -> tuple[Tensor, list[Tensor]]:
        """Returns the loss of one pass, a sum over labels, and its masks by layer if traced."""
        decoded = self.model.decode(self.memory, self.prefix, trace)
        loss = smoothed_cross_entropy(self.model.logits(decoded.states[self.keep]), self.labels, smoothing)
        return loss, [layer.mask for layer in decoded.cross if layer.mask is not None]

    def masks(self) -> list[Tensor]:
        """Returns the masks by layer of a pass that they do not change, as far as the fusion lets them."""
        decoded = self.model.decode(self.memory, self.prefix, trace=True)
        return [layer.mask for layer in decoded.cross if layer.mask is not None]

    def mean_mask(self, masks: Sequence[Tensor]) -> tuple[float, float]:
        """Returns the sum of masks at real source positions, for real labels, and how many these are."""
        with torch.no_grad():
            total = sum(float(mask.sum((1, 3))[self.keep].double().sum()) for mask in masks)
        pairs = float((self.keep.sum(1) * self.memory.mask.sum(1)).sum())
        return total, pairs * len(masks) * masks[0].shape[1]


class MaskGame(Objective):
    """Two players: the mask nets of a calibrated Transformer, and all the rest of it.

    Measured are ``mask``, the mean of the masks over layers, heads and real positions, and the losses of both passes.
    On the dev text, without label smoothing, also the loss with the same masks in random order (``shuffled_loss``).
    """

    #: Whether what perturbs on the dev text are the masks of the pass before, or those of the perturbed pass itself.
    gives_masks = False

    metrics: ClassVar[tuple[str, ...]] = ("mask", "clean_loss", "perturbed_loss")
    dev_metrics: ClassVar[tuple[str, ...]] = (*metrics, "shuffled_loss")

    def players(self, model: Seq2Seq) -> dict[str, Player]:
        """Returns the model without its mask nets, and these."""
        masks = tuple(cast("Calibrated", model).mask_parameters())
        known = set(map(id, masks))
        rest = (each for each in model.parameters() if each.requires_grad and id(each) not in known)
        return {"model": Player(tuple(rest)), "mask": Player(masks)}

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns the smoothed cross entropy of the labels, and minus the perturbed one plus the penalty."""
        game = cast("Calibrated", model)
        with self.in_precision(model):
            encoded = EncodedBatch.of(game, batch)
            clean, masks = encoded.loss(self._smoothing, trace=True)
            with game.perturbed():
                perturbed, _ = encoded.loss(self._smoothing, trace=False)
        penalty = PENALTIES[self.options.penalty](masks, encoded.keep, encoded.memory.mask)
        measured = {
            "mask": encoded.mean_mask(masks),
            "clean_loss": (float(clean.detach()), batch.target_tokens),
            "perturbed_loss": (float(perturbed.detach()), batch.target_tokens),
        }
        return Outcome({"model": clean, "mask": self.options.alpha * penalty - perturbed}, measured)

    def validation(self, model: Seq2Seq, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the mean mask, and the losses with and without perturbation, by masks in and out of order."""
        game, totals = cast("Calibrated", model), np.zeros((len(self.dev_metrics), 2))
        with torch.no_grad(), self.in_precision(model):
            for batch in batches:
                encoded = EncodedBatch.of(game, batch)
                clean, masks = encoded.loss(0.0, trace=True)
                with game.perturbed(masks if self.gives_masks else None):
                    perturbed, disturbing = encoded.loss(0.0, trace=True)
                with game.perturbed(shuffled(disturbing, batch)):
                    by_luck, _ = encoded.loss(0.0, trace=False)
                losses = [(float(loss), batch.target_tokens) for loss in (clean, perturbed, by_luck)]
                totals += [encoded.mean_mask(masks), *losses]
        return {
            name: float(total / max(number, 1)) for name, (total, number) in zip(self.dev_metrics, totals, strict=True)
        }


def penalty_by_length(masks: Sequence[Tensor], keep: Tensor, source: Tensor) -> Tensor:
    """Returns the sum over labels of the root of the mean of (1 - m)^2 over the source, a mean over layers and heads.

    Masks are (batch, head, target, source), ``keep`` (batch, target) and ``source`` (batch, source) True at real
    positions. It grows with the labels as the loss does, and with nothing else: neither length, nor batch, nor padding.
    """
    lengths = source.sum(1).sqrt()[:, None, None]
    penalties = []
    for mask in masks:
        open_ = (1 - mask).masked_fill(~source[:, None, None], 0.0)
        rows = torch.linalg.vector_norm(open_, dim=-1) / lengths
        penalties.append(rows.mean(1)[keep].sum())
    return torch.stack(penalties).mean()


def released_penalty(masks: Sequence[Tensor], keep: Tensor, source: Tensor) -> Tensor:
    """Returns the norm of 1 - m over layers, heads and all positions, divided by the padded source length.

    As in the released code padding counts, with masks of zero, and more labels do not make it larger in proportion.
    """
    by_layer = torch.stack([torch.linalg.vector_norm(1 - mask) for mask in masks])
    norm: Tensor = torch.linalg.vector_norm(by_layer)
    return norm / source.shape[1]


PENALTIES: dict[str, Callable[[Sequence[Tensor], Tensor, Tensor], Tensor]] = {
    "length": penalty_by_length,
    "released": released_penalty,
}


def shuffled(masks: Sequence[Tensor], batch: Batch) -> list[Tensor]:
    """Returns masks by layer whose values at the real source positions of each row are in random order.

    The numbers of a sentence come from its number in the corpus, so that they do not depend on its batch.
    """
    shuffled = [mask.float().cpu().numpy().copy() for mask in masks]
    for row, number in enumerate(batch.indices.tolist()):
        generator = np.random.default_rng([_SHUFFLE_SEED, number])
        labels, source = int(batch.labels_mask[row].sum()), int(batch.source_mask[row].sum())
        for mask in shuffled:
            mask[row, :, :labels, :source] = generator.permuted(mask[row, :, :labels, :source], axis=-1)
    return [torch.from_numpy(new).to(old) for new, old in zip(shuffled, masks, strict=True)]
