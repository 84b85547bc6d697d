"""Integrated gradients (Sundararajan et al. 2017): gradient times embedding, averaged on the path from zero.

The path is the straight line from the baseline of all source tokens at once to the sentence; positions and the target
prefix stay as they are. The integral is the mean over ``n`` points, each in the middle of its part of the path. With
their signs the scores of a target piece add up to what log p gains on the way (completeness), as well as n points tell.

``signed`` is this. ``positive`` sets evidence against the piece to zero, ``absolute`` drops the signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.attribution.methods.ding_grad import row as positive
from alignlens.attribution.methods.li_grad import absolute
from alignlens.attribution.spec import DERIVATIVE, GRADIENT, PATH, GradientPasses, MethodSpec, Reading, one_of

if TYPE_CHECKING:
    from alignlens.attribution.spec import Values

_ROWS = {"signed": Reading(), "positive": Reading(row=positive), "absolute": Reading(row=absolute)}


def reading(values: Values) -> Reading:
    """Returns gradient times embedding; what is made of its sign, is made of the mean over the path."""
    return _ROWS[values["reading"]]


_READING = (
    "`signed`: the scores add up to the gain in log p; `positive`: evidence against the piece counts as zero; "
    "`absolute`: both count alike"
)

SPEC = MethodSpec(
    name="integrated_gradients",
    summary="gradient times embedding, averaged on the way from zero vectors to the sentence, with its sign",
    paper="Sundararajan et al. 2017, midpoint rule",
    equation="e_i . mean over k of d log p(t_j) / d e_i at (k - 1/2) / n of all embeddings",
    cost="n forward, n J backward",
    passes=GradientPasses(reading, normalised=False, path=True),
    # The derivative, else nothing adds up; and of one token, which the runner-up is not along a path.
    parameters={
        "reading": one_of(*_ROWS, about=_READING),
        **PATH,
        **GRADIENT,
        **DERIVATIVE,
        "label": one_of("reference", about="the token in the target"),
    },
    distribution=False,
    signed=True,
    rank=85,
)
