"""From settings to runs to paths below ``results/<preset>/``, as ``results.paths`` has them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.aligners.registry import spec_of
from alignlens.io.typed import written
from alignlens.results.manifest import Manifest
from alignlens.results.paths import (
    ALIGNER_LINKS,
    ALIGNER_METRICS,
    ALIGNER_MODEL,
    BLEU,
    FORCED_SCORES,
    PIECES,
    PREPARED,
    SPLITS,
    TRAINED,
    TRANSLATION,
)
from alignlens.results.protocol import interval_of
from alignlens.workflow.attribution_plan import AttributionPlan
from alignlens.workflow.calibration_plan import CalibrationPlan
from alignlens.workflow.foreign_plan import ForeignPlan
from alignlens.workflow.learning_plan import LearningPlan
from alignlens.workflow.report_plan import ReportPlan
from alignlens.workflow.requested import has_dev_gold, has_gold, protocol_of, requested
from alignlens.workflow.study_plan import StudyPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alignlens.aligners.settings import AlignerRun
    from alignlens.corpora.registry import Dataset
    from alignlens.results.paths import PathPattern
    from alignlens.results.protocol import Protocol
    from alignlens.workflow.requested import PlannedModel, Requested
    from alignlens.workflow.settings import ModelRun, Settings

SIDES = ("source", "target")
TRANSLATED = (TRANSLATION, BLEU, FORCED_SCORES)


@dataclass(frozen=True)
class Plan:
    """Everything a configuration runs, as paths below the project's root."""

    settings: Settings
    root: Path

    @classmethod
    def of(cls, settings: Settings, results: Path | str = "results") -> Plan:
        """Returns the plan of a configuration; raises if a study requests something impossible."""
        plan = cls(settings, Path(results) / settings.preset)
        _ = plan.requested
        return plan

    @cached_property
    def requested(self) -> Requested:
        """The requests of studies, and all models to train."""
        return requested(self.settings)

    @property
    def protocol(self) -> Protocol:
        """The noise of the tables."""
        return protocol_of(self.settings)

    def path(self, pattern: PathPattern, **names: object) -> str:
        """Returns a path of the grammar, below the project's root."""
        return str(self.root / pattern.of(**names))

    def manifest(self, files: Iterable[str]) -> Manifest:
        """Returns the manifest of these files."""
        below = (Path(file).relative_to(self.root).as_posix() for file in files)
        interval = interval_of({"interval": asdict(self.settings.interval)})
        return Manifest(self.root, tuple(dict.fromkeys(below)), self.protocol, interval)

    def dataset(self, name: str) -> Dataset:
        """Returns a dataset of this configuration."""
        return next(dataset for dataset in self.settings.datasets if dataset.name == name)

    def directions(self, dataset: str) -> tuple[str, str]:
        """Returns the names of the two directions, the dataset's own first: ``de-en``, ``en-de``."""
        source, target = self.dataset(dataset).pair
        return f"{source}-{target}", f"{target}-{source}"

    def is_reverse(self, dataset: str, direction: str) -> bool:
        """Returns whether a direction translates from the dataset's target side."""
        return direction == self.directions(dataset)[1]

    def side(self, dataset: str, direction: str, place: int) -> str:
        """Returns the side of the dataset that a model of a direction reads (``place`` 0) or writes (1)."""
        return SIDES[1 - place if self.is_reverse(dataset, direction) else place]

    def given(
        self, pattern: PathPattern, place: int, *, dataset: str, direction: str, model: str = "", **names: object
    ) -> str:
        """Returns a text that a model of a direction reads (``place`` 0) or writes (1), in the pieces that it knows."""
        own_pattern, side = self.foreign.pattern(pattern, model), self.side(dataset, direction, place)
        return self.path(
            own_pattern, **{**names, "dataset": dataset, "direction": direction, "model": model, "side": side}
        )

    def has_gold(self, dataset: str) -> bool:
        """Returns whether links of the test text can be scored."""
        return has_gold(self.dataset(dataset))

    def has_dev_gold(self, dataset: str) -> bool:
        """Returns whether links of the dev text can be scored, too."""
        return has_dev_gold(self.dataset(dataset))

    def choice(self, files: str) -> str:
        """Returns a pattern of the datasets that have causes (``synthetic``), gold links, or text only.

        ``dev_gold`` are gold links of test and dev text, ``gold`` of the test text alone.
        """
        names = [dataset.name for dataset in self.settings.datasets if self.files_of(dataset) == files]
        return "|".join(names) or "(?!)"

    def files_of(self, dataset: Dataset) -> str:
        """Returns which files preparation writes for a dataset: one of the words that ``choice`` takes."""
        if dataset.kind == "synthetic":
            return "synthetic"
        if self.has_dev_gold(dataset.name):
            return "dev_gold"
        return "gold" if self.has_gold(dataset.name) else "text"

    def definition(self, dataset: str) -> Mapping[str, Any]:
        """Returns a dataset as it is declared, so that a changed declaration prepares it again."""
        return self.dataset(dataset).declared

    def prepared(self) -> list[str]:
        """Returns the fetch manifests of all datasets: once they exist, no step needs a network."""
        return [self.path(PREPARED, dataset=dataset.name) for dataset in self.settings.datasets]

    def pieces(self) -> list[str]:
        """Returns all segmented text."""
        return [
            self.path(PIECES, dataset=dataset.name, split=split, side=side)
            for dataset in self.settings.datasets
            for split in SPLITS
            for side in SIDES
        ]

    def planned(self, name: str) -> PlannedModel:
        """Returns a model to train or import, and for what."""
        return next(model for model in self.requested.models if model.name == name)

    def model(self, name: str) -> ModelRun:
        """Returns how a model is made and trained."""
        return self.planned(name).settings

    def vocabulary(self, name: str) -> int:
        """Returns how many pieces a model knows at most, of either side."""
        imported = self.model(name).imported
        return self.settings.subwords.vocab if imported is None else imported.vocabulary

    def trained_directions(self, dataset: str, model: str) -> tuple[str, ...]:
        """Returns the directions that a model is trained or imported in."""
        return self.directions(dataset)[: 2 if self.planned(model).directions == "both" else 1]

    def model_runs(self) -> Iterator[tuple[Dataset, str, ModelRun, int]]:
        """Yields every dataset, direction, model and seed that is trained or imported."""
        return (
            (self.dataset(dataset), direction, model.settings, seed)
            for dataset in (each.name for each in self.settings.datasets)
            for direction in self.directions(dataset)
            for model in self.requested.models
            if dataset in model.datasets and direction in self.trained_directions(dataset, model.name)
            for seed in model.seeds
        )

    def start_of(self, dataset: str, direction: str, model: str, seed: str) -> list[str]:
        """Returns the trained model that a training begins with: none or one."""
        start = self.planned(model).start_from
        return (
            [] if start is None else [self.path(TRAINED, dataset=dataset, direction=direction, model=start, seed=seed)]
        )

    def models(self) -> list[str]:
        """Returns the folders of all models."""
        return [
            self.path(TRAINED, dataset=dataset.name, direction=direction, model=run.name, seed=seed)
            for dataset, direction, run, seed in self.model_runs()
        ]

    def translations(self) -> list[str]:
        """Returns the translations of the test text by every model, and what they and the reference score."""
        return [
            self.path(pattern, dataset=dataset.name, direction=direction, model=run.name, seed=seed)
            for dataset, direction, run, seed in self.model_runs()
            if self.planned(run.name).translates
            for pattern in TRANSLATED
        ]

    @cached_property
    def foreign(self) -> ForeignPlan:
        """Returns the part of the plan that imports models from elsewhere."""
        return ForeignPlan(self)

    @cached_property
    def attribution(self) -> AttributionPlan:
        """Returns the part of the plan that asks models what they looked at."""
        return AttributionPlan(self)

    @cached_property
    def learning(self) -> LearningPlan:
        """Returns the part of the plan that shows how models come to attend."""
        return LearningPlan(self)

    @cached_property
    def calibration(self) -> CalibrationPlan:
        """Returns the part of the plan that measures attention and masks, and compares translations."""
        return CalibrationPlan(self)

    @cached_property
    def studies(self) -> StudyPlan:
        """Returns the part of the plan that ends in the tables of papers."""
        return StudyPlan(self)

    @cached_property
    def report(self) -> ReportPlan:
        """Returns the part of the plan that ends in the report."""
        return ReportPlan(self)

    def aligner_runs(self) -> Iterator[tuple[Dataset, AlignerRun]]:
        """Yields every aligner run of every dataset."""
        return ((dataset, run) for dataset in self.settings.datasets for run in self.settings.aligners)

    def links_of(self, dataset: str) -> tuple[str, ...]:
        """Returns the names of the links of an aligner run: both directions, then every symmetrisation."""
        return (*self.directions(dataset), *self.settings.symmetrizations)

    def links(self) -> list[str]:
        """Returns all links: both directions and every symmetrisation of every aligner run."""
        return [
            self.path(ALIGNER_LINKS, dataset=dataset.name, links=name, **run.names)
            for dataset, run in self.aligner_runs()
            for name in self.links_of(dataset.name)
        ]

    def metrics(self) -> list[str]:
        """Returns the score files of every aligner run on a dataset with gold links."""
        return [
            self.path(ALIGNER_METRICS, dataset=dataset.name, **run.names)
            for dataset, run in self.aligner_runs()
            if self.has_gold(dataset.name)
        ]

    def parent_model(self, dataset: str, aligner: str, text: str, size: str, direction: str) -> list[str]:
        """Returns the stored model that an aligner starts from: none or one."""
        parent = spec_of(aligner).parent
        if parent is None:
            return []
        return [self.path(ALIGNER_MODEL, dataset=dataset, aligner=parent, text=text, size=size, direction=direction)]

    def targets(self) -> list[str]:
        """Returns the final files of the whole configuration."""
        models = [*self.models(), *self.translations()]
        links = [*self.links(), *self.metrics(), *self.attribution.targets()]
        studied = [*self.learning.targets(), *self.calibration.targets(), *self.studies.targets()]
        return [*self.pieces(), *models, *links, *studied, *self.report.files()]

    def preparation_settings(self) -> dict[str, Any]:
        """Returns what ``alignlens data prepare`` needs to know of the configuration."""
        return {"cleaning": written(self.settings.cleaning), "max_train_pairs": self.settings.max_train_pairs}

    def summary(self) -> dict[str, Any]:
        """Returns a summary of what will run, for printing and for ``--json``."""
        return {
            "preset": self.settings.preset,
            "results": str(self.root),
            "datasets": [
                {
                    "name": dataset.name,
                    "pair": list(dataset.pair),
                    "kind": dataset.kind,
                    "gold": self.has_gold(dataset.name),
                }
                for dataset in self.settings.datasets
            ],
            "subwords": written(self.settings.subwords),
            "models": [
                {
                    "name": run.name,
                    "preset": run.preset,
                    "architecture": run.architecture,
                    "directions": model.directions,
                    "seeds": list(model.seeds),
                }
                for model in self.requested.models
                for run in [model.settings]
            ],
            "aligners": [{"name": run.name, "text": run.text, "size": run.size} for run in self.settings.aligners],
            "symmetrizations": list(self.settings.symmetrizations),
            "attributions": self.attribution.summary(),
            "encoders": self.studies.encoder_statistics(),
            "classifiers": [
                {"texts": asked.corpus, "name": asked.name, "seeds": list(asked.seeds)}
                for asked in self.learning.classifiers.values()
            ],
            "toys": [{"name": toy.name, "task": toy.task} for toy in self.learning.toys.values()],
            "studies": self.studies.active(),
            "targets": self.targets(),
            "missing": [target for target in self.targets() if not Path(target).exists()],
        }
