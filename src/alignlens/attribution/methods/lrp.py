"""Layer-wise relevance propagation as Voita et al. 2020 use it: shares of a prediction, of source and prefix.

All relevance starts at the score of one token and is handed back layer by layer, none of it negative, to the vectors of
source tokens and of the prefix, positions included. With ``rescale`` the shares of source, prefix and start symbol sum
to one. Inside attention, ``usual`` is ``taylor`` (attention is one function of queries, keys and values), and
``constant`` (its weights are given) in LSTMs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.spec import Contributions, MethodSpec, Only, OwnPasses, number, one_of
from alignlens.io.limits import Limits

if TYPE_CHECKING:
    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values

#: The architectures with rules for all their layers.
RULED = Only(("transformer", "calibrated", "lstm", "fconv"), "no relevance rules exist for its layers")
#: Which token is explained.
EXPLAINED = {
    "label": one_of(
        "reference",
        "top",
        "runner_up",
        about="`reference`: the token in the target; `top`: the token that the model finds best, as in Voita et al.; "
        "`runner_up`: the most probable other than the one in the target",
    )
}


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns shares of source (row, target, source) and prefix (row, target, target)."""
    from alignlens.attribution.registry import method
    from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
    from alignlens.attribution.relevance.choice import contributions, relevance_of

    attention = relevance_of(inputs.model).usual_attention if values["attention"] == "usual" else values["attention"]
    rules = AlphaBeta(AlphaBetaSettings(values["alpha"], values["bias"], attention, values["rescale"] == "yes"))
    shares = contributions(inputs, rules, values["label"])
    inputs.statistics.add_losses(method(SPEC.name, values).text, rules.losses)
    return shares


_BIAS = (
    "`spread` over the inputs before signs are separated, as released: it takes no relevance away; `printed`: in the "
    "denominator of equation 5"
)
_ATTENTION = (
    "`taylor`: attention is one function of queries, keys and values, and its derivative is taken, as released; "
    "`softmax`: only the derivative of the softmax, as the paper describes it; `constant`: the weights are given and "
    "all relevance goes to the values; `usual`: `taylor`, but `constant` for LSTMs"
)

SPEC = MethodSpec(
    name="lrp",
    summary="relevance propagated back to source and prefix, positive and negative parts separately",
    paper="Voita et al. 2020, equation 5; Bach et al. 2015",
    equation="R_i = sum over j of R_j (alpha z+_ij / z+_j + (1 - alpha) z-_ij / z-_j)",
    cost="1 forward, J relevance passes that share the work of each layer",
    passes=OwnPasses(score, forward=1, backward=4),
    parameters={
        "alpha": number(1.0, Limits(0, 1), "share of the positive parts; the rest goes to the negative ones"),
        "bias": one_of("spread", "printed", about=_BIAS),
        "attention": one_of("usual", "taylor", "softmax", "constant", about=_ATTENTION),
        "rescale": one_of("yes", "no", about="whether a layer scales what it passes on to make up for what it lost"),
        **EXPLAINED,
    },
    distribution=False,
    prefix=True,
    only=RULED,
    rank=110,
)
