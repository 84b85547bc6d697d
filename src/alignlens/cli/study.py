"""``alignlens study``: the tables, figures and claims of a published study from a results folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.paths import Outputs
from alignlens.errors import InputError
from alignlens.io.atomic import write_json, write_text
from alignlens.studies.registry import studies, study_of
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import Results
    from alignlens.studies.contract import Study
    from alignlens.studies.files import Built
    from alignlens.studies.runs import PageRun

OUTPUTS = Outputs(places=("out", "results"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    known = studies()
    about = "; ".join(f"{name}: {study.about}" for name, study in known.items())
    parser.add_argument("study", choices=known, help=about)
    parser.add_argument("--results", type=Path, required=True, metavar="DIR", help="results folder of a preset")
    parser.add_argument(
        "--manifest", type=Path, metavar="FILE", help="manifest of the files to read (default: see below)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for all output (default: RESULTS/STUDY)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    add_about(parser)
    parser.epilog = (
        f"example:\n  alignlens study {next(iter(known))} --results results/demo\n\n"
        "Reads what the last pipeline run made for this study (RESULTS/STUDY/manifest.json lists the files). Without\n"
        "that file, reads the scores of all models and aligners. The page names what is missing.\n"
        "The journal is OUT/study.journal.jsonl unless --journal says otherwise."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the study and prints the verdicts on the claims."""
    from alignlens.results.manifest import Manifest
    from alignlens.results.reader import read_results

    about = about_of(args)
    manifest = Manifest.of(args.results, args.study, args.manifest)
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
        results = read_results(manifest)
        study = study_of(args.study)
        if study.needs_gold and not results.datasets:
            raise InputError("no scores in this folder.", args.results, advice="Run the pipeline first.")
        built = study.build(results, out)
        _write_claims(study, out, preset, built, _runs_behind(manifest))
        summary = _summary(study, out, results, built)
        write_json(out / "summary.json", summary)
        record.metrics({f"claims_{name.replace(' ', '_')}": count for name, count in summary["claims"].items()})
        record.metrics(dict(built.metrics))
        for path in sorted(path for path in out.iterdir() if path.suffix in (".csv", ".md", ".svg", ".html")):
            record.artifact(path, folder="figures" if path.suffix == ".svg" else "tables")
    print(json.dumps(summary, indent=2, ensure_ascii=False) if args.json else _printed(summary))


def _runs_behind(manifest: Manifest) -> list[PageRun]:
    """Returns the runs whose files the study reads; a journal of no use is told and left out."""
    from alignlens.results.reader import without_noise_seed
    from alignlens.studies.runs import PageRun
    from alignlens.tracking.beside import records_beside

    skipped: list[str] = []
    records = records_beside(manifest.root, manifest.files, skipped)
    for problem in skipped:
        print(f"alignlens study: left out: {problem}", file=sys.stderr)
    runs = []
    for each in records:
        tags = {name: str(value) for name, value in each.tags.items()}
        # A number of a table is a mean over the seeds of the noise.
        tags |= {"method": without_noise_seed(tags["method"])} if "method" in tags else {}
        runs.append(PageRun(each.key, each.experiment, each.name, tags))
    return runs


def _write_claims(study: Study, out: Path, preset: str, built: Built, runs: Sequence[PageRun]) -> None:
    """Writes the verdicts, and the page that has everything."""
    from alignlens.display.render import latex, markdown
    from alignlens.studies.claims import COLUMNS, COMPARISON_COLUMNS, comparison_records, records
    from alignlens.studies.files import write_csv
    from alignlens.studies.page import study_page
    from alignlens.studies.shown import claims_table

    shown = claims_table(study.name, built.verdicts)
    write_csv(out / "claims.csv", COLUMNS, records(built.verdicts))
    write_csv(out / "comparisons.csv", COMPARISON_COLUMNS, comparison_records(built.verdicts))
    write_text(out / "claims.md", markdown(shown))
    write_text(out / "claims.tex", latex(shown))
    page = study_page(study, preset, built.verdicts, built.sections, built.facts, runs)
    write_text(out / "index.html", page)


def _summary(study: Study, out: Path, results: Results, built: Built) -> dict[str, Any]:
    """Returns the summary of the study for the main report."""
    from alignlens.studies.claims import counted

    return {
        "study": study.name,
        "title": study.title,
        "lead": study.lead,
        "figure": _front(study, built),
        "page": str(out / "index.html"),
        "claims": counted(built.verdicts),
        "core": counted([verdict for verdict in built.verdicts if verdict.claim.priority == "core"]),
        "verdicts": {verdict.claim.id: verdict.verdict for verdict in built.verdicts},
        "datasets": [dataset.name for dataset in results.datasets],
        "models": list(dict.fromkeys(run.model for run in results.models)),
        "intervals": list(results.intervals),
        **built.summary,
        "tables": [f"{stem}.csv" for stem in (*built.tables, "claims", "comparisons")],
        "figures": sorted(path.name for path in out.glob("*.svg")),
    }


def _front(study: Study, built: Built) -> dict[str, str] | None:
    """Returns the figure that stands for the study: the one it names, or else the first one drawn."""
    drawn = [(section.label, picture) for section in built.sections for picture in section.figures]
    figure = next((picture for label, picture in drawn if label == study.front), drawn[0][1] if drawn else None)
    return None if figure is None else {"file": figure.file, "caption": figure.caption}


def _printed(summary: Mapping[str, Any]) -> str:
    from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, UNDECIDED

    counts = summary["claims"]
    untested = counts[NOT_TESTABLE]
    tested = sum(counts.values()) - untested
    lines = [f"Claims reproduced: {counts[REPRODUCED]} of {tested} that can be tested here ({untested} cannot)."]
    for verdict in (NOT_REPRODUCED, UNDECIDED):
        if claims := [claim for claim, each in summary["verdicts"].items() if each == verdict]:
            lines.append(f"{verdict.capitalize()}: {', '.join(claims)}.")
    return "\n".join([*lines, f"Study: {summary['page']}"])
