"""Seconds per write to the tracker with 1, 8 and 50 writers at once: SQLite, and a server with PostgreSQL.

python benchmarks/tracking.py [--writers 1 8 50] [--rounds 4]

A write is what the side process of a running job does every few seconds: it sends the new points of its journal.
Waiting for the others' turns is part of it. Every writer is a process; the first write, which makes the run, is not
counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from alignlens.serving.server import Server, ServerSettings
from alignlens.tracking.journal import Journal
from alignlens.tracking.store import Store

POINTS = 20


def write(uri: str, folder: Path, rounds: int, together: Barrier, times: SimpleQueue[list[float]]) -> None:
    """Puts the seconds of every write of one job."""
    path = folder / f"{multiprocessing.current_process().name}.journal.jsonl"
    store, seconds = Store(uri), []
    with Journal(path) as journal:
        run = journal.run(experiment=folder.name, name=path.stem, identity={"path": str(path)}, group="benchmark")
        for number in range(rounds + 1):
            for step in range(POINTS * number, POINTS * (number + 1)):
                run.metrics({"loss": 1 / (step + 1), "accuracy": step / 1000}, step)
            together.wait()
            begin = time.perf_counter()
            result = store.sync([path], live=True)
            seconds.append(time.perf_counter() - begin)
            assert result.complete, result.problems
    times.put(seconds[1:])


def measure(uri: str, folder: Path, writers: int, rounds: int) -> list[float]:
    """Returns the seconds of all writes of all writers."""
    fork = multiprocessing.get_context("fork")
    together, times = fork.Barrier(writers), fork.SimpleQueue()
    jobs = [fork.Process(target=write, args=(uri, folder, rounds, together, times)) for _ in range(writers)]
    for job in jobs:
        job.start()
    found = [seconds for _ in jobs for seconds in times.get()]
    for job in jobs:
        job.join()
    return found


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    """Yields the address of a fresh SQLite store."""
    yield f"sqlite:///{folder / 'mlflow.db'}"


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """Yields the address of a fresh server with PostgreSQL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        settings = ServerSettings(port=probe.getsockname()[1])
    folder.chmod(0o711)  # for root PostgreSQL runs as another user
    server = Server(folder / "server")
    try:
        server.up(settings)
        yield settings.url
    finally:
        server.down()


STORES: dict[str, Callable[[Path], object]] = {"SQLite": sqlite, "server + PostgreSQL": postgresql}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8, 50])
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    os.environ["MLFLOW_LOGGING_LEVEL"] = "ERROR"
    import mlflow  # noqa: F401 - loaded once, before the fork

    print(f"| store | writers | median (s) | maximum (s) |\n|{'---|' * 4}")
    for name, store in STORES.items():
        with tempfile.TemporaryDirectory(prefix="alignlens-") as scratch, store(Path(scratch)) as uri:
            for writers in args.writers:
                folder = Path(scratch) / f"writers{writers}"
                seconds = measure(uri, folder, writers, args.rounds)
                median, most = statistics.median(seconds), max(seconds)
                print(f"| {name} | {writers} | {median:.2f} | {most:.2f} |", flush=True)


if __name__ == "__main__":
    main()
