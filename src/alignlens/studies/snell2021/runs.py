"""What the study asks of the pipeline, and what it calls that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.results.paths import DEV, TRAIN
from alignlens.studies.requests import (
    AgreementRequest,
    ClassifierRequest,
    ModelRequest,
    Requests,
    TextRequest,
    ToyRequest,
    TrainedRun,
    TrajectoryRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.studies.requests import Offer
    from alignlens.studies.snell2021.study import Snell2021Settings

#: Translation models: with attention (run A, run B), with uniform attention, bag of words, and W(c + s).
ATTENTION, UNIFORM, PROXY, LINEAR = "snell_attention", "snell_uniform", "snell_proxy", "snell_linear"
#: Classifiers in the same way; the one whose probe is frozen besides.
CLASSIFIERS = ("attention", "uniform", "frozen", "proxy")
#: The pairs of the training text that Tables 7 and 8 are about.
TRAIN_SAMPLE = "train_sample"
#: Logarithms, since probabilities near one would be equal in single precision, and equal numbers count as agreement.
PROBE = "probe,scale=log_p"
#: Labelled texts on which the bag of words learns with a third of the usual rate, as in the released code.
SLOWLY = ("imdb", "imdb-small", "amazon", "yelp")
_SLOW_RATE = 5e-5


def requests(offer: Offer, settings: Snell2021Settings) -> Requests:
    """Returns the models on all datasets, classifiers of labelled texts, their agreement, and generated tasks."""
    datasets = [dataset.name for dataset in offer.datasets] if settings.translation else []
    corpora = settings.classification
    return Requests(
        models=_models(settings) if datasets else [],
        texts=[TextRequest(TRAIN_SAMPLE, of=TRAIN, pairs=settings.train_items)] if datasets else [],
        trajectories=[each for dataset in datasets for each in _trajectories(dataset, settings)],
        classifiers=[each for corpus in corpora for each in _classifiers(corpus, settings)],
        agreements=[
            *(_translated(dataset, split, settings) for dataset in datasets for split in (DEV, TRAIN_SAMPLE)),
            *(_classified(corpus, split, settings) for corpus in corpora for split in (DEV, TRAIN)),
        ],
        toys=[ToyRequest(task, task, content) for task, content in settings.wanted_toys.items()],
        counts=datasets,
    )


def _models(settings: Snell2021Settings) -> list[ModelRequest]:
    """Returns the translation models; what is best is measured by accuracy, as its papers' performance is."""
    first, presets = settings.seeds[:1], settings.presets
    training = {"snapshots": list(settings.checkpoints), "best_by": "accuracy", **settings.training}
    forward: dict[str, Any] = {"directions": "forward", "translates": False}
    models = [
        ModelRequest(ATTENTION, presets.attention, training=training, seeds=settings.seeds, **forward),
        ModelRequest(UNIFORM, presets.attention, {"attention": "uniform"}, training, seeds=first, **forward),
        ModelRequest(PROXY, presets.proxy, training=settings.training, seeds=first, **forward),
    ]
    if presets.linear is not None:
        linear = {"best_by": "accuracy", **settings.training}
        models.append(ModelRequest(LINEAR, presets.linear, training=linear, seeds=first, **forward))
    return models


def _trajectories(dataset: str, settings: Snell2021Settings) -> list[TrajectoryRequest]:
    """Returns what the models are asked: run A for what it attends to, its rivals for what they know of words.

    Of run A the best checkpoint counts; by accuracy that is what training has kept, by BLEU any may be it.
    """
    first, others, bleu = settings.seeds[:1], settings.seeds[1:], settings.bleu
    asked = [
        TrajectoryRequest(dataset, model, methods, split, bleu and model == ATTENTION, seeds, snapshots)
        for split in (DEV, TRAIN_SAMPLE)
        for model, seeds, methods, snapshots in (
            (ATTENTION, first, ("attention", "grad_input"), bleu),
            (ATTENTION, others, ("attention", PROBE), True),
            (UNIFORM, first, (PROBE,), True),
            (PROXY, first, (f"{PROBE},bias=dropped",), True),
        )
    ]
    if settings.presets.linear is not None:
        asked.append(TrajectoryRequest(dataset, LINEAR, ("optimal_attention", PROBE), DEV, bleu, first))
    return asked


def _classifiers(corpus: str, settings: Snell2021Settings) -> list[ClassifierRequest]:
    kept = {"training": {"snapshots": list(settings.classifier_checkpoints), "snapshot_every": 0}}
    usual = _merged(kept, settings.classifier)
    rate = {"training": {"learning_rate": _SLOW_RATE}} if corpus in SLOWLY else {}
    attention, uniform, frozen, proxy = CLASSIFIERS
    first, items = settings.classifier_seeds[:1], {DEV: settings.dev_items, TRAIN: settings.train_items}
    recipes = (
        (attention, settings.classifier_seeds, usual),
        (uniform, first, _merged(usual, {"model": {"attention": "uniform"}})),
        (frozen, first, _merged(usual, {"model": {"trained": "attention"}})),
        (proxy, first, _merged(rate, {"model": {"kind": "bag_of_words"}}, settings.proxy)),
    )
    return [ClassifierRequest(corpus, name, recipe, seeds, items) for name, seeds, recipe in recipes]


def _translated(dataset: str, split: str, settings: Snell2021Settings) -> AgreementRequest:
    first, *others = settings.seeds
    return AgreementRequest(
        dataset,
        split,
        attention=TrainedRun(ATTENTION, first),
        again=_runs(ATTENTION, others),
        uniform=TrainedRun(UNIFORM, first),
        proxy=TrainedRun(PROXY, first),
    )


def _classified(corpus: str, split: str, settings: Snell2021Settings) -> AgreementRequest:
    first, *others = settings.classifier_seeds
    attention, uniform, frozen, proxy = CLASSIFIERS
    return AgreementRequest(
        corpus,
        split,
        attention=TrainedRun(attention, first),
        again=_runs(attention, others),
        uniform=TrainedRun(uniform, first),
        proxy=TrainedRun(proxy, first),
        frozen=TrainedRun(frozen, first),
        logistic=True,
        classified=True,
    )


def _runs(model: str, seeds: Sequence[int]) -> tuple[TrainedRun, ...]:
    return tuple(TrainedRun(model, seed) for seed in seeds)


def _merged(*contents: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings of two levels laid over each other, the last on top; null says nothing."""
    merged: dict[str, Any] = {}
    for content in contents:
        for key, values in content.items():
            merged[key] = {
                **merged.get(key, {}),
                **{name: value for name, value in values.items() if value is not None},
            }
    return merged
