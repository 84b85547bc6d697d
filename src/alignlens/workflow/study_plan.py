"""The outputs and inputs of studies, as paths, and the manifests that list them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.results.manifest import FILE as MANIFEST
from alignlens.results.paths import (
    ALIGNER_METRICS,
    ALIGNER_SENTENCES,
    ATTRIBUTED,
    BLEU,
    FREE,
    METHOD_METRICS,
    METHOD_SENTENCES,
    MODEL_ENCODER,
    PIECES,
    PRETRAINED_ENCODER,
    SPLITS,
    STUDY,
    TEST,
    TEXT,
)
from alignlens.studies.registry import study_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.manifest import Manifest
    from alignlens.workflow.attribution_plan import Attribution
    from alignlens.workflow.plan import Plan


@dataclass(frozen=True)
class StudyPlan:
    """Files of studies, as paths below the project's root."""

    plan: Plan

    def active(self) -> list[str]:
        """Returns the studies that are made: all, if a model is trained on a dataset with gold links.

        Without one, those that do not need any.
        """
        scored = any(self.plan.has_gold(dataset) for model in self.plan.requested.models for dataset in model.datasets)
        return [name for name in self.plan.settings.studies if scored or not study_of(name).needs_gold]

    def files(self, name: str) -> list[str]:
        """Returns the files of a study; none if it is not active."""
        if name not in self.active():
            return []
        return [self.plan.path(STUDY, study=name, file=file) for file in study_of(name).files]

    def manifest_file(self, name: str) -> str:
        """Returns where the manifest of a study goes."""
        return self.plan.path(STUDY, study=name, file=MANIFEST)

    def manifest(self, name: str) -> Manifest:
        """Returns the manifest of a study."""
        folders = self.encoder_statistics() if self._looks_into_encoders(name) else []
        statistics = [f"{folder}/statistics.json" for folder in folders]
        more = [*self.plan.learning.of_study(name), *self.plan.calibration.of_study(name)]
        return self.plan.manifest([*self._files(name), *statistics, *more])

    def inputs(self, name: str) -> list[str]:
        """Returns what a study waits for: the same, folders of encoders and of labelled texts as a whole."""
        if not self.files(name):
            return []
        encoders = self.encoder_statistics() if self._looks_into_encoders(name) else []
        more = [*self.plan.learning.of_study(name, folders=True), *self.plan.calibration.of_study(name)]
        return [*self._files(name), *encoders, *more]

    def _files(self, name: str) -> list[str]:
        """Returns what a study reads: scores of methods and aligners, matrices, translations, texts."""
        asked = self.plan.attribution.asked_by(name)
        scored = [run for run in asked if self.plan.attribution.is_scored(run)]
        datasets = list(dict.fromkeys(run.dataset for run in asked))
        aligners = [
            {"dataset": dataset, "aligner": run.name, "text": run.text, "size": run.size}
            for dataset in datasets
            if self.plan.has_gold(dataset)
            for run in self.plan.requested.of[name].aligners
        ]
        path, given = self.plan.path, self.plan.given
        read = [
            {**run._asdict(), "split": TEST, "direction": direction}
            for run in asked
            for direction in self.plan.trained_directions(run.dataset, run.model)
        ]
        return [
            *(path(place, **names) for names in aligners for place in (ALIGNER_METRICS, ALIGNER_SENTENCES)),
            *(path(place, **run._asdict()) for run in scored for place in (METHOD_METRICS, METHOD_SENTENCES)),
            *self._bleu(asked),
            *self._matrices(asked),
            *dict.fromkeys(given(PIECES, place, **names) for names in read for place in (0, 1)),
            *(path(TEXT, dataset=each, split=TEST, side="gold") for each in datasets if self.plan.has_gold(each)),
        ]

    def _bleu(self, asked: Sequence[Attribution]) -> list[str]:
        """Returns the scores of the translations that are attributed."""
        return [
            self.plan.path(BLEU, direction=direction, **run._asdict())
            for run in asked
            if run.decoding == FREE and run.split == TEST
            for direction in self.plan.trained_directions(run.dataset, run.model)
        ]

    def _matrices(self, asked: Sequence[Attribution]) -> list[str]:
        """Returns the folders of scores: of the given test text, and of texts without gold links."""
        return [
            self.plan.path(ATTRIBUTED, direction=direction, **run._asdict())
            for run in asked
            if (run.split not in SPLITS)
            or (run.decoding != FREE and (run.split == TEST or not self.plan.attribution.is_scored(run)))
            for direction in self.plan.trained_directions(run.dataset, run.model)
        ]

    def _looks_into_encoders(self, name: str) -> bool:
        return self.plan.requested.of[name].encoders is not None

    def encoder_statistics(self) -> list[str]:
        """Returns the folders of statistics of all encoders; of ours, the first direction and seed of a Transformer."""
        request = self.plan.requested.encoders()
        if request is None:
            return []
        ours = [
            self.plan.path(
                MODEL_ENCODER,
                dataset=dataset.name,
                direction=self.plan.directions(dataset.name)[0],
                model=run.name,
                seed=self.plan.settings.seeds[0],
            )
            for dataset in self.plan.settings.datasets
            if self.plan.has_gold(dataset.name)
            for run in self.plan.settings.models
            if run.architecture == "transformer"
        ]
        return [*(self.plan.path(PRETRAINED_ENCODER, encoder=name) for name in request.pretrained), *ours]

    def summaries(self) -> list[str]:
        """Returns what the report shows of the studies."""
        return [file for file in self.targets() if Path(file).name == "summary.json"]

    def targets(self) -> list[str]:
        """Returns the files of all studies."""
        return [file for name in self.active() for file in self.files(name)]
