"""``alignlens report``: tables, figures and the HTML report of a preset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import check_replaceable
from alignlens.io.limits import HEATMAPS
from alignlens.results.manifest import Manifest
from alignlens.results.paths import BROWSER, FRONT_PAGE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

OUTPUTS = Outputs(files=("page", "front"), folders=("browser",), places=("out", "results"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--results", type=Path, metavar="DIR", help="results folder of a preset (default: see below)")
    parser.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="merged over config/config.yaml, as for snakemake"
    )
    parser.add_argument(
        "--manifest", type=Path, metavar="FILE", help="manifest of the files to show (default: see below)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for tables and figures (default: RESULTS/report)"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page itself (default: RESULTS/report.html)")
    parser.add_argument(
        "--browser",
        type=Path,
        metavar="DIR",
        help="folder for the browser of sentences (default: browser next to the page)",
    )
    parser.add_argument(
        "--front",
        type=Path,
        metavar="FILE",
        help="the front page of all studies (default: index.html next to the page)",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument(
        "--heatmaps", type=count(HEATMAPS), default=1, metavar="N", help="sentences drawn per dataset (default 1)"
    )
    parser.add_argument("--print", action="store_true", help="only print the main tables, and where the rest is")
    parser.epilog = (
        "Without --results, the configuration of the current folder says what to show and what is missing.\n"
        "With --results it shows what the last pipeline run made, or everything if the folder has no manifest.\n\n"
        "example:\n  alignlens report --results results/demo"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the report, or prints its main table."""
    from alignlens.report.build import printed, read_report, write_report

    if args.heatmaps < 1:
        raise ConfigError(f"--heatmaps {args.heatmaps}: must be at least 1")
    if args.results is not None and args.configfile:
        raise ConfigError("--results and --configfile exclude each other: a configuration names its own results")
    if args.results is None and args.manifest is not None:
        raise ConfigError("--manifest: also give the results folder with --results")
    manifest = _planned(args.configfile) if args.results is None else Manifest.of(args.results, "report", args.manifest)
    report = read_report(manifest)
    if report.is_empty():
        raise InputError("no results in this folder.", manifest.root, advice="Run the pipeline first.")
    page = args.page or manifest.root / "report.html"
    if args.print:
        print("\n".join(printed(report, page)))
        return
    front = args.front or page.parent / FRONT_PAGE.pattern
    if front == page:
        raise ConfigError(f"--page {page}: the front page of all studies has this name; name another by --front")
    title = args.title or f"alignlens · {manifest.root.resolve().name}"
    from alignlens.report.browser import KIND
    from alignlens.report.front import write_front

    browser = args.browser or page.parent / BROWSER.pattern
    check_replaceable(browser, KIND)  # before anything is written
    write_report(report, args.out or manifest.root / "report", page, browser, title, args.heatmaps)
    write_front(front, title, report.studies, page)
    print(f"Report: {page}")


def _planned(configfiles: Sequence[str]) -> Manifest:
    """Returns the manifest of the configuration in the current folder."""
    from alignlens.workflow.plan import Plan
    from alignlens.workflow.settings import load_settings, read_config

    project = Path.cwd()
    plan = Plan.of(load_settings(read_config([project / "config" / "config.yaml", *configfiles]), project))
    if not plan.root.is_dir():
        raise InputError("no such results folder.", plan.root, advice="Run the pipeline first.")
    return plan.report.manifest()
