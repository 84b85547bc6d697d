"""The part of the path grammar that studies add to ``results/<preset>/``.

encoders/{encoder}/                               statistics of a pretrained encoder
encoders/{dataset}/{direction}/{model}/{seed}/    those of the encoder of a trained model
{study}/                                          a study: its tables, figures, claims.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.studies.protocol import FORCED, FREE
from alignlens.studies.registry import study_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.contract import EncoderRequest
    from alignlens.workflow.attribution_plan import Attribution
    from alignlens.workflow.plan import Plan


@dataclass(frozen=True)
class StudyPlan:
    """What studies end in and what they read, as paths below the project's root."""

    plan: Plan

    def files(self, name: str) -> list[str]:
        """Returns the files of a study; none if no model is trained on a dataset with gold links."""
        if name not in self.plan.settings.studies or not self.plan.attribution.scored_datasets():
            return []
        return [str(self.plan.root / name / file) for file in study_of(name).files]

    def encoders(self) -> EncoderRequest | None:
        """Returns the encoders that studies look into, the same for all of them; None if no study does."""
        asked = (self._encoders_of(name) for name in self.plan.settings.studies)
        return next((request for request in asked if request is not None), None)

    def _encoders_of(self, name: str) -> EncoderRequest | None:
        return study_of(name).encoders(self.plan.settings.studies[name])

    def encoder_statistics(self) -> list[str]:
        """Returns the folders of statistics of all encoders; of ours, the first direction and seed of a Transformer."""
        request = self.encoders()
        if request is None:
            return []
        root = self.plan.root / "encoders"
        ours = [
            str(root / dataset / self.plan.directions(dataset)[0] / run.name / str(self.plan.settings.seeds[0]))
            for dataset in self.plan.attribution.scored_datasets()
            for run in self.plan.settings.models
            if run.architecture == "transformer"
        ]
        return [*(str(root / name) for name in request.pretrained), *ours]

    def inputs(self, name: str) -> list[str]:
        """Returns what a study reads: scores of methods and aligners, statistics of encoders, what its figures show."""
        if not self.files(name):
            return []
        scored = set(self.plan.attribution.scored_datasets())
        aligners = [
            self.plan.run_folder("scores", dataset.name, run)
            for dataset, run in self.plan.aligner_runs()
            if dataset.name in scored
        ]
        asked = self.plan.attribution.asked_by(name)
        folders = [*(self.plan.attribution.folder(run) for run in asked), *aligners]
        metrics = [str(folder / file) for folder in folders for file in ("metrics.json", "sentences.npz")]
        encoders = self.encoder_statistics() if self._encoders_of(name) is not None else []
        return [*metrics, *encoders, *self._bleu(asked), *self._matrices(asked), *self._texts()]

    def _bleu(self, asked: Sequence[Attribution]) -> list[str]:
        """Returns how good the translations are that are attributed."""
        return [
            str(self.plan.root / "translations" / run.dataset / direction / run.model / str(run.seed) / "bleu.json")
            for run in asked
            if run.decoding == FREE
            for direction in self.plan.trained_directions(run.dataset)
        ]

    def _matrices(self, asked: Sequence[Attribution]) -> list[str]:
        """Returns the folders of scores of forced decoding, for heatmaps and for what the runner-up changes."""
        return [
            str(self.plan.attribution.folder(run) / direction / "scores")
            for run in asked
            if run.decoding == FORCED
            for direction in self.plan.trained_directions(run.dataset)
        ]

    def _texts(self) -> list[str]:
        """Returns test texts in pieces and their gold links."""
        files = [
            (f"pieces/{dataset}/test.source", f"pieces/{dataset}/test.target", f"data/{dataset}/test.gold")
            for dataset in self.plan.attribution.scored_datasets()
        ]
        return [str(self.plan.root / name) for names in files for name in names]

    def summaries(self) -> list[str]:
        """Returns what the report shows of the studies."""
        files = (file for name in self.plan.settings.studies for file in self.files(name))
        return [file for file in files if file.endswith("/summary.json")]

    def targets(self) -> list[str]:
        """Returns the files of all studies."""
        return [file for name in self.plan.settings.studies for file in self.files(name)]
