"""What the study asks of the pipeline, and what it calls that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import method
from alignlens.results.paths import FORCED
from alignlens.studies.requests import (
    AttributionRequest,
    CalibrationRequest,
    ComparisonRequest,
    ModelRequest,
    Requests,
    TextRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.studies.lu2021.study import Lu2021Settings
    from alignlens.studies.requests import Offer

FIXED, ANNEAL, GATE = FUSIONS = "fixed", "anneal", "gate"
BASELINE = "lu_baseline"
#: The pairs that attention and masks are looked at on, where these are not a whole text.
SAMPLE = "lu_sample"
#: The layer of the example, and of error rates of the study's own models.
LAST = -1
_ALPHA = re.compile(r"lu_gate_alpha_([0-9_]+)")
_AMOUNT = re.compile(r"lu_(?:baseline|gate)_([0-9]+)")


def calibrated(fusion: str) -> str:
    """Returns the name of the model with a fusion."""
    return f"lu_{fusion}"


def swept(alpha: float) -> str:
    """Returns the name of the gate with another weight of the penalty; names have no points."""
    text = f"{alpha:.12f}".rstrip("0").rstrip(".")
    return f"lu_gate_alpha_{text.replace('.', '_')}"


def alpha_of(model: str) -> float | None:
    """Returns the weight of the penalty that a model of the sweep is named after; None for others."""
    match = _ALPHA.fullmatch(model)
    return float(match[1].replace("_", ".")) if match else None


def on_less(model: str, pairs: int) -> str:
    """Returns the name of a model that is trained on the first pairs."""
    return f"{model}_{pairs}"


def pairs_of(model: str) -> int | None:
    """Returns how many pairs a model is named after; None for those of all text."""
    match = _AMOUNT.fullmatch(model)
    return int(match[1]) if match else None


def rank(model: str) -> tuple[int, float]:
    """Returns the place of a model in tables: the four systems, the sweep, less text with its baseline first."""
    systems = (BASELINE, *map(calibrated, FUSIONS))
    alpha, pairs = alpha_of(model), pairs_of(model)
    if alpha is not None:
        return len(systems), alpha
    if pairs is not None:
        return len(systems) + 1, pairs + (0 if model.startswith(BASELINE) else 0.5)
    return systems.index(model) if model in systems else len(systems) + 2, 0.0


def layer_method(name: str, layer: int) -> str:
    """Returns the canonical method of a layer, the mean over its heads."""
    return method(name, {"layer": layer}).text


def requests(offer: Offer, settings: Lu2021Settings) -> Requests:
    """Returns all models, what attention and masks of those on all text say of a text, and what BLEU is compared."""
    datasets = [dataset.name for dataset in offer.datasets]
    split = settings.split if settings.sentences is None else SAMPLE
    fusions = tuple(map(calibrated, settings.fusions))
    sweep = tuple(map(swept, settings.swept))
    chosen = TextRequest(SAMPLE, of=settings.split, pairs=settings.sentences)
    return Requests(
        models=list(_models(settings)),
        attributions=[*_shown(datasets, settings), *_by_layer(offer)],
        texts=[] if settings.sentences is None else [chosen],
        calibrations=[
            CalibrationRequest(dataset, model, split) for dataset in datasets for model in (BASELINE, *fusions, *sweep)
        ],
        comparisons=[
            ComparisonRequest(name, dataset, models, baseline)
            for dataset in datasets
            for name, models, baseline in _compared(settings, fusions, sweep)
        ],
    )


def _shown(datasets: Sequence[str], settings: Lu2021Settings) -> Iterator[AttributionRequest]:
    """Yields what Figure 1 shows of the first seed: attention of the baseline, and what the gate makes of it."""
    if GATE in settings.fusions:
        asked = {BASELINE: ("attention",), calibrated(GATE): ("attention", layer_method("mask", LAST))}
        for dataset in datasets:
            for model, methods in asked.items():
                yield AttributionRequest(dataset, model, methods, seeds=settings.seeds[:1])


def _by_layer(offer: Offer) -> Iterator[AttributionRequest]:
    """Yields masks and attention of every layer of the Transformers of the configuration, where links can be scored."""
    if FORCED not in offer.decodings:
        return
    for dataset in offer.scored:
        for model in offer.models:
            if model.architecture in ("transformer", "calibrated"):
                layers = range(model.sizes["decoder_layers"])
                methods = (layer_method(name, layer) for name in ("attention", "mask") for layer in layers)
                yield AttributionRequest(dataset.name, model.name, tuple(methods))


def _compared(
    settings: Lu2021Settings, fusions: tuple[str, ...], sweep: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yields name, models and baseline of every comparison of BLEU."""
    yield "lu_fusions", fusions, BASELINE
    if sweep:
        yield "lu_alphas", sweep, BASELINE
    for pairs in settings.pairs:
        yield f"lu_{pairs}", (on_less(calibrated(GATE), pairs),), on_less(BASELINE, pairs)


def _models(settings: Lu2021Settings) -> Iterator[ModelRequest]:
    usual = dict(settings.training)
    common: dict[str, Any] = {"seeds": settings.seeds, "directions": settings.directions}
    alone: dict[str, Any] = {"seeds": settings.seeds[:1], "directions": "forward"}
    presets, alpha = settings.presets, settings.alpha
    yield ModelRequest(BASELINE, presets.baseline, settings.model, usual, **common)
    for fusion in settings.fusions:
        training = _game(settings, alpha, usual)
        yield ModelRequest(calibrated(fusion), presets.calibrated, _mixing(settings, fusion), training, **common)
    gate = _mixing(settings, GATE)
    for other in settings.swept:
        training = _game(settings, other, {**usual, **settings.sweep_training})
        yield ModelRequest(swept(other), presets.calibrated, gate, training, **alone)
    for pairs in settings.pairs:
        less = {**usual, **settings.trainings.get(str(pairs), {})}
        yield ModelRequest(on_less(BASELINE, pairs), presets.baseline, settings.model, less, pairs, **common)
        name, training = on_less(calibrated(GATE), pairs), _game(settings, alpha, less)
        yield ModelRequest(name, presets.calibrated, gate, training, pairs, **common)


def _game(settings: Lu2021Settings, alpha: float, training: dict[str, Any]) -> dict[str, Any]:
    """Returns changes of training with the objective that masks are learned by."""
    return {**training, "objective": {"name": "mask_game", "alpha": alpha, "penalty": settings.penalty}}


def _mixing(settings: Lu2021Settings, fusion: str) -> dict[str, Any]:
    """Returns changes of the model for a fusion."""
    annealed = {} if fusion != ANNEAL or settings.annealed is None else {"anneal_updates": settings.annealed}
    return {**settings.model, **settings.calibration, "fusion": fusion, **annealed}
