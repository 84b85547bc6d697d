"""The report of a preset: what is read for it, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.display.render import latex, markdown
from alignlens.io.atomic import atomic_path, write_text
from alignlens.report import method_tables, model_tables, tables
from alignlens.report.collect import failures_of, prepared_datasets, read_jobs, read_records
from alignlens.report.methods import read_compared
from alignlens.report.models import expected_models, read_curve, read_models, read_samples
from alignlens.report.studies import read_study, relative_link, study_tables, summary_files, verdicts_in_words
from alignlens.results.paths import ALIGNER_METRICS
from alignlens.results.reader import read_results
from alignlens.results.scores import AlignerId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.report.browser import BrowserSet
    from alignlens.report.collect import Failure
    from alignlens.report.models import ModelCard, ModelId
    from alignlens.report.studies import StudySummary
    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import Results, ScoredAligner
    from alignlens.tracking.records import RunRecord

_SAMPLES = 3


@dataclass(frozen=True)
class Found:
    """What a report is made of, and what a configuration runs: so the tables can say what is missing."""

    manifest: Manifest
    results: Results
    models: Sequence[ModelCard]
    studies: Sequence[StudySummary]
    records: Sequence[RunRecord]
    failures: Sequence[Failure]
    expected: Sequence[AlignerId]
    expected_models: Sequence[ModelId]

    @property
    def scored(self) -> Sequence[ScoredAligner]:
        """The scores of aligners."""
        return self.results.aligners

    def is_empty(self) -> bool:
        """Returns whether there is nothing to show."""
        shown = (self.scored, self.models, self.studies, self.expected, self.expected_models)
        return not any(shown) and not prepared_datasets(self.manifest)


def read_report(manifest: Manifest) -> Found:
    """Returns everything that a report of a manifest shows."""
    records = read_records(manifest)
    return Found(
        manifest=manifest,
        results=read_results(manifest),
        models=read_models(manifest, records),
        studies=[read_study(path) for path in summary_files(manifest)],
        records=records,
        failures=failures_of(manifest.root, records),
        expected=[AlignerId(**names) for names in manifest.expected(ALIGNER_METRICS)],
        expected_models=expected_models(manifest),
    )


def printed(results: Found, page: Path) -> Iterator[str]:
    """Yields the tables that matter most, which fit on a screen, and where the rest is."""
    for dataset in tables.datasets_of(results.scored, results.expected):
        yield markdown(tables.summary_table(dataset, results.scored, results.expected, results.failures))
    looked_at = next((shown for study in results.studies if (shown := study_tables(study))), [])
    yield from map(markdown, looked_at)
    for dataset in model_tables.model_datasets(results.models, results.expected_models) if not looked_at else ():
        narrow = model_tables.models_table(
            dataset, results.models, results.expected_models, results.failures, narrow=True
        )
        yield markdown(narrow)
    for study in results.studies:
        yield f"{study.name}: {verdicts_in_words(study)}: {study.page}"
    for name, what in (("methods", "All methods of all models"), ("models", "All models, BLEU")):
        table = results.manifest.root / "report" / f"{name}.md"
        if looked_at and table.is_file():
            yield f"{what}: {table}"
    if results.failures:
        yield f"Did not end well: {', '.join(failure.name for failure in results.failures)}."
    yield f"Report: {page}" if page.is_file() else f"No report yet: alignlens report --results {results.manifest.root}"


def write_report(results: Found, out: Path, page: Path, browser: Path, title: str, heatmaps: int) -> None:
    """Writes tables and figures to ``out``, the page, and the folder of the browser of sentences."""
    from alignlens.display.pages import tables_page
    from alignlens.report.browser import PAGE, write_browser
    from alignlens.report.page import Contents, report_page
    from alignlens.report.provenance import read_preparation
    from alignlens.report.sentences import read_sets

    manifest, scored, models = results.manifest, results.scored, results.models
    jobs = read_jobs(manifest, results.records)
    datasets = tables.datasets_of(scored, results.expected)

    shown = _result_tables(datasets, results)
    _write_tables(out / "aer", shown, tables.long_form(scored, jobs), tables_page(title, shown))
    _write_runtime(out, manifest.root, tables.runtime_tables(jobs))
    _write_frame(out / "runtime.csv", tables.runtime_form(jobs))

    trained_on = model_tables.model_datasets(models, results.expected_models)
    if trained_on:
        shown = [
            model_tables.models_table(dataset, models, results.expected_models, results.failures)
            for dataset in trained_on
        ]
        _write_tables(out / "models", shown, model_tables.models_form(models), tables_page(title, shown))

    compared = read_compared(manifest, results.results)
    methods = [method_tables.methods_table(dataset, compared, scored) for dataset in compared.datasets]
    if methods:
        form = method_tables.methods_form(compared, scored)
        _write_tables(out / "methods", methods, form, tables_page(title, methods))

    sets = read_sets(results.results)
    write_browser(browser, title, relative_link(page, browser / PAGE), sets)
    contents = Contents(
        title=title,
        preset=manifest.root.resolve().name,
        scored=scored,
        expected=results.expected,
        models=models,
        expected_models=results.expected_models,
        failures=results.failures,
        records=results.records,
        jobs=jobs,
        pictures={each.test_set.dataset: _write_heatmaps(out, each, heatmaps) for each in sets},
        curves={dataset: _write_curves(out, manifest, dataset, models) for dataset in trained_on},
        samples={dataset: read_samples(manifest, models, dataset, _SAMPLES) for dataset in trained_on},
        preparations=read_preparation(manifest),
        methods=methods,
        studies=results.studies,
        browser=relative_link(browser / PAGE, page) if sets else "",
        page=page,
    )
    write_text(page, report_page(contents))


def _write_tables(stem: Path, shown: Sequence[Table], frame: pd.DataFrame, page: str) -> None:
    """Writes tables as CSV (all numbers), Markdown, LaTeX and HTML."""
    _write_frame(stem.with_suffix(".csv"), frame)
    write_text(stem.with_suffix(".md"), "\n".join(markdown(table) for table in shown))
    write_text(stem.with_suffix(".tex"), "\n".join(latex(table) for table in shown))
    write_text(stem.with_suffix(".html"), page)


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def _result_tables(datasets: Sequence[str], results: Found) -> list[Table]:
    return [
        table
        for dataset in datasets
        for table in (
            tables.aer_table(dataset, results.scored, results.expected, results.failures),
            tables.detail_table(dataset, results.scored),
        )
    ]


def _write_runtime(out: Path, results: Path, shown: Sequence[Table]) -> None:
    nothing = f"Nothing was measured: {results.name} has neither benchmark files nor journals.\n"
    write_text(out / "runtime.md", "\n".join(markdown(table) for table in shown) or nothing)


def _write_heatmaps(out: Path, shown: BrowserSet, count: int) -> list[Picture]:
    """Writes the heatmaps of a dataset and returns them; the first has no number in its name."""
    from alignlens.display.figures import write_figure
    from alignlens.display.heatmap import System, draw
    from alignlens.report.systems import readable

    test_set = shown.test_set
    for old in out.glob(f"heatmap-{test_set.dataset}.[0-9]*.*"):
        old.unlink()
    pictures = []
    for place, k in enumerate(readable(test_set, shown.order, count) if shown.systems else [], start=1):
        caption = f"{test_set.dataset}, test sentence {k + 1}"
        drawing = draw(
            test_set.source[k],
            test_set.target[k],
            test_set.gold.sure[k],
            test_set.gold.possible[k],
            [System(system.title, system.links[k], system.scores(k)) for system in shown.systems],
            f"{caption} (rows: source, columns: target)",
        )
        stem = out / (f"heatmap-{test_set.dataset}" + (f".{place}" if place > 1 else ""))
        text = f"{caption}: the best method of each architecture and the best aligners, where they disagree most"
        pictures.append(write_figure(stem, drawing, text))
    return pictures


def _write_curves(out: Path, manifest: Manifest, dataset: str, models: Sequence[ModelCard]) -> list[Picture]:
    """Writes the learning curves of a dataset's models and returns them: one figure, or none without models."""
    from alignlens.display.figures import write_figure
    from alignlens.report.curves import draw_curves

    curves = [read_curve(manifest, item.id) for item in models if item.id.dataset == dataset and not item.imported]
    if not curves:
        return []
    caption = f"{dataset}: learning curves"
    text = f"{caption}, measured on the dev text (BLEU: its first sentences, greedy search)"
    return [write_figure(out / f"curves-{dataset}", draw_curves(curves, caption), text)]
