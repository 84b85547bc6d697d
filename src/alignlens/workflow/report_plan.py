"""The files of the report, and its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.results.paths import (
    ATTRIBUTED,
    BROWSER,
    FINAL,
    FREE,
    FREE_GOLD,
    FRONT_PAGE,
    PIECES,
    REPORT,
    REPORT_PAGE,
    TEST,
    TEXT,
    TRANSLATED_PIECES,
)

if TYPE_CHECKING:
    from alignlens.results.manifest import Manifest
    from alignlens.workflow.plan import Plan


@dataclass(frozen=True)
class ReportPlan:
    """Files of the report, as paths below the project's root."""

    plan: Plan

    def files(self) -> list[str]:
        """Returns the files of the report."""
        names = ["aer.csv", "aer.md", "aer.tex", "aer.html", "runtime.csv", "runtime.md"]
        tables = (self.plan.path(REPORT, file=name) for name in names)
        figures = [*self.curves(), *self.heatmaps()]
        pages = (self.plan.path(place) for place in (REPORT_PAGE, FRONT_PAGE, BROWSER))
        return [*pages, *tables, *self.model_tables(), *self.method_tables(), *figures]

    def manifest(self) -> Manifest:
        """Returns the manifest of the report."""
        return self.plan.manifest(self.inputs())

    def inputs(self) -> list[str]:
        """Returns what the report shows, or whose jobs: texts, aligners, models, methods, comparisons and studies."""
        texts = [
            self.plan.path(TEXT, dataset=dataset.name, split=TEST, side=side)
            for dataset in self.plan.settings.datasets
            for side in ("source", "target", *(["gold"] if self.plan.has_gold(dataset.name) else []))
        ]
        attributed = [*self.plan.attribution.shared_metrics(), *self.plan.attribution.costs()]
        trained = [*self.plan.models(), *self.plan.translations()]
        aligned = [*self.plan.metrics(), *self.plan.links()]
        studied = [*self.plan.calibration.compared(), *self.plan.studies.summaries()]
        return [*self.plan.prepared(), *texts, *aligned, *trained, *attributed, *self._looked_at(), *studied]

    def _looked_at(self) -> list[str]:
        """Returns what the sentences are shown with: of the first seed of every model its scores, and their text."""
        shared = {model.name for model in self.plan.settings.models}
        paths: list[str] = []
        for run in self.plan.attribution.runs():
            first = run.model in shared and run.seed == self.plan.planned(run.model).seeds[0]
            if not first or (run.weights, run.split) != (FINAL, TEST) or not self.plan.attribution.is_scored(run):
                continue
            for direction in self.plan.trained_directions(run.dataset, run.model):
                names = {**run._asdict(), "direction": direction}
                source, target = (self.plan.given(PIECES, place, **names) for place in (0, 1))
                own = [self.plan.path(place, **names) for place in (TRANSLATED_PIECES, FREE_GOLD)]
                paths += [self.plan.path(ATTRIBUTED, **names), source, *(own if run.decoding == FREE else [target])]
        return list(dict.fromkeys(paths))

    def model_tables(self) -> list[str]:
        """Returns the tables of models; none where there are none."""
        names = [f"models.{kind}" for kind in ("html", "csv", "md", "tex")] if self.plan.requested.models else []
        return [self.plan.path(REPORT, file=name) for name in names]

    def method_tables(self) -> list[str]:
        """Returns the tables that compare methods; none where no model was given the reference of scored text."""
        names = [f"methods.{kind}" for kind in ("html", "csv", "md", "tex")] if self.plan.attribution.costs() else []
        return [self.plan.path(REPORT, file=name) for name in names]

    def curves(self) -> list[str]:
        """Returns the learning curves of every dataset that models are trained on."""
        trained = any(model.settings.imported is None for model in self.plan.requested.models)
        return [
            self.plan.path(REPORT, file=f"curves-{dataset.name}.{kind}")
            for dataset in self.plan.settings.datasets
            if trained
            for kind in ("svg", "png")
        ]

    def heatmaps(self) -> list[str]:
        """Returns the alignment heatmaps of every dataset with gold links."""
        return [
            self.plan.path(REPORT, file=f"heatmap-{dataset.name}.{kind}")
            for dataset in self.plan.settings.datasets
            if self.plan.has_gold(dataset.name)
            for kind in ("svg", "png")
        ]
