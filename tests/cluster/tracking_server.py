"""An MLflow server as ``alignlens server`` brings it up, and what a store holds, in a form to compare."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Those depend on who wrote the run, not on what it is; a parent is compared by its key.
PASSING_TAGS = ("alignlens.live", "mlflow.parentRunId", "mlflow.user")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(condition: Callable[[], object], what: str, seconds: float = 180.0) -> None:
    """Waits until the condition holds; what never comes is a failure, not a wait without end."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what} within {seconds:.0f} s"
        time.sleep(0.2)


@dataclass
class OwnServer:
    """The server of one folder; ``secrets`` are in the environment of everything it is asked to run."""

    folder: Path
    options: tuple[str, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
        return kept | self.secrets

    def alignlens(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "alignlens", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def up(self) -> str:
        """Returns what was printed."""
        done = self.alignlens("server", "up", "--folder", str(self.folder), "--port", str(self.port), *self.options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def down(self) -> None:
        done = self.alignlens("server", "down", "--folder", str(self.folder))
        assert done.returncode == 0, done.stderr

    def pids(self, name: str) -> list[int]:
        """The recorded processes of ``server`` or ``database``."""
        lines = (self.folder / f"{name}.pid").read_text().splitlines()
        return [int(line.split()[0]) for line in lines]

    def kill(self, name: str) -> None:
        for pid in self.pids(name):
            os.kill(pid, signal.SIGKILL)

    def sync(self, results: Path) -> str:
        """Returns the summary of ``alignlens track sync``, which may have nothing to complain about."""
        done = self.alignlens("track", "sync", "--results", str(results), "--uri", self.uri)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def told(self) -> dict[str, dict[str, Any]]:
        """The runs by key as one search tells them: much less to ask for than ``runs``."""
        with patch.dict(os.environ, self.secrets):
            return {run.data.tags["alignlens.key"]: run.to_dictionary() for run in _search(self.uri)[1]}

    def runs(self, keys: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """The content of the store; see ``stored``."""
        with patch.dict(os.environ, self.secrets):
            return stored(self.uri, keys)


@contextmanager
def own_server(*options: str, place: str = "server", **secrets: str) -> Iterator[OwnServer]:
    """Yields a running server in a fresh folder that the user of the database may pass, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="alignlens-") as name:
        root = Path(name)
        root.chmod(0o711)
        server = OwnServer(root / place, options, secrets)
        try:
            server.up()
            yield server
        finally:
            server.down()


def stored(uri: str, wanted: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Returns every run by key, or some: what it is, its metrics with all steps and times, its files byte for byte."""
    client, runs, experiments = _search(uri)
    keys = {run.info.run_id: run.data.tags["alignlens.key"] for run in runs}
    assert len(set(keys.values())) == len(runs), "a key has two runs"
    return {
        keys[run.info.run_id]: _content(client, run, experiments, keys)
        for run in runs
        if wanted is None or keys[run.info.run_id] in wanted
    }


def _search(uri: str) -> tuple[Any, list[Any], dict[str, str]]:
    """Returns a client, all runs, and the names of their experiments."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiments = {e.experiment_id: e.name for e in client.search_experiments() if e.name.startswith("alignlens/")}
    return client, client.search_runs(list(experiments), max_results=5000) if experiments else [], experiments


def _content(client: Any, run: Any, experiments: dict[str, str], keys: dict[str, str]) -> dict[str, Any]:
    info, data = run.info, run.data
    parent = data.tags.get("mlflow.parentRunId")
    return {
        "experiment": experiments[info.experiment_id],
        "name": info.run_name,
        "status": info.status,
        "times": (info.start_time, info.end_time),
        "params": data.params,
        "tags": {name: value for name, value in data.tags.items() if name not in PASSING_TAGS},
        "parent": None if parent is None else keys[parent],
        "metrics": {name: _history(client, info.run_id, name) for name in data.metrics},
        "files": _files(client, info.run_id),
    }


def _history(client: Any, run: str, name: str) -> list[tuple[int, int, float]]:
    return sorted((point.step, point.timestamp, point.value) for point in client.get_metric_history(run, name))


def _files(client: Any, run: str) -> dict[str, bytes]:
    if not client.list_artifacts(run):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(client.download_artifacts(run, "", folder))
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
