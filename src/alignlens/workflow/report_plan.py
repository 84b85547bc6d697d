"""The files of the report, and what it may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.results.paths import FRONT_PAGE, REPORT, REPORT_PAGE, TEST, TEXT

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
        pages = [self.plan.path(REPORT_PAGE), self.plan.path(FRONT_PAGE)]
        return [*pages, *tables, *self.model_tables(), *self.method_tables(), *figures]

    def manifest(self) -> Manifest:
        """Returns what the report may read."""
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
        return [*self.plan.prepared(), *texts, *aligned, *trained, *attributed, *studied]

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
