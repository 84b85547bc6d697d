"""``alignlens report``: tables, figures and the HTML report of a preset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs
from alignlens.display.render import latex, markdown
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_path, write_text
from alignlens.io.limits import HEATMAPS
from alignlens.report import method_tables, model_tables, tables
from alignlens.report.collect import (
    RunId,
    failures_of,
    metrics_files,
    prepared_datasets,
    read_jobs,
    read_metrics,
    read_records,
    read_test_set,
)
from alignlens.report.methods import read_compared
from alignlens.report.models import ModelId, read_curve, read_models, read_samples
from alignlens.report.studies import claims_told, read_study, study_tables, summary_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import pandas as pd

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.report.collect import Failure, ScoredRun, TestSet
    from alignlens.report.models import TrainedModel
    from alignlens.report.studies import StudySummary
    from alignlens.tracking.records import RunRecord

OUTPUTS = Outputs(files=("page",), places=("out", "results"))
_PANELS = 4
_SAMPLES = 3


@dataclass(frozen=True)
class Expected:
    """What a configuration runs, so that the tables can say what is missing."""

    runs: Sequence[RunId] = ()
    models: Sequence[ModelId] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--results", type=Path, metavar="DIR", help="results folder of a preset (default: see below)")
    parser.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="laid over config/config.yaml, as for snakemake"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for tables and figures (default: RESULTS/report)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page itself (default: RESULTS/report.html)")
    parser.add_argument("--metrics", type=Path, nargs="+", metavar="FILE", help="score files (default: all found)")
    parser.add_argument("--models", type=Path, nargs="+", metavar="DIR", help="model folders (default: all found)")
    parser.add_argument(
        "--studies", type=Path, nargs="+", metavar="FILE", help="summary.json of studies (default: all found)"
    )
    parser.add_argument(
        "--runs", nargs="+", default=[], metavar="RUN", help="runs to expect, as dataset/aligner/text/size"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument(
        "--heatmaps", type=count(HEATMAPS), default=1, metavar="N", help="sentences drawn per dataset (default 1)"
    )
    parser.add_argument("--print", action="store_true", help="only print the main table and where the report is")
    parser.epilog = (
        "without --results, the configuration of the current folder tells the results and the runs to expect\n\n"
        "example:\n  alignlens report --results results/demo"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the report, or prints its main table."""
    if args.heatmaps < 1:
        raise ConfigError(f"--heatmaps {args.heatmaps}: must be at least 1")
    if args.results is not None and args.configfile:
        raise ConfigError("--results and --configfile exclude each other: a configuration names its own results")
    expected = Expected([RunId.parse(text) for text in args.runs])
    if args.results is None:
        args.results, planned = _planned(args.configfile)
        expected = Expected(expected.runs or planned.runs, planned.models)
    if not args.results.is_dir():
        raise InputError("no such results folder.", args.results, advice="Run the pipeline first.")
    scored = [read_metrics(path) for path in args.metrics or metrics_files(args.results)]
    studies = [read_study(path) for path in args.studies or summary_files(args.results)]
    if not scored and not studies and not expected.runs and not prepared_datasets(args.results):
        raise InputError("no results below this folder.", args.results, advice="Run the pipeline first.")
    page = args.page or args.results / "report.html"
    records = read_records(args.results)
    models = read_models(args.results, records, args.models)
    if args.print:
        _print(args.results, page, scored, models, studies, expected, records)
    else:
        _write(args, page, scored, models, studies, expected, records)


def _planned(configfiles: Sequence[str]) -> tuple[Path, Expected]:
    """Returns the results folder of the configuration, and what should be there."""
    from alignlens.workflow.plan import Plan
    from alignlens.workflow.settings import load_settings, read_config

    project = Path.cwd()
    plan = Plan.of(load_settings(read_config([project / "config" / "config.yaml", *configfiles]), project))
    runs = [
        RunId(dataset.name, run.name, run.text, run.size)
        for dataset, run in plan.aligner_runs()
        if plan.has_gold(dataset.name)
    ]
    models = [ModelId(dataset.name, direction, run.name, seed) for dataset, direction, run, seed in plan.model_runs()]
    return plan.root, Expected(runs, models)


def _print(
    results: Path,
    page: Path,
    scored: Sequence[ScoredRun],
    models: Sequence[TrainedModel],
    studies: Sequence[StudySummary],
    expected: Expected,
    records: Sequence[RunRecord],
) -> None:
    failures = failures_of(results, records)
    for dataset in tables.datasets_of(scored, expected.runs):
        print(markdown(tables.summary_table(dataset, scored, expected.runs, failures)))
    for dataset in model_tables.model_datasets(models, expected.models):
        print(markdown(model_tables.models_table(dataset, models, expected.models, failures, narrow=True)))
    for study in studies:
        for table in study_tables(study):
            print(markdown(table))
    for study in studies:
        print(f"{study.name}: {claims_told(study)}: {study.page}")
    if failures:
        print(f"Did not end well: {', '.join(failure.name for failure in failures)}.")
    print(f"Report: {page}" if page.is_file() else f"No report yet: alignlens report --results {results}")


