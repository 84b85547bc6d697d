"""Occlusion (Zeiler and Fergus 2014), word by word as in Li et al. 2016: the loss without a source token.

One token vector is replaced by the baseline, which is zeros, and the model reads the sentence again; the position is
still there, and the target prefix stays as it is. The score is the drop of log p of the target piece, or of p (the
relative difference of Li et al. is divided by log p, which is the same for a whole row). It is negative where the piece
is more probable without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import BASELINE, Contributions, MethodSpec, OwnPasses, one_of

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns the drops (row, target, source); as many sentences with a gap are read at once as the budget allows."""
    import torch

    from alignlens.attribution.rows import check_finite

    every = torch.arange(len(inputs.vectors), device=inputs.vectors.device)
    whole = _probabilities(inputs, inputs.vectors, every, values["score"])
    losses = whole.new_zeros(*whole.shape, inputs.source.shape[1])
    gaps = inputs.source_mask.nonzero()
    for some in torch.split(gaps, inputs.most_rows):
        row, place = some.unbind(1)
        vectors = inputs.vectors[row].index_put((torch.arange(len(row), device=row.device), place), whole.new_zeros(()))
        losses[row, :, place] = whole[row] - _probabilities(inputs, vectors, row, values["score"])
    check_finite(losses, "probabilities")
    inputs.statistics.forward_passes += len(every) + len(gaps)
    return Contributions(losses)


def _probabilities(inputs: Inputs, vectors: Tensor, row: Tensor, scale: str) -> Tensor:
    """Returns (gap, target): log p or p of the labels, for source vectors (gap, source, dim) of these rows."""
    from alignlens.attribution.outputs import log_probabilities

    model = inputs.model
    memory = model.encode(vectors, inputs.source_mask[row])
    states = model.decode(memory, inputs.prefix_vectors[row]).states
    logs = log_probabilities(model, states[:, :, None], inputs.labels[row], inputs.wanted[row, :, None])[..., 0]
    return logs.exp() if scale == "p" else logs


SPEC = MethodSpec(
    name="occlusion",
    summary="drop in log p of the target piece if the vector of a source position is set to zero",
    paper="Zeiler and Fergus 2014; Li et al. 2016, representation erasure",
    equation="log p(t_j) - log p(t_j with e_i = 0)",
    cost="1 forward, and 1 for every source position",
    passes=OwnPasses(score, forward=1, forward_by_source=1),
    parameters={**BASELINE, "score": one_of("log_p", "p", about="whose loss is the score")},
    distribution=False,
    signed=True,
    rank=87,
)
