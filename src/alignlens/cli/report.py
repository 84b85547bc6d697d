"""``alignlens report``: tables, figures and the HTML report of a preset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_path, write_text
from alignlens.report import tables
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
from alignlens.report.render import latex, markdown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from alignlens.report.collect import Failure, ScoredRun, TestSet
    from alignlens.report.html import Picture
    from alignlens.report.render import Table

_PANELS = 4


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--results", type=Path, metavar="DIR", help="results folder of a preset (default: see below)")
    parser.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="laid over config/config.yaml, as for snakemake"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for tables and figures (default: RESULTS/report)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page itself (default: RESULTS/report.html)")
    parser.add_argument("--metrics", type=Path, nargs="+", metavar="FILE", help="score files (default: all found)")
    parser.add_argument(
        "--runs", nargs="+", default=[], metavar="RUN", help="runs to expect, as dataset/aligner/text/size"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument("--heatmaps", type=int, default=1, metavar="N", help="sentences drawn per dataset (default 1)")
    parser.add_argument("--print", action="store_true", help="only print the main table and where the report is")
    parser.epilog = (
        "without --results, the configuration of the current folder tells the results and the runs to expect\n\n"
        "example:\n  alignlens report --results results/demo"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the report, or prints its main table."""
    if args.heatmaps < 1:
        raise ConfigError(f"--heatmaps {args.heatmaps}: must be at least 1")
    expected = [RunId.parse(text) for text in args.runs]
    if args.results is None:
        args.results, planned = _planned(args.configfile)
        expected = expected or planned
    if not args.results.is_dir():
        raise InputError("no such results folder.", args.results, advice="Run the pipeline first.")
    scored = [read_metrics(path) for path in args.metrics or metrics_files(args.results)]
    if not scored and not expected and not prepared_datasets(args.results):
        raise InputError("no results below this folder.", args.results, advice="Run the pipeline first.")
    page = args.page or args.results / "report.html"
    if args.print:
        _print(args.results, page, scored, expected)
    else:
        _write(args, page, scored, expected)


def _planned(configfiles: Sequence[str]) -> tuple[Path, list[RunId]]:
    """Returns the results folder of the configuration, and the runs it scores."""
    from alignlens.plan import Plan
    from alignlens.settings import load_settings, read_config

    project = Path.cwd()
    plan = Plan.of(load_settings(read_config([project / "config" / "config.yaml", *configfiles]), project))
    runs = [
        RunId(dataset.name, run.name, run.text, run.size)
        for dataset, run in plan.aligner_runs()
        if plan.has_gold(dataset.name)
    ]
    return plan.root, runs


def _print(results: Path, page: Path, scored: Sequence[ScoredRun], expected: Sequence[RunId]) -> None:
    failures = failures_of(results, read_records(results))
    for dataset in tables.datasets_of(scored, expected):
        print(markdown(tables.summary_table(dataset, scored, expected, failures)))
    if failures:
        print(f"Did not end well: {', '.join(failure.name for failure in failures)}.")
    print(f"Report: {page}" if page.is_file() else f"No report yet: alignlens report --results {results}")


def _write(args: argparse.Namespace, page: Path, scored: Sequence[ScoredRun], expected: Sequence[RunId]) -> None:
    from alignlens.report.html import Contents, report_page, tables_page
    from alignlens.report.provenance import read_preparation

    results: Path = args.results
    out: Path = args.out or results / "report"
    title = args.title or f"alignlens · {results.resolve().name}"
    records = read_records(results)
    failures = failures_of(results, records)
    jobs = read_jobs(results, records)
    datasets = tables.datasets_of(scored, expected)

    shown = _result_tables(datasets, scored, expected, failures)
    with atomic_path(out / "aer.csv") as temporary:
        tables.long_form(scored, jobs).to_csv(temporary, index=False, lineterminator="\n")
    write_text(out / "aer.md", "\n".join(markdown(table) for table in shown))
    write_text(out / "aer.tex", "\n".join(latex(table) for table in shown))
    write_text(out / "aer.html", tables_page(title, shown))
    _write_runtime(out, results, tables.runtime_tables(jobs))
    with atomic_path(out / "runtime.csv") as temporary:
        tables.runtime_form(jobs).to_csv(temporary, index=False, lineterminator="\n")

    test_sets = {
        dataset: read_test_set(results, dataset, scored)
        for dataset in datasets
        if (results / "data" / dataset / "test.gold").is_file()
    }
    pictures = {
        dataset: _write_heatmaps(out, test_set, scored, args.heatmaps) for dataset, test_set in test_sets.items()
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
        expected=expected,
        failures=failures,
        records=records,
        jobs=jobs,
        test_sets=test_sets,
        pictures=pictures,
        preparations=preparations,
    )
    write_text(page, report_page(contents))
    print(f"Report: {page}")


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
    from alignlens.report.browser import best_systems, instructive
    from alignlens.report.heatmap import System, draw, render
    from alignlens.report.html import Picture

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
        stem = f"heatmap-{test_set.dataset}" + (f".{place}" if place > 1 else "")
        for suffix in (".svg", ".png"):
            content = render(drawing, suffix)
            with atomic_path(out / f"{stem}{suffix}") as temporary:
                temporary.write_bytes(content)
            if suffix == ".svg":
                text = f"{caption}: the best links of each aligner, on a sentence where they disagree most"
                pictures.append(Picture(text, content))
    return pictures
