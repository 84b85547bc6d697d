"""``alignlens study``: the tables, figures and claims of a published study from a results folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.figures import write_figure
from alignlens.errors import InputError
from alignlens.io.atomic import atomic_path, write_json, write_text
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from alignlens.report.html import Picture
    from alignlens.report.render import Table
    from alignlens.studies.claims import Verdict
    from alignlens.studies.ding2019.causes import CauseTable
    from alignlens.studies.results import Results
    from alignlens.studies.tables import StudyTable

STUDIES = ("ding2019",)
_FILES = {"1": "table1", "2": "table2", "3": "table3", "variants": "variants"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("study", choices=STUDIES, help="ding2019: Ding, Xu and Koehn 2019, saliency as word alignment")
    parser.add_argument("--results", type=Path, required=True, metavar="DIR", help="results folder of a preset")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where it all goes (default: RESULTS/STUDY)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens study ding2019 --results results/demo\n\n"
        "Reads the scores of models and aligners below the results folder; what is missing there is named as missing.\n"
        "The journal is OUT/study.journal.jsonl unless --journal says otherwise."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the study and prints what became of the claims."""
    from alignlens.studies.claims import COLUMNS, records
    from alignlens.studies.ding2019.claims import judge
    from alignlens.studies.ding2019.labels import label_changes
    from alignlens.studies.results import read_results

    about = about_of(args)
    if not args.results.is_dir():
        raise InputError("no such results folder.", args.results, advice="Run the pipeline first.")
    out: Path = args.out or args.results / args.study
    with Journal(args.journal or out / "study.journal.jsonl") as journal:
        preset = str(about.get("preset", args.results.resolve().name))
        record = journal.run(
            experiment=args.study,
            name=run_name(preset, args.study),
            identity={"preset": preset, "study": args.study},
            tags={"preset": preset, "study": args.study},
            params={"preset": preset},
        )
        results = read_results(args.results)
        if not results.datasets:
            raise InputError("no scores below this folder.", args.results, advice="Run the pipeline first.")
        verdicts = judge(results, label_changes(results))
        _write_csv(out / "claims.csv", COLUMNS, records(verdicts))
        tables = _write_tables(out, results)
        causes = _write_causes(out, results, tables)
        figures = _write_figures(out, results)
        curves = _write_curves(out, results)
        _write_page(out, preset, results, verdicts, tables, figures, curves)
        summary = _summary(args.study, out, results, verdicts, causes)
        write_json(out / "summary.json", summary)
        record.metrics({f"claims_{name.replace(' ', '_')}": count for name, count in summary["claims"].items()})
        for path in sorted(path for path in out.iterdir() if path.suffix in (".csv", ".md", ".svg", ".html")):
            record.artifact(path, folder="figures" if path.suffix == ".svg" else "tables")
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _told(summary))


def _write_tables(out: Path, results: Results) -> dict[str, list[Table]]:
    """Writes every table of all datasets as CSV, Markdown, LaTeX and HTML, and returns them by dataset."""
    from alignlens.report.study_tables import study_table
    from alignlens.studies.tables import LONG_COLUMNS, long_form

    by_dataset: dict[str, list[Table]] = {dataset.name: [] for dataset in results.datasets}
    for number, stem in _FILES.items():
        found = [table for table in _study_tables(results) if table.table == number]
        shown = [study_table(table, results) for table in found]
        for table, made in zip(found, shown, strict=True):
            by_dataset[table.dataset.name].append(made)
        _write_csv(out / f"{stem}.csv", LONG_COLUMNS, long_form(found))
        _write_shown(out, stem, shown)
    return by_dataset


def _write_causes(out: Path, results: Results, by_dataset: Mapping[str, list[Table]]) -> list[CauseTable]:
    """Writes the hits among true causes where they are known, adds them to the tables, and returns them."""
    from alignlens.report.study_tables import causes_table
    from alignlens.studies.ding2019.causes import COLUMNS, cause_table, records

    for old in out.glob("causes.*"):
        old.unlink()
    found = [table for dataset in results.datasets if (table := cause_table(results, dataset)) is not None]
    if found:
        shown = [causes_table(table, results) for table in found]
        for table, made in zip(found, shown, strict=True):
            by_dataset[table.dataset.name].append(made)
        _write_csv(out / "causes.csv", COLUMNS, records(found))
        _write_shown(out, "causes", shown)
    return found


def _write_shown(out: Path, stem: str, shown: Sequence[Table]) -> None:
    from alignlens.report.html import tables_page
    from alignlens.report.render import latex, markdown
    from alignlens.report.study_page import TITLE

    write_text(out / f"{stem}.md", "\n".join(markdown(table) for table in shown))
    write_text(out / f"{stem}.tex", "\n".join(latex(table) for table in shown))
    write_text(out / f"{stem}.html", tables_page(TITLE, shown))


