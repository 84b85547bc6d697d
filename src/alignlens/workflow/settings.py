"""Typed settings from the configuration: what a run of the pipeline does."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.attribution.settings import AttributionSettings
from alignlens.corpora.registry import Registry
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import read_yaml
from alignlens.io.names import TAKEN_IN_RESULTS, check_free
from alignlens.io.schema import check, read_schema, with_defaults
from alignlens.io.typed import read, schema_of
from alignlens.models.presets import Presets
from alignlens.models.settings import architecture_settings
from alignlens.studies.registry import studies
from alignlens.training.settings import TrainingSettings, check_longest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.corpora.registry import Dataset
    from alignlens.models.presets import Preset
    from alignlens.models.settings import ArchitectureSettings

_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|[?&]password=")


@dataclass(frozen=True)
class AlignerRun:
    """One aligner trained on one text: a row group of the result table."""

    name: str
    text: str
    max_pairs: int | None

    @property
    def size(self) -> str:
        """The training size as it stands in paths: ``all`` or a number."""
        return "all" if self.max_pairs is None else str(self.max_pairs)

    @property
    def names(self) -> dict[str, str]:
        """The names of its path."""
        return {"aligner": self.name, "text": self.text, "size": self.size}


@dataclass(frozen=True)
class ModelRun:
    """One translation model to train, under the user's name for it: a preset with changes, all settings typed."""

    name: str
    preset: str
    architecture: str
    source_begin: bool
    model: ArchitectureSettings
    training: TrainingSettings

    def as_json(self) -> str:
        """Returns what decides the trained weights besides seed and text, one line that is equal for equal models."""
        content = {
            "architecture": self.architecture,
            "source_begin": self.source_begin,
            "model": asdict(self.model),
            "training": self.training.as_json(),
        }
        return json.dumps(content, sort_keys=True)


@dataclass(frozen=True)
class Settings:
    """A validated configuration; mappings hold every key, defaults included.

    ``studies`` has the settings of every active study by its name.
    """

    preset: str
    datasets: tuple[Dataset, ...]
    mirror: str | None
    cleaning: Mapping[str, Any]
    max_train_pairs: int | None
    subwords: Mapping[str, Any]
    presets: Presets
    models: tuple[ModelRun, ...]
    seeds: tuple[int, ...]
    directions: str
    decoding: Mapping[str, Any]
    aligners: tuple[AlignerRun, ...]
    symmetrizations: tuple[str, ...]
    studies: Mapping[str, Any]
    attribution: AttributionSettings
    interval: Mapping[str, Any]
    seed: int
    heatmaps: int
    tracking_uri: str | None


def load_settings(config: Mapping[str, Any], project: Path, label: str = "config") -> Settings:
    """Returns the settings of a configuration, or raises with the key path, the value and what is allowed."""
    folder = project / "config"
    schema = config_schema(folder)
    check(dict(config), schema, label)
    filled = with_defaults(config, schema)
    check_free(filled["preset"], TAKEN_IN_RESULTS, f"{label}.preset", "results/ has another folder of that name")
    registry = Registry.load(folder / "datasets.yaml")
    if filled["custom_datasets"]:
        registry = registry.merged(filled["custom_datasets"], f"{label}.custom_datasets")
    known = [dataset.name for dataset in registry]
    for place, name in enumerate(filled["datasets"]):
        if name not in known:
            raise ConfigError(f"{label}.datasets[{place}]: {unknown_name('dataset', name, known)}")
    datasets = tuple(registry.get(name) for name in filled["datasets"])
    for place, dataset in enumerate(datasets):
        _check_files(dataset, f"{label}.datasets[{place}]")
    if filled["mirror"] is not None and not Path(filled["mirror"]).is_dir():
        raise ConfigError(f"{label}.mirror: {filled['mirror']!r} is not a folder")
    runs = [AlignerRun(run["name"], run["text"], run["max_pairs"]) for run in filled["aligners"]]
    for place, run in enumerate(runs):
        if run in runs[:place]:
            raise ConfigError(f"{label}.aligners[{place}]: {run.name} {run.text} stands there twice")
    presets = Presets.load(folder / "models.yaml")
    models = _models(filled, presets, label)
    attribution = AttributionSettings.from_json(filled["attribution"], f"{label}.attribution")
    attribution.check_models(sorted({run.architecture for run in models}), f"{label}.attribution")
    return Settings(
        preset=filled["preset"],
        datasets=datasets,
        mirror=filled["mirror"],
        cleaning=filled["cleaning"],
        max_train_pairs=filled["max_train_pairs"],
        subwords=filled["subwords"],
        presets=presets,
        models=models,
        seeds=tuple(filled["seeds"]),
        directions=filled["directions"],
        decoding=filled["decoding"],
        aligners=tuple(runs),
        symmetrizations=tuple(filled["symmetrizations"]),
        studies=_studies(filled, f"{label}.studies"),
        attribution=attribution,
        interval=filled["interval"],
        seed=filled["seed"],
        heatmaps=filled["heatmaps"],
        tracking_uri=_tracking_uri(filled["tracking"]["uri"], f"{label}.tracking.uri"),
    )


