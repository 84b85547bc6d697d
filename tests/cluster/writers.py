"""Many processes that journal and sync at once, forked from one that has loaded MLflow.

python tests/cluster/writers.py URI FOLDER --writers 50 [--apart]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from multiprocessing.synchronize import Barrier
from pathlib import Path

from alignlens.tracking.journal import Journal
from alignlens.tracking.store import Store

ROUNDS = 3
STEPS = 5


def loss(writer: int, step: int) -> float:
    """What a writer records, told apart from what all others do."""
    return writer + 1 / (step + 1)


def write(uri: str, folder: Path, writer: int, apart: bool, together: Barrier) -> None:
    """Journals one run, streams it round by round as a side process does, and syncs it at its end."""
    if apart:
        tempfile.tempdir = tempfile.mkdtemp(dir=folder)
    path = folder / "demo" / f"{writer}.journal.jsonl"
    store, problems = Store(uri), []
    together.wait()
    with Journal(path) as journal:
        run = journal.run(
            experiment="many",
            name=f"writer {writer}",
            identity={"preset": "demo", "writer": writer},
            params={"writer": writer},
            group="writers",
        )
        for number in range(ROUNDS):
            for step in range(number * STEPS, (number + 1) * STEPS):
                run.metric("loss", loss(writer, step), step)
            problems += store.sync([path], live=True).problems
    problems += store.sync([path]).problems
    if problems:
        sys.exit(f"writer {writer}: {problems}")


def main() -> int:
    """Returns 0 if no writer had a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uri")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--apart", action="store_true", help="no common lock, as on as many machines")
    args = parser.parse_args()
    os.environ["MLFLOW_LOGGING_LEVEL"] = "ERROR"
    import mlflow  # noqa: F401 - loaded once, before the fork

    fork = multiprocessing.get_context("fork")
    args.folder.mkdir(parents=True, exist_ok=True)
    together = fork.Barrier(args.writers)
    jobs = [
        fork.Process(target=write, args=(args.uri, args.folder, writer, args.apart, together))
        for writer in range(args.writers)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    return sum(job.exitcode != 0 for job in jobs)


if __name__ == "__main__":
    sys.exit(main())
