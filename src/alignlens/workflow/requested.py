"""The checked requests of the active studies, and all models to train: the configuration's and theirs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from alignlens.attribution.registry import reads_masks
from alignlens.attribution.settings import MEASURED_ARCHITECTURES
from alignlens.classification.settings import ClassifierRecipe
from alignlens.errors import ConfigError, unknown_name
from alignlens.models.settings import architecture_of
from alignlens.results.paths import DEV, FINAL, SPLITS, TEST
from alignlens.results.protocol import Protocol
from alignlens.studies.registry import study_of
from alignlens.studies.requests import Offer, OfferedAligner, OfferedDataset, OfferedModel, common_seeds
from alignlens.toys.settings import toy_settings
from alignlens.training.presets import ChosenModel
from alignlens.workflow.settings import check_files, model_of_preset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.corpora.registry import Dataset
    from alignlens.studies.requests import (
        AttributionRequest,
        CalibrationRequest,
        ComparisonRequest,
        EncoderRequest,
        ModelRequest,
        Requests,
        TextRequest,
        TrajectoryRequest,
    )
    from alignlens.workflow.settings import ModelRun, Settings


@dataclass(frozen=True)
class PlannedModel:
    """A model to train or import, and for what: datasets, seeds, both directions or the first."""

    settings: ModelRun
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    directions: str
    pairs: int | None = None
    start_from: str | None = None
    requested: bool = False
    """By a study, which is then the only one to use it."""
    translates: bool = True

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.settings.name


@dataclass(frozen=True)
class Requested:
    """The requests of the active studies by name, and the models to train."""

    of: Mapping[str, Requests]
    models: Sequence[PlannedModel]
    texts: Mapping[str, TextRequest]

    def encoders(self) -> EncoderRequest | None:
        """Returns the encoders that studies look into, the same for all of them; None if no study does."""
        return next((requests.encoders for requests in self.of.values() if requests.encoders is not None), None)


def has_gold(dataset: Dataset) -> bool:
    """Returns whether links of the test text can be scored."""
    return dataset.kind == "synthetic" or dataset.gold is not None


def has_dev_gold(dataset: Dataset) -> bool:
    """Returns whether links of the dev text can be scored, too."""
    return has_gold(dataset) and (dataset.kind == "synthetic" or dataset.dev_gold is not None)


def protocol_of(settings: Settings) -> Protocol:
    """Returns the noise of the tables."""
    return Protocol(float(settings.attribution.sigma), settings.attribution.samples)


def requested(settings: Settings) -> Requested:
    """Returns what the studies of a configuration ask for; raises with the study's name if a request is impossible."""
    offer = _offer(settings)
    requests_of = {name: study_of(name).requests(offer, content) for name, content in settings.studies.items()}
    _check_encoders(requests_of)
    names = tuple(dataset.name for dataset in settings.datasets)
    shared = [PlannedModel(run, names, seeds_of(run, settings), settings.directions) for run in settings.models]
    models = {model.name: model for model in shared}
    for study, requests in requests_of.items():
        for request in requests.models:
            planned = _planned(request, settings, f"studies.{study}")
            models[request.name] = _united(models.get(request.name), planned, f"studies.{study}")
    texts = _texts(requests_of)
    for study, requests in requests_of.items():
        _check(study, requests, models, texts)
        _check_learning(study, requests, settings)
        _check_calibrations(study, requests, models)
    _check_comparisons(requests_of, models)
    return Requested(requests_of, tuple(models.values()), texts)


def seeds_of(run: ModelRun, settings: Settings) -> tuple[int, ...]:
    """Returns the seeds of a model of the configuration: one of a model from elsewhere, the first, for its paths."""
    return settings.seeds if run.imported is None else settings.seeds[:1]


def _texts(requests_of: Mapping[str, Requests]) -> dict[str, TextRequest]:
    texts: dict[str, TextRequest] = {}
    for study, requests in requests_of.items():
        for text in requests.texts:
            if text.name in SPLITS or texts.setdefault(text.name, text) != text:
                raise ConfigError(f"studies.{study}: asks for a different text named {text.name}. Rename it.")
            if text.of not in SPLITS:
                raise ConfigError(f"studies.{study}.{text.name}: {unknown_name('text', text.of, SPLITS)}")
    return texts


def _offer(settings: Settings) -> Offer:
    return Offer(
        datasets=tuple(OfferedDataset(each.name, has_gold(each), has_dev_gold(each)) for each in settings.datasets),
        models=tuple(OfferedModel(run.name, run.architecture, asdict(run.model)) for run in settings.models),
        aligners=tuple(OfferedAligner(run.name, run.text, run.size) for run in settings.aligners),
        seeds=settings.seeds,
        directions=settings.directions,
        decodings=settings.attribution.decodings,
        protocol=protocol_of(settings),
    )


def _planned(request: ModelRequest, settings: Settings, where: str) -> PlannedModel:
    names = tuple(dataset.name for dataset in settings.datasets)
    run = model_of_preset(
        settings.presets,
        request.name,
        ChosenModel(request.preset, dict(request.model), dict(request.training)),
        settings.subwords.kind,
        f"{where}.{request.name}",
    )
    return PlannedModel(
        run,
        names if request.datasets is None else request.datasets,
        settings.seeds if request.seeds is None else request.seeds,
        settings.directions if request.directions is None else request.directions,
        request.pairs,
        request.start_from,
        requested=True,
        translates=request.translates,
    )


