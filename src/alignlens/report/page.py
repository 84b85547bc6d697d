"""The report as one self-contained page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.display.pages import embedded_figures, page
from alignlens.display.render import html
from alignlens.report import model_tables, provenance, tables
from alignlens.report.studies import studies_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.report.collect import Failure, Job
    from alignlens.report.models import ModelCard, ModelId, Sample
    from alignlens.report.studies import StudySummary
    from alignlens.results.scores import AlignerId, ScoredAligner
    from alignlens.tracking.records import RunRecord

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Contents:
    """Everything the report shows."""

    title: str
    preset: str
    scored: Sequence[ScoredAligner]
    expected: Sequence[AlignerId] = ()
    models: Sequence[ModelCard] = ()
    expected_models: Sequence[ModelId] = ()
    failures: Sequence[Failure] = ()
    records: Sequence[RunRecord] = ()
    jobs: Sequence[Job] = ()
    pictures: Mapping[str, Sequence[Picture]] = field(default_factory=dict)
    curves: Mapping[str, Sequence[Picture]] = field(default_factory=dict)
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    preparations: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    methods: Sequence[Table] = ()
    studies: Sequence[StudySummary] = ()
    browser: str = ""
    """Where the browser of sentences is from the page; empty if there is none."""
    page: Path = Path("report.html")
    """Where the page will be: links to the pages of studies are relative to it."""


def report_page(contents: Contents) -> str:
    """Returns the report: no server, no other file, nothing loaded from anywhere."""
    datasets = tables.datasets_of(contents.scored, contents.expected)
    trained_on = model_tables.model_datasets(contents.models, contents.expected_models)
    preparation = [provenance.preparation_table(contents.preparations)] if contents.preparations else []
    return page(
        _TEMPLATES / "report.html.j2",
        title=contents.title,
        version=__version__,
        date=provenance.date_of([*contents.scored, *contents.models]),
        runs=len(contents.scored),
        trained=sum(not item.imported for item in contents.models),
        imported=sum(item.imported for item in contents.models),
        facts=provenance.facts(contents.preset, contents.scored, contents.models, contents.records),
        cards=_cards(contents, datasets),
        failures=contents.failures,
        datasets=[
            {
                "name": dataset,
                "tables": [
                    html(tables.aer_table(dataset, contents.scored, contents.expected, contents.failures)),
                    html(tables.detail_table(dataset, contents.scored)),
                ],
            }
            for dataset in datasets
        ],
        models=[_models_part(contents, dataset) for dataset in trained_on],
        methods=[html(table) for table in contents.methods],
        studies=studies_part(contents.studies, contents.page),
        browser=contents.browser,
        heatmaps=embedded_figures([each for pictures in contents.pictures.values() for each in pictures], "Heatmap"),
        runtime=[html(table) for table in tables.runtime_tables(contents.jobs)],
        preparation=[html(table) for table in preparation],
        provenance=[
            {
                "name": dataset,
                "facts": provenance.origin_facts(report),
                "checksums": html(provenance.checksum_table(dataset, report)),
            }
            for dataset, report in contents.preparations.items()
        ],
    )


def _models_part(contents: Contents, dataset: str) -> dict[str, Any]:
    table = model_tables.models_table(dataset, contents.models, contents.expected_models, contents.failures)
    return {
        "name": dataset,
        "table": html(table),
        "figures": embedded_figures(contents.curves.get(dataset, ()), "Learning curves"),
        "samples": contents.samples.get(dataset, ()),
    }


def _cards(contents: Contents, datasets: Sequence[str]) -> list[dict[str, str]]:
    cards = []
    for dataset in datasets:
        labels = tables.labels_of(dataset, contents.scored)
        ranked = [
            (row.aer, item, row)
            for item in contents.scored
            if item.id.dataset == dataset
            for row in item.rows
            if row.aer == row.aer
        ]
        if ranked:
            _, item, row = min(ranked, key=lambda entry: entry[0])
            below = f"{labels[item.id]} · {row.links}"
            cards.append({"above": f"{dataset}: lowest AER", "value": tables.aer_cell(row).text, "below": below})
    pairs = dict.fromkeys((item.id.dataset, item.id.direction) for item in contents.models)
    for dataset, direction in pairs:
        if best := model_tables.best_translator(dataset, direction, contents.models):
            above = f"{dataset} {direction}: highest BLEU"
            cards.append({"above": above, "value": f"{best[1]:.1f}", "below": best[0]})
    seconds = sum(job.seconds or 0.0 for job in contents.jobs)
    if contents.jobs:
        value = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.1f} s"
        cards.append({"above": "time of all jobs", "value": value, "below": f"{len(contents.jobs)} measured jobs"})
    failed = len(contents.failures)
    if failed:
        cards.append({"above": "did not end well", "value": str(failed), "below": "jobs; see Failures"})
    return cards
