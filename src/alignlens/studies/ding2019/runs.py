"""What the study asks of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.results.paths import FORCED
from alignlens.studies.ding2019.layout import ALIGNERS, METHODS, NOISY
from alignlens.studies.requests import AttributionRequest, Requests

if TYPE_CHECKING:
    from alignlens.results.protocol import Protocol
    from alignlens.studies.ding2019.study import Ding2019Settings
    from alignlens.studies.requests import Offer


def requests(offer: Offer, settings: Ding2019Settings) -> Requests:
    """Returns all models and decodings of the configuration, and those of its aligners that the tables have."""
    shown = {(line.aligner, line.text) for line in ALIGNERS}
    return Requests(
        attributions=[
            AttributionRequest(
                dataset.name, model.name, methods(model.architecture, settings, offer.protocol, decoding), decoding
            )
            for dataset in offer.scored
            for model in offer.models
            for decoding in offer.decodings
        ],
        aligners=[run for run in offer.aligners if (run.name, run.text) in shown],
    )


def methods(architecture: str, settings: Ding2019Settings, protocol: Protocol, decoding: str) -> tuple[str, ...]:
    """Returns the canonical methods for an architecture, each once, the tables' own first.

    Free decoding leaves out what only forced decoding answers: the curve over the number of copies, and the scores of
    the runner-up.
    """
    wanted = [protocol.method(name) for name in METHODS]
    wanted += [protocol.method(name, reading="abs_dot") for name in ("li_grad", "li_smoothgrad")]
    wanted.append(protocol.method("ding_smoothgrad", order="mean_then_clip"))
    wanted += [protocol.at_sigma(float(sigma)) for sigma in settings.sigmas]
    if decoding == FORCED:
        wanted += [protocol.method("ding_smoothgrad", n=count) for count in settings.samples_curve]
        wanted += [protocol.method(name, label="runner_up") for name in ("attention", "ding_grad")]
    if architecture == "fconv":
        wanted += [protocol.method(name, gradient="true") for name in ("ding_grad", "ding_smoothgrad")]
    wanted += [protocol.method(name, seed=seed) for seed in settings.noise_seeds for name in NOISY]
    return tuple(dict.fromkeys(wanted))