def _study_tables(results: Results) -> list[StudyTable]:
    from alignlens.studies.ding2019.tables import entropy_table, error_table, variants_table
    from alignlens.studies.protocol import FORCED, FREE

    return [
        table
        for dataset in results.datasets
        for table in (
            error_table(results, dataset, FORCED),
            error_table(results, dataset, FREE),
            entropy_table(results, dataset),
            variants_table(results, dataset),
        )
    ]


def _write_figures(out: Path, results: Results) -> dict[str, list[Picture]]:
    """Writes the heatmaps of one sentence of every dataset whose matrices are there."""
    from alignlens.report.study_figures import figures
    from alignlens.studies.ding2019.examples import read_example

    written: dict[str, list[Picture]] = {}
    for dataset in results.datasets:
        example = read_example(results, dataset)
        if example is not None:
            written[dataset.name] = [
                write_figure(out / f"{name}-{dataset.name}", drawing, caption)
                for name, (drawing, caption) in figures(example, results.protocol).items()
            ]
    return written


def _write_curves(out: Path, results: Results) -> list[Picture]:
    """Writes what noise does to the error rate; the table always, the figure if there is anything to draw."""
    from alignlens.report.study_curves import draw_noise_curves
    from alignlens.studies.ding2019.curves import COLUMNS, points

    found = points(results)
    _write_csv(out / "samples.csv", COLUMNS, [point.record() for point in found])
    if not found:
        return []
    caption = "Signed saliency: error rate against noisy copies and noise level"
    told = (
        f"{caption}. A pass is one forward run and one backward run per target piece; shaded: interval over sentences."
    )
    return [write_figure(out / "samples", draw_noise_curves(found, caption), told)]


def _write_page(
    out: Path,
    preset: str,
    results: Results,
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Table]],
    figures: Mapping[str, Sequence[Picture]],
    curves: Sequence[Picture],
) -> None:
    from alignlens.report.render import latex, markdown
    from alignlens.report.study_page import StudyContents, study_page
    from alignlens.report.study_tables import claims_table

    shown = claims_table(verdicts)
    write_text(out / "claims.md", markdown(shown))
    write_text(out / "claims.tex", latex(shown))
    facts = [
        ("datasets", ", ".join(_dataset_told(dataset) for dataset in results.datasets)),
        ("models", ", ".join(dict.fromkeys(run.model for run in results.models)) or "none attributed"),
        ("model seeds", ", ".join(dict.fromkeys(run.seed for run in results.models)) or "none"),
        (
            "noise",
            f"σ = {results.protocol.sigma:g} of a sentence's range of values, n = {results.protocol.samples} copies",
        ),
        ("intervals", "; ".join(results.intervals) or "not recorded"),
    ]
    write_text(out / "index.html", study_page(StudyContents(preset, verdicts, tables, figures, curves, facts)))


def _dataset_told(dataset: Any) -> str:
    counterpart = f"printed as {dataset.published}" if dataset.published else "not in the paper"
    return f"{dataset.name} ({'-'.join(dataset.pair)}, {counterpart})"


def _summary(
    study: str, out: Path, results: Results, verdicts: Sequence[Verdict], causes: Sequence[CauseTable]
) -> dict[str, Any]:
    """Returns what the main report shows of the study."""
    from alignlens.report.study_page import TITLE
    from alignlens.studies.claims import counted
    from alignlens.studies.ding2019.summary import short_causes, short_error_rates

    return {
        "study": study,
        "title": TITLE,
        "page": str(out / "index.html"),
        "claims": counted(verdicts),
        "core": counted([verdict for verdict in verdicts if verdict.claim.priority == "core"]),
        "verdicts": {verdict.claim.id: verdict.verdict for verdict in verdicts},
        "datasets": [dataset.name for dataset in results.datasets],
        "models": list(dict.fromkeys(run.model for run in results.models)),
        "intervals": list(results.intervals),
        "error_rates": short_error_rates(results),
        "causes": short_causes(causes),
        "tables": [f"{stem}.csv" for stem in (*_FILES.values(), *(["causes"] if causes else []), "claims", "samples")],
        "figures": sorted(path.name for path in out.glob("*.svg")),
    }


def _told(summary: Mapping[str, Any]) -> str:
    reproduced, missed, untested = summary["claims"].values()
    failed = [claim for claim, verdict in summary["verdicts"].items() if verdict == "not reproduced"]
    lines = [
        f"Claims reproduced: {reproduced} of {reproduced + missed} that can be tested here ({untested} cannot).",
        *([f"Not reproduced: {', '.join(failed)}."] if failed else []),
        f"Study: {summary['page']}",
    ]
    return "\n".join(lines)


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