def config_schema(folder: Path) -> dict[str, Any]:
    """Returns the schema of a configuration; each study brings that of its own part."""
    schema = read_schema("config", folder)
    schema["properties"]["studies"]["properties"] = {
        name: {**schema_of(study.settings), "type": ["object", "null"], "description": study.about}
        for name, study in studies().items()
    }
    return schema


def _tracking_uri(uri: str | None, where: str) -> str | None:
    """Returns where runs go; a configuration is copied, committed and printed, so it may hold no password."""
    if uri is not None and _PASSWORD.search(uri):
        raise ConfigError(
            f"{where}: a password does not belong into a configuration. "
            "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead."
        )
    return uri


def _models(filled: Mapping[str, Any], presets: Presets, label: str) -> tuple[ModelRun, ...]:
    """Returns the models of a configuration; a name whose value is null stands for none."""
    wanted = {name: entry for name, entry in filled["models"].items() if entry is not None}
    subwords = filled["subwords"]["kind"]
    return tuple(
        model_of_preset(presets, name, entry, subwords, f"{label}.models.{name}") for name, entry in wanted.items()
    )


def model_of_preset(presets: Presets, name: str, entry: Mapping[str, Any], subwords: str, where: str) -> ModelRun:
    """Returns a model under a name of its own: a preset with changes, for this kind of subwords."""
    preset = presets.get(entry["preset"], f"{where}.preset")
    model, training = entry.get("model", {}), entry.get("training", {})
    presets.check_overrides(preset, model, training, where)
    run = _model_run(name, preset, model, training, where)
    _check_vocabulary(run, subwords, where)
    return run


def _model_run(
    name: str, preset: Preset, model: Mapping[str, Any], training: Mapping[str, Any], where: str
) -> ModelRun:
    """Returns a preset with changes; settings that do not go together are an error with their key path."""
    try:
        run = ModelRun(
            name=name,
            preset=preset.name,
            architecture=preset.architecture,
            source_begin=preset.source_begin,
            model=architecture_settings(preset.architecture, {**preset.model, **model}),
            training=TrainingSettings.from_json({**preset.training, **training}),
        )
        check_longest(run.model, run.training)
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


def _studies(filled: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the settings of the active studies; one whose value is null stands for none."""
    active = {}
    for name, study in studies().items():
        content = filled["studies"].get(name)
        if content is not None:
            active[name] = read(study.settings, content)
            study.check(active[name], filled["datasets"], f"{where}.{name}")
    return active


def _check_files(dataset: Dataset, where: str) -> None:
    """Raises if a file of the user's own is not there; what can be fetched is looked for when it is needed."""
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
