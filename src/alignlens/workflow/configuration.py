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
        REQUIRED,
        "Name of the configuration; results are written to `results/<preset>/`. Give your own configuration its "
        "own name.",
        format="preset-name",
    )
    mirror: str | None = setting(
        None,
        "Folder searched for data files before anything is downloaded; the environment variable "
        "`ALIGNLENS_MIRROR` does the same.",
        **ONE_LINE,
    )
    subwords: BpeSettings = group(BpeSettings, "SentencePiece BPE for the neural models.")
    seeds: tuple[int, ...] = setting(
        (1,),
        "Seeds of the models: each model is trained once with each seed; tables then give mean and standard "
        "deviation. A model from elsewhere has only the first, in its paths and tables.",
        *_SEED,
        minItems=1,
        maxItems=1000,
        uniqueItems=True,
    )
    directions: Literal["both", "forward"] = setting(
        "both",
        "`both`, or `forward`: models only translate from the dataset's source side to its target side. Aligners "
        "always run both ways.",
    )
    decoding: TranslationSettings = group(TranslationSettings, "How the models translate the test text.")
    aligners: tuple[AlignerRun, ...] = setting(
        (AlignerRun("fast_align"),),
        "The rows of the table: a list of entries with these keys.",
        minItems=1,
    )
    symmetrizations: tuple[str, ...] = setting(
        SYMMETRIZATIONS,
        "How the two directions are combined (docs/conventions.md).",
        choices=SYMMETRIZATIONS,
        minItems=1,
        uniqueItems=True,
    )
    attribution: AttributionSettings = group(
        AttributionSettings, "Which source words a model used for a target word, and how those scores become links."
    )
    interval: IntervalSettings = group(IntervalSettings, "Bootstrap interval of every AER.")
    seed: int = setting(1, "Seed of everything else that draws random numbers (eflomal).", *_SEED)
    heatmaps: int = setting(
        3,
        "Test sentences shown as heatmaps in the report.",
        HEATMAPS,
        "each is a figure on the page",
    )
    tracking: TrackingSettings = group(TrackingSettings, "Where MLflow runs go (docs/tracking.md).")


@dataclass(frozen=True, kw_only=True)
class Configuration(PlainSettings):
    """What a run of the pipeline does. Unknown keys are errors; a key left out has its default."""

    datasets: tuple[str, ...] = setting(
        REQUIRED,
        "Datasets to run everything on.",
        minItems=1,
        maxItems=1000,
        uniqueItems=True,
    )
    custom_datasets: dict[str, Any] = setting(
        {}, "Your own datasets in the form of `datasets.yaml`; an entry replaces one of the same name."
    )
    models: dict[str, ChosenModel | ForeignModel | None] = setting(
        {},
        "Translation models: a name that you choose, and below it the next three keys for a model to train, or "
        "only `huggingface` for a model from elsewhere. `config.yaml` has three; `name: null` leaves one of them "
        "out.",
        maxProperties=1000,
        propertyNames={"format": "model-name"},
    )
    studies: dict[str, Any] = setting(
        {},
        "The studies that the pipeline produces, under `results/<preset>/<study>/`: each has the tables, figures "
        "and claims of one paper, and its own settings; `{}` for its defaults, `null` to remove one. "
        "`config.yaml` lists them all. Studies that score links leave out datasets without gold links. `snakemake "
        "NAME` builds one study and what it needs.",
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
