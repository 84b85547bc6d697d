"""What the study asks of the pipeline, and what it calls that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import method
from alignlens.results.paths import FINAL, FORCED, FREE, TRAIN
from alignlens.studies.requests import AttributionRequest, ModelRequest, Requests, TextRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.studies.requests import Offer
    from alignlens.studies.voita2020.study import Voita2020Settings

#: The model of Figures 1 to 3 and 8 to 13, and those that are trained in another way.
BASE = "voita_base"
SOURCE_DROPOUT, TARGET_DROPOUT, MINIMUM_RISK = "voita_source_dropout", "voita_target_dropout", "voita_minimum_risk"
#: Pairs of one length: with their own targets, and with those of other pairs.
REFERENCE, RANDOM = "voita_reference", "voita_random"
_OBJECTIVES = {
    SOURCE_DROPOUT: "source_word_dropout",
    TARGET_DROPOUT: "target_word_dropout",
    MINIMUM_RISK: "minimum_risk",
}


def smaller(pairs: int) -> str:
    """Returns the name of the model that is trained on the first pairs only."""
    return f"voita_{pairs}"


def method_of(alpha: float) -> str:
    """Returns the method: what speaks for the token that the model finds best, whatever stands in the text."""
    return method("lrp", {"alpha": alpha, "label": "top"}).text


def requests(offer: Offer, settings: Voita2020Settings) -> Requests:
    """Returns models, texts of one length that no model has seen, and what is asked about them."""
    methods = tuple(map(method_of, settings.alphas))
    asked = [
        AttributionRequest(dataset.name, model, methods, decoding, text, weights, settings.seeds)
        for dataset in offer.datasets
        for model, weights, text, decoding in _questions(settings)
    ]
    chosen: dict[str, Any] = {"of": TRAIN, "lengths": settings.length, "pairs": settings.sentences}
    texts = [
        TextRequest(name, exchanged=name == RANDOM, skip=settings.most_pairs, **chosen) for name in (REFERENCE, RANDOM)
    ]
    return Requests(models=list(_models(settings)), attributions=asked, texts=texts)


def _models(settings: Voita2020Settings) -> Iterator[ModelRequest]:
    """Yields the models; what they are trained on ends before the texts that they are asked about."""
    common: dict[str, Any] = {"directions": "forward", "translates": False, "seeds": settings.seeds}
    kept = {**settings.training, "snapshots": list(settings.snapshots)}
    yield ModelRequest(BASE, settings.preset, settings.model, kept, settings.most_pairs, **common)
    for name, objective in _OBJECTIVES.items():
        changes = getattr(settings, objective)
        if changes is None:
            continue
        training = {**settings.training, "snapshots": [], **changes}
        training["objective"] = {"name": objective, **changes.get("objective", {})}
        start = BASE if name == MINIMUM_RISK else None
        yield ModelRequest(name, settings.preset, settings.model, training, settings.most_pairs, start, **common)
    for pairs in settings.pairs[:-1]:
        yield ModelRequest(smaller(pairs), settings.preset, settings.model, settings.training, pairs, **common)


def _questions(settings: Voita2020Settings) -> Iterator[tuple[str, str, str, str]]:
    """Yields model, weights, text and prefixes of everything that is asked."""
    yield from ((BASE, FINAL, text, FORCED) for text in (REFERENCE, RANDOM))
    yield BASE, FINAL, REFERENCE, FREE
    for name, objective in _OBJECTIVES.items():
        if getattr(settings, objective) is not None:
            yield name, FINAL, REFERENCE, FREE
            yield name, FINAL, RANDOM, FORCED
    yield from ((smaller(pairs), FINAL, REFERENCE, FORCED) for pairs in settings.pairs[:-1])
    yield from ((BASE, str(update), REFERENCE, FORCED) for update in settings.snapshots)
