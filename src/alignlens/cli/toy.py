"""``alignlens toy``: train small models on a generated task, many seeds at once; the same command continues."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json_option
from alignlens.io.limits import THREADS
from alignlens.io.progress import Progress
from alignlens.io.typed import written
from alignlens.toys.settings import TASKS, SeededSettings, ToySettings, toy_settings
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from alignlens.tracking.journal import Run

OUTPUTS = Outputs(files=("out",), folders=("work",), words=("task",))
_LEARNED = 0.95


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=", ".join(TASKS))
    parser.add_argument(
        "--settings", default="{}", metavar="JSON", help="JSON with changes to the published sizes (docs/toys.md)"
    )
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="resumable state; removed at the end")
    parser.add_argument(
        "--threads", type=count(THREADS), help="trainings at a time, one core each (default: all cores)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON file for curves and settings")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_about(parser)
    parser.epilog = (
        "Ctrl-C and SIGTERM finish the update, save and exit. The same command continues, even after kill -9.\n\n"
        'example:\n  alignlens toy permutation --settings \'{"words": 10, "hidden": 64, "dim": 64, "seeds": 6}\' \\\n'
        "      --work permutation.work --out permutation.json"
    )


def run(args: argparse.Namespace) -> None:
    """Trains all seeds of the task from wherever the work folder is, then writes the curves."""
    settings = toy_settings(args.task, read_json_option("--settings", args.settings), "--settings")
    about = about_of(args)
    from alignlens.toys.tasks import run_task, updates

    with Journal(args.journal) as journal:
        record = _record(journal, about, args.task, settings)
        with Progress(f"toy {args.task}", updates(settings), "updates") as progress:
            threads = args.threads or len(os.sched_getaffinity(0))
            result = run_task(args.task, settings, args.work, threads, progress.advance)
            write_json(args.out, result)
        summary = _recorded(record, result)
        record.artifact(args.out)
    if args.json:
        print(json.dumps({"task": args.task, **summary}))
    else:
        print("  ".join(f"{name} {value:.4g}" for name, value in summary.items()))


def _record(journal: Journal, about: dict[str, Any], task: str, settings: ToySettings) -> Run:
    name = about.get("toy", task)
    seeds = f"{settings.seeds} seeds" if isinstance(settings, SeededSettings) else None
    identity = {**about, "toy": name, "task": task}
    return journal.run(
        experiment="toys",
        name=run_name(name, seeds),
        identity=identity,
        tags={"step": "toy", **{key: str(value) for key, value in identity.items()}},
        params=written(settings),
    )


def _recorded(record: Run, result: Mapping[str, Any]) -> dict[str, float]:
    """Records the curves of a task; returns their final values."""
    steps = result["steps"]
    if result["task"] == "keyword":
        last = {}
        for variant, measures in result["variants"].items():
            curves = {f"{variant}_{name}": _means(rows) for name, rows in measures.items()}
            last.update(_record_curves(record, steps, curves))
        return last
    if result["task"] == "heads":
        single = result["single"]
        rows = {name: scenario["accuracy"] for name, scenario in result["scenarios"].items() if scenario["accuracy"]}
        curves = {f"{name}_accuracy": _means(each) for name, each in rows.items()}
        curves.update({f"{name}_converged": _shares(each) for name, each in rows.items()})
        counted = {name: single[name] for name in ("trials", "successes", "good", "bad", "rejected")}
        record.metrics({f"single_{name}": value for name, value in counted.items()})
        share = {"single_converged": single["successes"] / single["trials"]}
        record.metrics(share, steps[-1])
        return {**share, **_record_curves(record, steps, curves)}
    rows = result["accuracy"]
    record.metrics({f"accuracy_s{seed}": row[-1] for seed, row in zip(result["seeds"], rows, strict=True)}, steps[-1])
    return _record_curves(record, steps, {"accuracy": _means(rows), "converged": _shares(rows)})


def _record_curves(record: Run, steps: Sequence[int], curves: Mapping[str, Sequence[float]]) -> dict[str, float]:
    for place, step in enumerate(steps):
        record.metrics({name: curve[place] for name, curve in curves.items()}, step)
    return {name: curve[-1] for name, curve in curves.items()}


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(column) for column in zip(*rows, strict=True)]


def _shares(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(value > _LEARNED for value in column) for column in zip(*rows, strict=True)]
