"""The part of the path grammar that studies add to ``results/<preset>/``.

encoders/{encoder}/                               statistics of a pretrained encoder
encoders/{dataset}/{direction}/{model}/{seed}/    those of the encoder of a trained model
ding2019/, kobayashi2020/                         the studies: tables, figures, claims.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.studies.protocol import FORCED, FREE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.plan import Plan
    from alignlens.plan_attribution import Attribution

#: Studies that look into encoders by themselves.
_ENCODING = ("kobayashi2020",)
_KINDS = ("html", "csv", "md", "tex")


def _tables(*names: str) -> list[str]:
    return [f"{name}.{kind}" for name in names for kind in _KINDS]


#: What a study always ends in, its page first; figures are on the page, and beside it where there is something to draw.
STUDY_FILES: dict[str, Sequence[str]] = {
    "ding2019": (
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "samples.csv",
        "summary.json",
        *_tables("table1", "table2", "table3", "variants"),
    ),
    "kobayashi2020": (
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "layers.csv",
        "heads.csv",
        "summary.json",
        *_tables("table3"),
    ),
}


@dataclass(frozen=True)
class StudyPlan:
    """What studies end in and what they read, as paths below the project's root."""

    plan: Plan

    def files(self, name: str) -> list[str]:
        """Returns the files of a study; none if no model is trained on a dataset with gold links."""
        if name not in self.plan.settings.studies or not self.plan.attribution.scored_datasets():
            return []
        return [str(self.plan.root / name / file) for file in STUDY_FILES[name]]

    def looks_into_encoders(self) -> bool:
        """Returns whether any study needs encoders by themselves."""
        return any(name in _ENCODING for name in self.plan.settings.studies)

    def encoders(self) -> dict[str, str]:
        """Returns the pretrained encoders of the configuration by name: what each is, or the folder it is in."""
        models = self.plan.settings.encoders["models"]
        return {name: place for name, place in models.items() if place is not None}

    def encoder_statistics(self) -> list[str]:
        """Returns the folders of statistics of all encoders; of ours, the first direction and seed of a Transformer."""
        root = self.plan.root / "encoders"
        ours = [
            str(root / dataset / self.plan.directions(dataset)[0] / run.name / str(self.plan.settings.seeds[0]))
            for dataset in self.plan.attribution.scored_datasets()
            for run in self.plan.settings.models
            if run.architecture == "transformer"
        ]
        return [*(str(root / name) for name in self.encoders()), *ours]

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
        encoders = self.encoder_statistics() if name in _ENCODING else []
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
