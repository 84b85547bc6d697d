"""Which attributions the study needs of a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from alignlens.attribution.settings import AttributionSettings
from alignlens.studies.ding2019.layout import METHODS
from alignlens.studies.protocol import FORCED, NOISY, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


def methods(architecture: str, attribution: Mapping[str, Any], decoding: str | None = None) -> list[str]:
    """Returns the canonical methods for a model of that architecture, each once, the tables' own first.

    With ``decoding`` given, ``free`` leaves out what only forced decoding answers: the curve over the number of
    copies, and the scores of the runner-up.
    """
    settings = {**asdict(AttributionSettings()), **attribution}
    protocol = Protocol(float(settings["sigma"]), int(settings["samples"]))
    wanted = [protocol.method(name) for name in METHODS]
    wanted += [protocol.method(name, reading="abs_dot") for name in ("li_grad", "li_smoothgrad")]
    wanted.append(protocol.method("ding_smoothgrad", order="mean_then_clip"))
    wanted += [protocol.at_sigma(float(sigma)) for sigma in settings["sigmas"]]
    if decoding in (None, FORCED):
        wanted += [protocol.method("ding_smoothgrad", n=int(count)) for count in settings["samples_curve"]]
        wanted += [protocol.method(name, label="runner_up") for name in ("attention", "ding_grad")]
    if architecture == "fconv":
        wanted += [protocol.method(name, gradient="true") for name in ("ding_grad", "ding_smoothgrad")]
    wanted += [protocol.method(name, seed=int(seed)) for seed in settings["noise_seeds"] for name in NOISY]
    return list(dict.fromkeys(wanted))