def _united(known: PlannedModel | None, new: PlannedModel, where: str) -> PlannedModel:
    """Returns one model for two requests of the same name, which must mean the same weights."""
    if known is None:
        return new
    if any(getattr(known, key) != getattr(new, key) for key in ("settings", "pairs", "start_from", "requested")):
        raise ConfigError(f"{where}: asks for a different model named {new.name}. Rename one of them.")
    return replace(
        known,
        datasets=tuple(dict.fromkeys((*known.datasets, *new.datasets))),
        seeds=tuple(dict.fromkeys((*known.seeds, *new.seeds))),
        directions=known.directions if known.directions == new.directions else "both",
        translates=known.translates or new.translates,
    )


def _check(
    study: str, requests: Requests, models: Mapping[str, PlannedModel], texts: Mapping[str, TextRequest]
) -> None:
    where = f"studies.{study}"
    for model in requests.models:
        if model.start_from is not None and model.start_from not in models:
            raise ConfigError(f"{where}.{model.name}: {unknown_name('model', model.start_from, list(models))}")
    questions: list[AttributionRequest | TrajectoryRequest | CalibrationRequest] = [
        *requests.attributions,
        *requests.trajectories,
        *requests.calibrations,
    ]
    for one in questions:
        if one.model not in models:
            raise ConfigError(f"{where}: {unknown_name('model', one.model, list(models))}")
        known = [TEST, DEV, *texts]
        if one.split not in known:
            raise ConfigError(f"{where}: {unknown_name('text', one.split, known)}")
    for asked in requests.attributions:
        run = models[asked.model].settings
        snapshots = run.training.snapshots
        if asked.weights != FINAL and int(asked.weights) not in snapshots:
            raise ConfigError(
                f"{where}: asks for update {asked.weights} of {asked.model}, which keeps no such snapshot. "
                f"Add it to models.{asked.model}.training.snapshots."
            )
        if asked.weights != FINAL and reads_masks(asked.methods) and not architecture_of(run.architecture).has_masks:
            raise ConfigError(
                f"{where}: asks for masks of {asked.model} at update {asked.weights}, but its mask nets are those of "
                "the final weights. Ask for masks of those."
            )


def _check_learning(study: str, requests: Requests, settings: Settings) -> None:
    """Raises for unknown labelled texts, and for impossible settings of classifiers and toys."""
    where = f"studies.{study}"
    for classifier in requests.classifiers:
        if classifier.corpus not in settings.labelled:
            problem = unknown_name("text classification set", classifier.corpus, settings.labelled)
            raise ConfigError(f"{where}.classification: {problem}")
        check_files(settings.labelled[classifier.corpus], f"{where}.classification")
        ClassifierRecipe.from_json(classifier.settings, f"{where}.{classifier.name}")
    for toy in requests.toys:
        toy_settings(toy.task, toy.settings, f"{where}.toys.{toy.name}")


def _check_calibrations(study: str, requests: Requests, models: Mapping[str, PlannedModel]) -> None:
    """Raises for models that are not Transformers, and for trainings that are not planned."""
    where = f"studies.{study}"
    for asked in requests.calibrations:
        model = models[asked.model]
        _check_dataset(where, model, asked.dataset)
        if model.settings.architecture not in MEASURED_ARCHITECTURES:
            raise ConfigError(
                f"{where}: asks for the calibration of {model.name}, whose architecture is "
                f"{model.settings.architecture}. Ask for one of {' or '.join(MEASURED_ARCHITECTURES)}."
            )
        for seed in asked.seeds or ():
            if seed not in model.seeds:
                known = ", ".join(map(str, model.seeds))
                raise ConfigError(
                    f"{where}: asks for seed {seed} of {model.name}, which has {known}. Ask for one of those."
                )


def _check_comparisons(requests_of: Mapping[str, Requests], models: Mapping[str, PlannedModel]) -> None:
    """Raises for comparisons of models that cannot be compared, and for two of the same name."""
    known: dict[tuple[str, str], ComparisonRequest] = {}
    for study, requests in requests_of.items():
        for asked in requests.comparisons:
            where = f"studies.{study}.{asked.name}"
            for name in asked.systems():
                if name not in models:
                    raise ConfigError(f"{where}: {unknown_name('model', name, list(models))}")
                _check_dataset(where, models[name], asked.dataset)
                if not models[name].translates:
                    raise ConfigError(
                        f"{where}: compares {name}, which does not translate. Make it translate, or leave it out."
                    )
            if len(asked.systems()) < 2:
                raise ConfigError(f"{where}: has nothing to compare {asked.baseline} with. Name another model.")
            if not common_seeds(models[name].seeds for name in asked.systems()):
                raise ConfigError(f"{where}: its models have no seed in common. Train them with the same seeds.")
            if known.setdefault((asked.dataset, asked.name), asked) != asked:
                raise ConfigError(f"{where}: another comparison on {asked.dataset} has that name. Rename it.")


def _check_dataset(where: str, model: PlannedModel, dataset: str) -> None:
    if dataset not in model.datasets:
        raise ConfigError(f"{where}: {model.name}: {unknown_name('dataset', dataset, model.datasets)}")


def _check_encoders(requests_of: Mapping[str, Requests]) -> None:
    """Raises if two studies ask for different encoders, which would share their folders of results."""
    asked = [(name, requests.encoders) for name, requests in requests_of.items() if requests.encoders is not None]
    for name, encoders in asked[1:]:
        if encoders != asked[0][1]:
            raise ConfigError(f"studies.{name}: asks for other encoders than {asked[0][0]}. Let both ask for the same.")
