"""Relevance propagation by the epsilon rule: shares by value, attention weights and norms of layers held constant.

Relevances have signs. A token has the sum of the sizes of those of its vector; they are no shares of anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.methods.lrp import EXPLAINED, RULED
from alignlens.attribution.spec import Contributions, MethodSpec, OwnPasses, number
from alignlens.io.limits import Limits

if TYPE_CHECKING:
    from alignlens.attribution.inputs import Inputs
    from alignlens.attribution.spec import Values


def score(inputs: Inputs, values: Values) -> Contributions:
    """Returns the sizes of relevances of source (row, target, source) and prefix (row, target, target)."""
    from alignlens.attribution.relevance.choice import contributions
    from alignlens.attribution.relevance.epsilon import Epsilon

    return contributions(inputs, Epsilon(values["epsilon"]), values["label"])


SPEC = MethodSpec(
    name="lrp_epsilon",
    summary="relevance propagated back to source and prefix by value, attention weights held constant",
    paper="Bach et al. 2015; Ali et al. 2022",
    equation="R_i = sum over j of R_j z_ij / (z_j + epsilon sign z_j)",
    cost="1 forward, J relevance passes that share the work of each layer",
    passes=OwnPasses(score, forward=1, backward=2),
    parameters={"epsilon": number(1e-5, Limits(1e-12, 1.0), "keeps sums away from zero"), **EXPLAINED},
    distribution=False,
    prefix=True,
    only=RULED,
    rank=120,
)
