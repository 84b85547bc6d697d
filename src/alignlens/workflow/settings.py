"""Typed settings from the configuration: what a run of the pipeline does."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.corpora.registry import Registry
from alignlens.errors import ConfigError
from alignlens.io.documents import read_yaml
from alignlens.io.names import TAKEN_IN_RESULTS, check_free
from alignlens.io.schema import check
from alignlens.io.typed import read, written
from alignlens.models.foreign import ForeignModel
from alignlens.models.settings import architecture_settings
from alignlens.studies.registry import studies
from alignlens.training.presets import Presets, check_parts
from alignlens.training.settings import TrainingSettings, check_together
from alignlens.workflow.configuration import Configuration, PlainSettings, config_schema
from alignlens.workflow.foreign import imported_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.corpora.registry import Dataset, LabelledSet
    from alignlens.models.base_settings import ArchitectureSettings
    from alignlens.training.presets import ChosenModel, Preset
    from alignlens.workflow.foreign import Imported


@dataclass(frozen=True)
class ModelRun:
    """One translation model, under the user's name for it: a preset with changes to train, or one to import."""

    name: str
    preset: str
    architecture: str
    source_begin: bool
    model: ArchitectureSettings
    training: TrainingSettings
    """For a model from elsewhere it has no updates."""
    imported: Imported | None = None

    def as_json(self) -> str:
        """Returns what decides the trained weights besides seed and text, one line that is equal for equal models."""
        content = {
            "architecture": self.architecture,
            "source_begin": self.source_begin,
            "model": written(self.model),
            "training": self.training.as_json(),
        }
        return json.dumps(content, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Settings(PlainSettings):
    """A validated configuration, with names replaced by what they refer to.

    ``studies`` has the settings of every active study by its name.
    """

    datasets: tuple[Dataset, ...]
    labelled: Mapping[str, LabelledSet]
    """All known labelled texts that classifiers can be trained on."""
    presets: Presets
    models: tuple[ModelRun, ...]
    studies: Mapping[str, Any]


def load_settings(config: Mapping[str, Any], project: Path, label: str = "config") -> Settings:
    """Returns the settings of a configuration, or raises with the key path, the value and what is allowed."""
    check(dict(config), config_schema(), label)
    _check_kinds(config.get("models", {}), f"{label}.models")
    try:
        configuration = read(Configuration, config)
    except ConfigError as error:  # values that contradict each other
        raise ConfigError(f"{label}.{error}") from None
    check_free(configuration.preset, TAKEN_IN_RESULTS, f"{label}.preset", "results/ has another folder of that name")
    registry = _registry(configuration, project / "config" / "datasets.yaml", label)
    datasets = _datasets(configuration, registry, label)
    if configuration.mirror is not None and not Path(configuration.mirror).is_dir():
        raise ConfigError(f"{label}.mirror: {configuration.mirror!r} is not a folder")
    for place, run in enumerate(configuration.aligners):
        if run in configuration.aligners[:place]:
            raise ConfigError(f"{label}.aligners[{place}]: {run.name} {run.text} appears twice")
    presets = Presets.load(project / "config" / "models.yaml")
    models = _models(configuration, presets, datasets, label)
    attribution = configuration.attribution.canonical(f"{label}.attribution")
    attribution.check_models(sorted({run.architecture for run in models}), f"{label}.attribution")
    plain = {each.name: getattr(configuration, each.name) for each in fields(PlainSettings)}
    return Settings(
        **{**plain, "attribution": attribution},
        datasets=datasets,
        labelled=registry.labelled,
        presets=presets,
        models=models,
        studies=_studies(configuration, f"{label}.studies"),
    )


def _registry(configuration: Configuration, path: Path, label: str) -> Registry:
    """Returns all datasets that a configuration can name."""
    registry = Registry.load(path)
    if configuration.custom_datasets:
        registry = registry.merged(configuration.custom_datasets, f"{label}.custom_datasets")
    return registry


def _datasets(configuration: Configuration, registry: Registry, label: str) -> tuple[Dataset, ...]:
    """Returns the bitexts of a configuration."""
    datasets = []
    for place, name in enumerate(configuration.datasets):
        where = f"{label}.datasets[{place}]"
        try:
            datasets.append(registry.get(name))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        check_files(datasets[-1], where)
    return tuple(datasets)


def _check_kinds(models: Mapping[str, Any], where: str) -> None:
    """Raises for a model that is neither to be trained nor from elsewhere, or both."""
    for name, chosen in models.items():
        others = [key for key in chosen or () if key != "huggingface"]
        if chosen is None or ("preset" in others and "huggingface" not in chosen):
            continue
        if "huggingface" not in chosen:
            raise ConfigError(f"{where}.{name}: missing key preset, or huggingface for a model from elsewhere")
        if others:
            raise ConfigError(
                f"{where}.{name}.{others[0]}: does not go with huggingface: a model from elsewhere cannot be changed. "
                "Leave one of them out, or give the two different names."
            )


def _models(
    configuration: Configuration, presets: Presets, datasets: Sequence[Dataset], label: str
) -> tuple[ModelRun, ...]:
    """Returns the models of a configuration; a name whose value is null is left out."""
    models = []
    for name, chosen in configuration.models.items():
        where = f"{label}.models.{name}"
        if isinstance(chosen, ForeignModel):
            pairs = [dataset.pair for dataset in datasets]
            pairs += [(target, source) for source, target in pairs] if configuration.directions == "both" else []
            models.append(_foreign_model(name, chosen, list(dict.fromkeys(pairs)), where))
        elif chosen is not None:
            models.append(model_of_preset(presets, name, chosen, configuration.subwords.kind, where))
    return tuple(models)


def _foreign_model(name: str, chosen: ForeignModel, directions: Sequence[tuple[str, str]], where: str) -> ModelRun:
    """Returns a model from elsewhere under a name of its own."""
    imported, model = imported_from(chosen, directions, where)
    return ModelRun(
        name=name,
        preset="huggingface",
        architecture=model.architecture,
        source_begin=model.source_begin,
        model=model.settings,
        training=TrainingSettings(max_updates=0),
        imported=imported,
    )


def model_of_preset(presets: Presets, name: str, chosen: ChosenModel, subwords: str, where: str) -> ModelRun:
    """Returns a model under a name of its own: a preset with changes, for this kind of subwords."""
    preset = presets.get(chosen.preset, f"{where}.preset")
    check_parts(preset.architecture, chosen.model, chosen.training, where)
    run = _model_run(name, preset, chosen, where)
    _check_vocabulary(run, subwords, where)
    return run


def _model_run(name: str, preset: Preset, chosen: ChosenModel, where: str) -> ModelRun:
    """Returns a preset with changes; raises with the key path if settings contradict each other."""
    try:
        run = ModelRun(
            name=name,
            preset=preset.name,
            architecture=preset.architecture,
            source_begin=preset.source_begin,
            model=architecture_settings(preset.architecture, {**preset.model, **chosen.model}),
            training=TrainingSettings.from_json({**preset.training, **chosen.training}),
        )
        check_together(run.architecture, run.model, run.training)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None
    return run


def _check_vocabulary(run: ModelRun, subwords: str, where: str) -> None:
    sharing = run.model.embeddings
    if sharing.startswith("shared") and subwords == "separate":
        raise ConfigError(
            f"{where}.model.embeddings: {sharing} needs one vocabulary for both sides, but subwords.kind is separate. "
            "Set it to joint, or embeddings to separate or tied."
        )


def _studies(configuration: Configuration, where: str) -> dict[str, Any]:
    """Returns the settings of the active studies; one whose value is null is left out."""
    active = {}
    for name, study in studies().items():
        content = configuration.studies.get(name)
        if content is not None:
            active[name] = read(study.settings, content)
            study.check(active[name], configuration.datasets, f"{where}.{name}")
    return active


def check_files(dataset: Dataset | LabelledSet, where: str) -> None:
    """Raises if a local file does not exist; files that can be fetched are checked when they are needed."""
    for role, file in dataset.files().items():
        if file.path is not None and not Path(file.path).is_file():
            raise ConfigError(f"{where}: {dataset.name}.{role}: no such file: {file.path!r}")


def read_config(paths: Sequence[Path | str]) -> dict[str, Any]:
    """Returns the configuration of several files laid over each other, as Snakemake lays --configfile."""
    merged: dict[str, Any] = {}
    for path in paths:
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: not a mapping of keys; see config/README.md")
        merged = _laid_over(merged, content)
    return merged


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``below`` updated by ``above``, mappings merged and everything else replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _laid_over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
