"""The side process that reads the journal of a running job and streams it to the tracker.

The job starts it (``alignlens.tracking.watch``) and forgets it. It runs with low priority and prints nothing; if the
tracker fails it gives up, and ``alignlens track sync`` makes the store complete later.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import AlignlensError, InputError
from alignlens.tracking.records import RUNNING, RunRecord, is_alive, read_journal
from alignlens.tracking.watch import EVERY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

_GLANCE_SECONDS = 0.25
_PATIENCE = 5
_SHARE = 10.0


def stream(journal: Path, uri: str, parent: int, every: float, results: Path | None = None) -> bool:
    """Follows the journal of process ``parent`` to its end; returns whether the store shows all of it.

    Files are sent from below ``results`` only, or if that is not given from below the folder of the journal.
    """
    from alignlens.tracking.store import Store

    store = Store(uri, results)
    failures = 0
    share = 0.0  # the first round loads MLflow, so its time says nothing about the others
    while True:
        try:
            size = _size(journal)
            records = read_journal(journal)
        except InputError:
            return False
        if not records or any(record.pid != parent for record in records):
            return False  # the job was started again and has another side process
        last = not any(record.status == RUNNING and is_alive(record) for record in records)
        before = time.process_time()
        result = store.sync([journal], live=True)
        failures = 0 if result.complete else failures + 1
        if last or failures >= _PATIENCE:
            return result.complete
        _wait(max(every, share * (time.process_time() - before)) * (1 + failures), journal, size, records)
        share = _SHARE


def _wait(seconds: float, journal: Path, size: int, records: list[RunRecord]) -> None:
    """Waits, and goes on waiting until the journal grows beyond ``size``, but no longer than the job lives."""
    until = time.monotonic() + seconds
    while any(is_alive(record) for record in records):
        if time.monotonic() >= until and _size(journal) != size:
            return
        time.sleep(_GLANCE_SECONDS)


def _size(journal: Path) -> int:
    try:
        return journal.stat().st_size
    except OSError:
        return -1


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the side process; 0 if the store shows the whole journal."""
    parser = argparse.ArgumentParser(prog="python -m alignlens.tracking.live", description=__doc__)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--parent", type=int, required=True, help="the process that writes the journal")
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between two batches")
    parser.add_argument("--results", type=Path, help="where files may come from (the folder of the journal)")
    args = parser.parse_args(argv)
    os.nice(10)
    try:
        whole = stream(args.journal, os.environ["MLFLOW_TRACKING_URI"], args.parent, args.every, args.results)
    except AlignlensError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
