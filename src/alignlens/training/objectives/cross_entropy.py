"""Cross entropy against labels smoothed towards the uniform distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from alignlens.training.objectives.contract import Objective, Outcome

if TYPE_CHECKING:
    from alignlens.corpora.batches import Batch
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Moment


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Cross entropy that makes one tensor as large as the logits: their log-probabilities, turned into their gradient.

    Fresh large tensors cost more than the arithmetic in them: the system has to hand out the pages.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        share, rows = smoothing / logits.shape[-1], labels[:, None]
        large = logits.log_softmax(-1)
        loss = (smoothing - 1) * large.gather(-1, rows).sum()
        if smoothing:
            loss -= share * large.sum()
        if ctx.needs_input_grad[0]:
            large.exp_()
            if smoothing:
                large -= share
            large.scatter_add_(-1, rows, large.new_full(rows.shape, smoothing - 1))
            ctx.save_for_backward(large)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor, None, None]:
        # In place: a second backward pass through the same loss is refused by autograd, not computed wrongly.
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(incoming), None, None


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Returns the sum over rows of -(1 - smoothing) log p(label) - smoothing * mean over the vocabulary of log p.

    ``logits`` are (rows, vocabulary), ``labels`` (rows). Half precision is summed in single precision.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    loss: Tensor = _SmoothedCrossEntropy.apply(logits, labels, smoothing)  # type: ignore[no-untyped-call]
    return loss


class CrossEntropy(Objective):
    """The objective that papers use unless they say otherwise."""

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns the smoothed cross entropy of all labels."""
        logits = self.logits(model, batch)
        labels = torch.from_numpy(batch.labels[batch.labels_mask]).to(logits.device)
        return Outcome({"model": smoothed_cross_entropy(logits, labels, self._smoothing)})
