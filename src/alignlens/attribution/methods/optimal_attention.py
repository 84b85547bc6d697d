"""The attention that would have made the target word most probable (appendix A.1 of Snell et al. 2021).

The decoder's state at the step stays as it was, and so do the steps before; several heads have the same weights. With
``output: linear`` the loss is convex in the weights, and the result is optimal; otherwise it is a point from
which no small change helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alignlens.attribution.spec import Contributions, MethodSpec, Only, OwnPasses, whole
from alignlens.io.limits import Limits

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values
    from alignlens.models.lstm import Lstm

STEPS = 300


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns the weights (row, target, source)."""
    import torch

    from alignlens.attribution.outputs import states_at_once

    model, statistics = cast("Lstm", inputs.model), inputs.statistics
    memory = model.encode(inputs.vectors, inputs.source_mask)
    of_state, of_source = model.summands(memory, inputs.prefix_vectors)
    best = of_state.new_zeros(*inputs.labels.shape, inputs.source.shape[1])
    statistics.forward_passes += len(inputs.vectors)
    for row, place in torch.split(inputs.wanted.nonzero().t(), states_at_once(model), 1):
        allowed = inputs.source_mask[row]
        labels = inputs.labels[row, place]
        weights, evaluations = _best(model, of_state[row, place], of_source[row], labels, allowed, values["steps"])
        best[row, place] = weights
        statistics.backward_passes += evaluations
    return Contributions(best)


def _best(
    model: Lstm, of_state: Tensor, of_source: Tensor, labels: Tensor, allowed: Tensor, steps: int
) -> tuple[Tensor, int]:
    """Returns the best weights (row, source), and the number of slopes computed."""
    import torch

    from alignlens.attribution.simplex import cross_entropy, minimise

    def losses(numbers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        there = of_source[numbers]
        states = model.activate(of_state[numbers] + torch.bmm(weights[:, None], there)[:, 0])
        loss, towards = cross_entropy(model.logits(states), labels[numbers])
        slopes = (towards @ model.output.weight) * model.slopes(states)
        return loss, torch.bmm(there, slopes[..., None])[..., 0]

    optimum = minimise(losses, allowed, of_state, steps)
    return optimum.weights, optimum.evaluations


SPEC = MethodSpec(
    name="optimal_attention",
    summary="weights that make the target piece most probable; a true optimum for output linear, which is convex",
    paper="Snell et al. 2021, appendix A.1",
    equation="the weights a that minimise -log p(t_j)",
    cost="1 forward, and at most `steps` J backward as far as the weights",
    passes=OwnPasses(score, forward=1, output=60),  # about 30 steps, forwards and backwards
    parameters={"steps": whole(STEPS, Limits(1, 100_000), "most steps of a target piece")},
    only=Only(("lstm",), "others have several attention layers, and what follows depends on them in other ways"),
    rank=100,
)
