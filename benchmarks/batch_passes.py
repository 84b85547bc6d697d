"""The forward-and-backward pass of a batch, as torch makes it: what SmoothGrad is measured against.

The batches are those that attribution itself reads, noisy copies and padding included. The pass is a forced forward
pass through the model, up to the log probability of every label, and one backward pass over all rows from the sum of
these, to the source vectors; weights have no gradient. It gives one gradient for each row, where SmoothGrad needs one
for each target position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from alignlens.attribution.gradient_passes import BackwardReader
from alignlens.attribution.inputs import Inputs
from alignlens.models.contract import Seq2Seq


def batches_of(work: Callable[[], object]) -> list[Inputs]:
    """Returns the batches that gradient methods read while ``work`` runs."""
    found: list[Inputs] = []
    with _recorded(found):
        work()
    return found


def there_and_back(model: Seq2Seq, batches: list[Inputs]) -> list[Tensor]:
    """Returns the gradients (row, source, dim) of the summed log probabilities of the labels of every batch."""
    found = []
    with torch.enable_grad():
        for batch in batches:
            vectors = batch.vectors.detach().requires_grad_()
            states = model.decode(model.encode(vectors, batch.source_mask), batch.prefix_vectors).states[batch.wanted]
            log_probs = torch.log_softmax(model.logits(states), -1).gather(1, batch.labels[batch.wanted][:, None])
            found.append(torch.autograd.grad(log_probs.sum(), vectors)[0])
    return found


@contextmanager
def _recorded(found: list[Inputs]) -> Iterator[None]:
    scores = BackwardReader.scores

    def recording(self: BackwardReader, inputs: Inputs, forward: Any) -> Any:
        found.append(inputs)
        return scores(self, inputs, forward)

    with patch.object(BackwardReader, "scores", recording):
        yield
