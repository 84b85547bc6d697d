"""What the study asks of the pipeline, and what it calls that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import method
from alignlens.results.paths import FORCED, FREE, TRAIN
from alignlens.studies.requests import AttributionRequest, ModelRequest, Requests, TextRequest, TrajectoryRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.studies.requests import Offer
    from alignlens.studies.voita2020.study import Voita2020Settings

#: Models that are trained in another way.
SOURCE_DROPOUT, TARGET_DROPOUT, MINIMUM_RISK = "voita_source_dropout", "voita_target_dropout", "voita_minimum_risk"
#: Pairs of one length: with their own targets, and with those of other pairs.
REFERENCE, RANDOM = "voita_reference", "voita_random"
_AMOUNT = re.compile(r"voita_([0-9]+)")
_OBJECTIVES = {
    SOURCE_DROPOUT: "source_word_dropout",
    TARGET_DROPOUT: "target_word_dropout",
    MINIMUM_RISK: "minimum_risk",
}


def trained_on(pairs: int) -> str:
    """Returns the name of the model of the first pairs."""
    return f"voita_{pairs}"


def pairs_of(model: str) -> int | None:
    """Returns how many pairs a model is named after; None for those with another objective."""
    match = _AMOUNT.fullmatch(model)
    return int(match[1]) if match else None


def method_of(alpha: float) -> str:
    """Returns the method: what speaks for the token that the model finds best, whatever stands in the text."""
    return method("lrp", {"alpha": alpha, "label": "top"}).text


def requests(offer: Offer, settings: Voita2020Settings) -> Requests:
    """Returns models, texts of one length that no model has seen, and what is asked about them."""
    methods = tuple(map(method_of, settings.alphas))
    names, seeds = [dataset.name for dataset in offer.datasets], (settings.seed,)
    asked = [
        AttributionRequest(dataset, model, methods, decoding, text, seeds=seeds)
        for dataset in names
        for model, text, decoding in _questions(settings)
    ]
    along = [
        TrajectoryRequest(dataset, trained_on(settings.base_pairs), methods, REFERENCE, seeds=seeds)
        for dataset in names
    ]
    chosen: dict[str, Any] = {"of": TRAIN, "lengths": settings.length, "pairs": settings.sentences}
    texts = [
        TextRequest(name, exchanged=name == RANDOM, skip=settings.pairs[-1], **chosen) for name in (REFERENCE, RANDOM)
    ]
    return Requests(models=list(_models(settings)), attributions=asked, texts=texts, trajectories=along)


def _models(settings: Voita2020Settings) -> Iterator[ModelRequest]:
    """Yields the models; what they are trained on ends before the texts that they are asked about."""
    common: dict[str, Any] = {"directions": "forward", "translates": False, "seeds": (settings.seed,)}
    base, pairs = trained_on(settings.base_pairs), settings.base_pairs
    usual = {**settings.training, **settings.trainings.get(str(pairs), {})}
    kept = {**usual, "snapshots": list(settings.snapshots)}
    yield ModelRequest(base, settings.preset, settings.model, kept, pairs, **common)
    for name, objective in _OBJECTIVES.items():
        changes = getattr(settings, objective)
        if changes is None:
            continue
        training = {**usual, "snapshots": [], **changes}
        training["objective"] = {"name": objective, **changes.get("objective", {})}
        start = base if name == MINIMUM_RISK else None
        yield ModelRequest(name, settings.preset, settings.model, training, pairs, start, **common)
    for amount in _other_amounts(settings):
        training = {**settings.training, **settings.trainings.get(str(amount), {})}
        yield ModelRequest(trained_on(amount), settings.preset, settings.model, training, amount, **common)


def _other_amounts(settings: Voita2020Settings) -> list[int]:
    return [pairs for pairs in settings.pairs if pairs != settings.base_pairs]


def _questions(settings: Voita2020Settings) -> Iterator[tuple[str, str, str]]:
    """Yields model, text and prefixes of what is asked besides the first model on the reference, along its training."""
    base = trained_on(settings.base_pairs)
    yield base, RANDOM, FORCED
    yield base, REFERENCE, FREE
    for name, objective in _OBJECTIVES.items():
        if getattr(settings, objective) is not None:
            yield name, REFERENCE, FREE
            yield name, RANDOM, FORCED
    yield from ((trained_on(pairs), REFERENCE, FORCED) for pairs in _other_amounts(settings))
