"""Which attributions the study needs of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.ding2019.layout import METHODS
from alignlens.studies.protocol import DEV, FORCED, NOISY

if TYPE_CHECKING:
    from alignlens.studies.contract import AskedModel
    from alignlens.studies.ding2019.study import Ding2019Settings
    from alignlens.studies.protocol import Protocol


def methods(model: AskedModel, settings: Ding2019Settings, protocol: Protocol, decoding: str) -> list[str]:
    """Returns the canonical methods for a model, each once, the tables' own first.

    Free decoding leaves out what only forced decoding answers: the curve over the number of copies, and the scores of
    the runner-up.
    """
    if decoding == DEV:
        return []
    wanted = [protocol.method(name) for name in METHODS]
    wanted += [protocol.method(name, reading="abs_dot") for name in ("li_grad", "li_smoothgrad")]
    wanted.append(protocol.method("ding_smoothgrad", order="mean_then_clip"))
    wanted += [protocol.at_sigma(float(sigma)) for sigma in settings.sigmas]
    if decoding == FORCED:
        wanted += [protocol.method("ding_smoothgrad", n=count) for count in settings.samples_curve]
        wanted += [protocol.method(name, label="runner_up") for name in ("attention", "ding_grad")]
    if model.architecture == "fconv":
        wanted += [protocol.method(name, gradient="true") for name in ("ding_grad", "ding_smoothgrad")]
    wanted += [protocol.method(name, seed=seed) for seed in settings.noise_seeds for name in NOISY]
    return list(dict.fromkeys(wanted))
