"""The lexical probe of Snell et al. 2021: what the model would predict if it only looked at one source position.

The score of a source position is the probability of the target word if, at the step that predicts it, all attention of
every head and every layer sat there. The steps before are as they were. For an LSTM with states h_i and s_j this is
N([P h_i; s_j]) at the word, equation 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import Contributions, MethodSpec, OwnPasses, one_of

if TYPE_CHECKING:
    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns the probabilities (row, target, source), all source positions side by side."""
    import torch

    from alignlens.attribution.outputs import log_probabilities
    from alignlens.attribution.rows import check_finite

    model, wanted = inputs.model, inputs.wanted[:, :, None] & inputs.source_mask[:, None]
    states = model.focused(model.encode(inputs.vectors, inputs.source_mask), inputs.prefix_vectors)
    logs = log_probabilities(model, states, inputs.labels, wanted, values["bias"] == "kept")
    check_finite(logs, "probabilities")
    inputs.statistics.forward_passes += len(inputs.vectors) + int(inputs.source_mask.sum())
    if values["scale"] == "log_p":
        return Contributions(logs)
    # A probability that underflows would be zero: rows must have a positive sum.
    return Contributions(logs.exp_().clamp_(min=torch.finfo(logs.dtype).tiny))


SPEC = MethodSpec(
    name="probe",
    summary="probability of the target piece if all attention were on one source position",
    paper="Snell et al. 2021, equation 4",
    equation="p(t_j) if all attention is on i",
    cost="1 forward, and the decoder (LSTM: only the output layers) once for every source position",
    passes=OwnPasses(score, forward=1, decoder_by_source=1),
    # The released proxy leaves the bias of its output layer out of the probe.
    parameters={
        "scale": one_of("p", "log_p", about="both have the same order"),
        "bias": one_of("kept", "dropped", about="`dropped` leaves out the bias of the output layer"),
    },
    distribution=False,
    signed=True,
    rank=90,
)
