"""``alignlens track``: bring journals and MLflow store together, and look at journals."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.actions import add_actions
from alignlens.errors import ConfigError
from alignlens.tracking.address import resolve_address
from alignlens.tracking.reconcile import KEPT, SyncResult, load_records
from alignlens.tracking.records import find_journals

if TYPE_CHECKING:
    import argparse

    from alignlens.tracking.address import Address
    from alignlens.tracking.records import RunRecord

_EPILOG = """example:
  alignlens track sync --results results --preset demo

The store is --uri, else MLFLOW_TRACKING_URI, else results/mlflow.db.
'alignlens track ACTION --help' explains an action."""
_ACTIONS = {
    "sync": (
        "Bring the MLflow store up to date with the journals; doing it twice changes nothing. "
        "If the store cannot be reached, that is a warning, not a failure.",
        "alignlens track sync --uri http://localhost:5000",
    ),
    "rebuild": (
        "Rebuild the MLflow store from all journals. A SQLite file is kept as mlflow.db.bak; "
        "on a server the runs of these presets are deleted and written again.",
        "alignlens track rebuild --results results",
    ),
    "list": (
        "List the runs of the journals with status and metrics; needs no store.",
        "alignlens track list --preset demo --json",
    ),
}
_FIRST_METRICS = ("aer", "bleu", "precision", "recall", "f1", "loss", "perplexity", "seconds", "peak_memory_mb")
_METRICS_SHOWN = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their options."""
    parser.epilog = _EPILOG
    for name, action in add_actions(parser, _ACTIONS).items():
        action.add_argument("--results", type=Path, default=Path("results"), help="results folder (results)")
        if name != "rebuild":  # half a SQLite store would replace a complete one
            action.add_argument("--preset", help="only the runs of one preset")
        if name != "list":
            action.add_argument("--uri", help="tracking URI (MLFLOW_TRACKING_URI, else results/mlflow.db)")
        action.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int | None:
    """Runs one action."""
    if args.action == "list":
        return _list(args)
    # A new store without the runs of an unreadable folder would be incomplete.
    unread: list[str] | None = [] if args.action == "sync" else None
    journals = find_journals(args.results, getattr(args, "preset", None), unread)
    try:
        address = resolve_address(args.uri, args.results)
    except ConfigError as error:
        if args.uri or args.action != "sync":
            raise
        warn(SyncResult(reached=False, problems=[f"MLFLOW_TRACKING_URI: {error}"]), "alignlens track sync")
        return 0
    from alignlens.tracking.store import Store

    store = Store(address, args.results)
    result = store.sync(journals) if args.action == "sync" else store.rebuild(journals)
    result.problems[:0] = unread or []
    if args.json:
        content = asdict(result) | {"complete": result.complete, "uri": str(address)}
        print(json.dumps(content, sort_keys=True))
    elif result.reached:
        print(summary(result, address))
    warn(result, f"alignlens track {args.action}")
    # The pipeline ends with a sync: a tracker that is away for a while must not fail a finished pipeline.
    return 0 if args.action == "sync" or result.reached else 2


def summary(result: SyncResult, address: Address) -> str:
    """Returns one line about what was done, and where."""
    counts = f"{result.created} created, {result.replaced} replaced, {result.updated} continued"
    counts += f", {result.unchanged} unchanged"
    if result.ended:
        counts += f", {result.ended} ended as killed"
    if result.problems:
        counts += f", {len(result.problems)} left out"
    return f"{address}: {counts}"


def warn(result: SyncResult, who: str) -> None:
    """Prints to stderr, in one line each, what is missing in the store; why it was not reached comes last."""
    comfort = "" if result.reached else " The journals hold all runs: sync again later."
    if any(advice in problem for problem in result.problems[-1:] for advice in (KEPT, "alignlens track rebuild")):
        comfort = ""
    for number, problem in enumerate(result.problems, start=1):
        print(f"{who}: warning: {problem}{comfort if number == len(result.problems) else ''}", file=sys.stderr)


def _list(args: argparse.Namespace) -> int:
    reading = SyncResult()
    records = load_records(find_journals(args.results, args.preset, reading.problems), reading)
    records.sort(key=lambda record: (record.experiment, record.preset, record.name))
    if args.json:
        print(json.dumps([_described(record) for record in records], ensure_ascii=False))
    else:
        rows = [(record.experiment, record.status, record.name, _metrics(record)) for record in records]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
            print("  ".join([*cells, row[3]]).rstrip())
    warn(reading, "alignlens track list")
    return 0


def _metrics(record: RunRecord) -> str:
    latest = record.latest
    names = [name for name in _FIRST_METRICS if name in latest]
    names += [name for name in latest if name not in names]
    shown = [f"{name} {latest[name]:.6g}" for name in names[:_METRICS_SHOWN]]
    return record.error or " ".join(shown)


def _described(record: RunRecord) -> dict[str, object]:
    return {
        "key": record.key,
        "experiment": record.experiment,
        "name": record.name,
        "group": record.group,
        "status": record.status,
        "error": record.error,
        "tags": record.tags,
        "params": record.params,
        "metrics": record.latest,
        "start": record.start,
        "end": record.end,
        "journal": str(record.journal),
    }