def _write(
    args: argparse.Namespace,
    page: Path,
    scored: Sequence[ScoredRun],
    models: Sequence[TrainedModel],
    studies: Sequence[StudySummary],
    expected: Expected,
    records: Sequence[RunRecord],
) -> None:
    from alignlens.display.pages import tables_page
    from alignlens.report.page import Contents, report_page
    from alignlens.report.provenance import read_preparation

    results: Path = args.results
    out: Path = args.out or results / "report"
    title = args.title or f"alignlens · {results.resolve().name}"
    failures = failures_of(results, records)
    jobs = read_jobs(results, records)
    datasets = tables.datasets_of(scored, expected.runs)

    shown = _result_tables(datasets, scored, expected.runs, failures)
    _write_tables(out / "aer", shown, tables.long_form(scored, jobs), tables_page(title, shown))
    _write_runtime(out, results, tables.runtime_tables(jobs))
    _write_frame(out / "runtime.csv", tables.runtime_form(jobs))

    trained_on = model_tables.model_datasets(models, expected.models)
    if trained_on:
        shown = [model_tables.models_table(dataset, models, expected.models, failures) for dataset in trained_on]
        _write_tables(out / "models", shown, model_tables.models_form(models), tables_page(title, shown))

    compared = read_compared(results)
    methods = [method_tables.methods_table(dataset, compared, scored) for dataset in compared.datasets]
    if methods:
        form = method_tables.methods_form(compared, scored)
        _write_tables(out / "methods", methods, form, tables_page(title, methods))

    test_sets = {
        dataset: read_test_set(results, dataset, scored)
        for dataset in datasets
        if (results / "data" / dataset / "test.gold").is_file()
    }
    preparations = {
        dataset: report
        for dataset in prepared_datasets(results)
        if (report := read_preparation(results, dataset)) is not None
    }
    contents = Contents(
        title=title,
        preset=results.resolve().name,
        scored=scored,
        expected=expected.runs,
        models=models,
        expected_models=expected.models,
        failures=failures,
        records=records,
        jobs=jobs,
        test_sets=test_sets,
        pictures={name: _write_heatmaps(out, found, scored, args.heatmaps) for name, found in test_sets.items()},
        curves={dataset: _write_curves(out, results, dataset, models) for dataset in trained_on},
        samples={dataset: read_samples(results, models, dataset, _SAMPLES) for dataset in trained_on},
        preparations=preparations,
        methods=methods,
        studies=studies,
        page=page,
    )
    write_text(page, report_page(contents))
    print(f"Report: {page}")


def _write_tables(stem: Path, shown: Sequence[Table], frame: pd.DataFrame, page: str) -> None:
    """Writes tables as CSV (all numbers), Markdown, LaTeX and HTML."""
    _write_frame(stem.with_suffix(".csv"), frame)
    write_text(stem.with_suffix(".md"), "\n".join(markdown(table) for table in shown))
    write_text(stem.with_suffix(".tex"), "\n".join(latex(table) for table in shown))
    write_text(stem.with_suffix(".html"), page)


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def _result_tables(
    datasets: Sequence[str], scored: Sequence[ScoredRun], expected: Sequence[RunId], failures: Sequence[Failure]
) -> list[Table]:
    return [
        table
        for dataset in datasets
        for table in (tables.aer_table(dataset, scored, expected, failures), tables.detail_table(dataset, scored))
    ]


def _write_runtime(out: Path, results: Path, shown: Sequence[Table]) -> None:
    nothing = f"Nothing was measured: {results.name} has neither benchmark files nor journals.\n"
    write_text(out / "runtime.md", "\n".join(markdown(table) for table in shown) or nothing)


def _write_heatmaps(out: Path, test_set: TestSet, scored: Sequence[ScoredRun], count: int) -> list[Picture]:
    """Writes the heatmaps of a dataset and returns them; the first has no number in its name."""
    from alignlens.display.figures import write_figure
    from alignlens.display.heatmap import System, draw
    from alignlens.report.browser import best_systems, instructive

    systems = best_systems(test_set, scored, _PANELS)
    labels = tables.labels_of(test_set.dataset, scored)
    for old in out.glob(f"heatmap-{test_set.dataset}.[0-9]*.*"):
        old.unlink()
    pictures = []
    for place, k in enumerate(instructive(test_set, systems, count) if systems else [], start=1):
        caption = f"{test_set.dataset}, test sentence {k + 1}"
        drawing = draw(
            test_set.source[k],
            test_set.target[k],
            test_set.gold.sure[k],
            test_set.gold.possible[k],
            [System(f"{labels[run]}\n{links}", test_set.systems[run, links][k]) for run, links in systems],
            f"{caption} (rows: source, columns: target)",
        )
        stem = out / (f"heatmap-{test_set.dataset}" + (f".{place}" if place > 1 else ""))
        text = f"{caption}: the best links of each aligner, on a sentence where they disagree most"
        pictures.append(write_figure(stem, drawing, text))
    return pictures


def _write_curves(out: Path, results: Path, dataset: str, models: Sequence[TrainedModel]) -> list[Picture]:
    """Writes the learning curves of a dataset's models and returns them: one figure, or none without models."""
    from alignlens.display.figures import write_figure
    from alignlens.report.curves import draw_curves

    curves = [read_curve(results, item.id) for item in models if item.id.dataset == dataset]
    if not curves:
        return []
    caption = f"{dataset}: learning curves"
    text = f"{caption}, measured on the dev text (BLEU: its first sentences, greedy search)"
    return [write_figure(out / f"curves-{dataset}", draw_curves(curves, caption), text)]
