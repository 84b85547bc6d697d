"""What a configuration may say: every key with its default, its limits and what it is for.

Keys that concern one room have their settings there; studies bring their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from alignlens.aligners.settings import AlignerRun
from alignlens.alignment.symmetrizations import SYMMETRIZATIONS
from alignlens.attribution.settings import AttributionSettings
from alignlens.corpora.settings import PrepareSettings
from alignlens.decoding.settings import TranslationSettings
from alignlens.io.limits import HEATMAPS, SEED
from alignlens.io.typed import ONE_LINE, REQUIRED, group, schema_of, setting
from alignlens.metrics.settings import IntervalSettings
from alignlens.models.foreign import ForeignModel
from alignlens.studies.registry import studies
from alignlens.subwords.settings import BpeSettings
from alignlens.tracking.settings import TrackingSettings
from alignlens.training.presets import ChosenModel

_SEED = SEED, "random generators take no other seeds"


@dataclass(frozen=True, kw_only=True)
class PlainSettings(PrepareSettings):
    """The part of a configuration that means what it says; the rest are names that have to be looked up."""

    preset: str = setting(
        REQUIRED, "Name of this configuration; its results go to results/<preset>/.", format="preset-name"
    )
    mirror: str | None = setting(
        None,
        "Folder to search for data files before anything is downloaded (also ALIGNLENS_MIRROR).",
        **ONE_LINE,
    )
    subwords: BpeSettings = group(BpeSettings, "SentencePiece BPE for the neural models.")
    seeds: tuple[int, ...] = setting(
        (1,),
        "Seeds of the models; every model is trained once per seed.",
        *_SEED,
        minItems=1,
        maxItems=1000,
        uniqueItems=True,
    )
    directions: Literal["both", "forward"] = setting(
        "both", "Whether models are trained in both directions, or only from the dataset's source to its target."
    )
    decoding: TranslationSettings = group(TranslationSettings, "How the models translate the test text.")
    aligners: tuple[AlignerRun, ...] = setting(
        (AlignerRun("fast_align"),),
        "Word aligners to train and score, each a group of rows in the table.",
        minItems=1,
    )
    symmetrizations: tuple[str, ...] = setting(
        SYMMETRIZATIONS,
        "How the two directions are combined; the names ending in -lilt need both words free.",
        choices=SYMMETRIZATIONS,
        minItems=1,
        uniqueItems=True,
    )
    attribution: AttributionSettings = group(
        AttributionSettings, "How source words are credited for target words, and how links are read off the scores."
    )
    interval: IntervalSettings = group(IntervalSettings, "Bootstrap interval of every AER.")
    seed: int = setting(1, "Seed of everything else that draws random numbers (eflomal's sampler).", *_SEED)
    heatmaps: int = setting(
        3,
        "Number of test sentences shown as alignment heatmaps per dataset.",
        HEATMAPS,
        "each is a figure on the page",
    )
    tracking: TrackingSettings = group(TrackingSettings, "Where MLflow runs go.")


@dataclass(frozen=True, kw_only=True)
class Configuration(PlainSettings):
    """What a run of the pipeline does. Unknown keys are errors; a key left out has its default."""

    datasets: tuple[str, ...] = setting(
        REQUIRED,
        "Names of datasets (config/datasets.yaml or custom_datasets) to run everything on.",
        minItems=1,
        maxItems=1000,
        uniqueItems=True,
    )
    custom_datasets: dict[str, Any] = setting(
        {}, "Your own datasets, in the form of config/datasets.yaml; an entry replaces one of the same name."
    )
    models: dict[str, ChosenModel | ForeignModel | None] = setting(
        {},
        "Translation models to train or import, under names of your own; null drops a model of the configuration "
        "below.",
        maxProperties=1000,
        propertyNames={"format": "model-name"},
    )
    studies: dict[str, Any] = setting(
        {},
        "The studies of papers to run; most need a dataset with gold links. The settings of a "
        "study are described in its folder under src/alignlens/studies/; null for none.",
        additionalProperties=False,
    )


def config_schema() -> dict[str, Any]:
    """Returns the schema of a configuration; each study brings that of its own part."""
    schema = schema_of(Configuration)
    schema["properties"]["studies"]["properties"] = {
        name: {**schema_of(study.settings), "type": ["object", "null"], "description": study.about}
        for name, study in studies().items()
    }
    return schema
