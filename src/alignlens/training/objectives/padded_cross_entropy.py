"""The loss of the proxy of Snell et al. 2021 as released: the start symbol and padding are predicted as well.

The released batches are drawn at random, and every target is padded to the longest of its batch. Batches are sorted by
length here, so each target is padded to the longest of as many targets, drawn for it from the training text: in the
mean the loss is the same. The number of symbols that a model must predict tells it how short a target is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.symbols import BEGIN_ID, PADDING_ID
from alignlens.training.objectives.contract import Objective, Outcome

if TYPE_CHECKING:
    from alignlens.corpora.batches import Batch, Integers
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Material, Moment
    from alignlens.training.objectives.registry import PaddedCrossEntropyOptions


class PaddedCrossEntropy(Objective):
    """Cross entropy of a model that says the same at every target position; labels are not smoothed.

    Measured is ``padding``, the share of padding among all that is predicted.
    """

    metrics = ("padding",)

    def __init__(self, options: PaddedCrossEntropyOptions, material: Material) -> None:
        super().__init__(options, material)
        self._others = options.sentences - 1
        self._lengths = material.target.lengths_between(0, len(material.target)) + 1  # END counts

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns the cross entropy of labels, start symbols and padding."""
        padding = self.padding(batch)
        device = model.output.weight.device
        arrays = (batch.source, batch.source_mask, batch.prefix[:, :1], batch.labels, padding)
        source, mask, prefix, labels, pads = (torch.from_numpy(each).to(device) for each in arrays)
        with self.in_precision(model):
            log_p = model(source, mask, prefix)[:, 0].float().log_softmax(-1)
        of_labels = log_p.gather(1, labels)[labels != PADDING_ID].sum()
        loss = -(of_labels + log_p[:, BEGIN_ID].sum() + (pads * log_p[:, PADDING_ID]).sum())
        return Outcome({"model": loss}, {"padding": (float(padding.sum()), self.count(batch))})

    def count(self, batch: Batch) -> int:
        """Returns the number of labels, start symbols and padding."""
        return batch.target_tokens + batch.sentences + int(self.padding(batch).sum())

    def padding(self, batch: Batch) -> Integers:
        """Returns how much padding every target has; it depends on the sentences alone."""
        generator = np.random.default_rng(batch.indices)
        drawn = generator.choice(self._lengths, (batch.sentences, self._others))
        padding: Integers = np.maximum(drawn.max(1, initial=0) - batch.labels_mask.sum(1), 0)
        return padding
