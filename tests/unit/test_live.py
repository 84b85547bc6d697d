"""The side process: it shows a run while it goes on, and leaves the store as a sync would."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from alignlens.tracking import live
from alignlens.tracking.journal import Journal, read_journal
from alignlens.tracking.reconcile import SyncResult
from alignlens.tracking.store import Store
from alignlens.tracking.watch import trusted_root

JOB = """
import sys, time
from pathlib import Path
from alignlens.tracking.journal import Journal
with Journal(Path(sys.argv[1])) as journal:
    run = journal.run(experiment=sys.argv[2], name="job", identity={"preset": "demo"}, params={"a": 1}, group="g")
    Path(sys.argv[1]).with_name("table.csv").write_text("1")
    run.metric("loss", 1.0, 0)
    run.artifact(Path(sys.argv[1]).with_name("table.csv"))
    for step, line in enumerate(sys.stdin, start=1):
        run.metric("loss", 1.0 / (step + 1), step)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('live') / 'mlflow.db'}")
    store.sync([])
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.journal.jsonl"


def start(path: Path, store: Store, experiment: str) -> tuple[subprocess.Popen[str], subprocess.Popen[bytes]]:
    """Starts a job that records a step per line it is told, and the side process as the job would."""
    job = subprocess.Popen([sys.executable, "-c", JOB, str(path), experiment], stdin=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < until
        time.sleep(0.02)
    command = [sys.executable, "-m", "alignlens.tracking.live", str(path), "--parent", str(job.pid)]
    environment = {"MLFLOW_TRACKING_URI": store.address.uri}
    return job, subprocess.Popen([*command, "--every", "0.2"], env=environment)


def runs_of(store: Store, experiment: str) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store.address.uri)
    found = client.get_experiment_by_name(f"alignlens/{experiment}")
    if found is None:
        return []
    return client.search_runs([found.experiment_id], "tags.`alignlens.attempt` LIKE '%'")


def wait_for_loss(store: Store, experiment: str, value: float) -> Any:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        for run in runs_of(store, experiment):
            if run.data.metrics.get("loss") == value:
                return run
        time.sleep(0.1)
    pytest.fail(f"loss {value} did not appear")


def test_a_run_is_seen_while_it_goes_on_and_sync_finds_nothing_to_do(store: Store, path: Path) -> None:
    job, side = start(path, store, "watched")
    assert job.stdin is not None
    seen = wait_for_loss(store, "watched", 1.0)
    assert (seen.info.status, seen.data.params) == ("RUNNING", {"a": "1"})
    assert store.sync([path]).changed == 0, "a run that is streamed is left to its stream"
    for step in (1, 2):
        job.stdin.write("next\n")
        job.stdin.flush()
        again = wait_for_loss(store, "watched", 1.0 / (step + 1))
        assert again.info.run_id == seen.info.run_id
    job.stdin.close()
    assert job.wait(10) == 0
    assert side.wait(30) == 0
    result = store.sync([path])
    assert (result.changed, result.unchanged, result.problems) == (0, 1, [])
    (run,) = runs_of(store, "watched")
    assert (run.info.run_id, run.info.status) == (seen.info.run_id, "FINISHED")
    assert "seconds" in run.data.metrics
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store.address.uri)
    history = client.get_metric_history(run.info.run_id, "loss")
    assert sorted((point.step, point.value) for point in history) == [(0, 1.0), (1, 1 / 2), (2, 1 / 3)]
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["table.csv"]


def test_a_killed_job_ends_as_killed_without_any_sync(store: Store, path: Path) -> None:
    job, side = start(path, store, "murdered")
    assert job.stdin is not None
    seen = wait_for_loss(store, "murdered", 1.0)
    job.kill()
    job.wait()
    job.stdin.close()
    assert side.wait(30) == 0
    (run,) = runs_of(store, "murdered")
    assert (run.info.run_id, run.info.status) == (seen.info.run_id, "KILLED")
    assert store.sync([path]).changed == 0


def test_a_sync_completes_what_a_dead_stream_left_open(store: Store, path: Path) -> None:
    with Journal(path) as journal:
        run = journal.run(experiment="left", name="left", identity={})
        run.metric("loss", 3.0, 0)
        Store(store.address).sync([path], live=True)
        (seen,) = runs_of(store, "left")
        run.metric("loss", 2.0, 1)
    result = store.sync([path])
    assert (result.updated, result.changed) == (1, 1)
    (stored,) = runs_of(store, "left")
    assert (stored.info.run_id, stored.info.status) == (seen.info.run_id, "FINISHED")
    assert stored.data.metrics["loss"] == 2.0
    assert store.sync([path]).changed == 0


def test_a_dead_tracker_is_given_up_while_the_job_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_GLANCE_SECONDS", 0.01)
    rounds = []

    class Deaf(Store):
        def sync(self, journals: Any, *, live: bool = False) -> SyncResult:
            rounds.append(live)
            if len(rounds) <= 5:
                run.metric("loss", 1.0)
            return super().sync(journals, live=live)

    monkeypatch.setattr("alignlens.tracking.store.Store", Deaf)
    with Journal(path) as journal:
        run = journal.run(experiment="x", name="x", identity={})
        assert live.stream(path, "http://127.0.0.1:9", os.getpid(), every=0.01) is False
        assert rounds == [True] * 5
    assert live.stream(path, "http://127.0.0.1:9", os.getpid(), every=0.01) is False
    assert len(rounds) == 6, "after the end of the job one round is enough"


def test_files_come_from_the_trusted_folder_only(store: Store, path: Path) -> None:
    """The job names the folder; without one only that of the journal counts."""
    from mlflow import MlflowClient

    outside = path.parent / "outside.csv"
    outside.write_text("1")
    inner = path.parent / "inner" / path.name
    found = []
    for number, results in enumerate((None, path.parent)):
        with Journal(inner) as journal:
            journal.run(experiment=f"trusted {number}", name="x", identity={}).artifact(outside)
        assert live.stream(inner, store.address.uri, os.getpid(), every=0.1, results=results)
        (run,) = runs_of(store, f"trusted {number}")
        client = MlflowClient(tracking_uri=store.address.uri)
        found += [file.path for file in client.list_artifacts(run.info.run_id)]
    assert found == ["outside.csv.reference.txt", "outside.csv"]


def test_the_job_names_the_results_of_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "demo").mkdir(parents=True)
    assert trusted_root(Path("results/demo/a.journal.jsonl")) == tmp_path / "results"
    assert trusted_root(Path("results-old/a.journal.jsonl")) == tmp_path / "results-old"
    (tmp_path / "results" / "link").symlink_to(tmp_path)
    assert trusted_root(Path("results/link/a.journal.jsonl")) == tmp_path


def test_a_malformed_journal_or_address_ends_the_stream(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for junk in (b"junk\n", b"\xff\n", b'{"event":' * 10_000 + b"\n", b""):
        path.write_bytes(junk)
        assert live.stream(path, "http://127.0.0.1:9", os.getpid(), every=0.01) is False
    path.unlink()
    os.mkfifo(path)
    assert live.stream(path, "http://127.0.0.1:9", os.getpid(), every=0.01) is False
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense")
    monkeypatch.setattr(os, "nice", lambda step: step)
    assert live.main([str(path), "--parent", "1"]) == 2


def test_the_stream_of_an_earlier_attempt_stops(path: Path) -> None:
    with Journal(path) as journal:
        journal.run(experiment="x", name="x", identity={})
        assert live.stream(path, "http://127.0.0.1:9", parent=1, every=10) is False
    path.unlink()
    assert live.stream(path, "http://127.0.0.1:9", parent=1, every=10) is False


def test_the_job_neither_imports_mlflow_nor_waits(path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from alignlens.tracking.journal import Journal\n"
        "begin = time.monotonic()\n"
        "with Journal(Path(sys.argv[1]), live_uri='http://127.0.0.1:9') as journal:\n"
        "    for n in range(3): journal.run(experiment='x', name='x', identity={'n': n})\n"
        "    assert 'mlflow' not in sys.modules and 'sqlalchemy' not in sys.modules\n"
        "    assert time.monotonic() - begin < 20, time.monotonic() - begin\n"
        "    import subprocess\n"
        "    args = subprocess.run(['ps', '-eww', '-o', 'args'], capture_output=True, text=True).stdout\n"
        "print(sum('alignlens.tracking.live ' + sys.argv[1] in line for line in args.splitlines()))\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_side_process_that_cannot_start_is_no_failure(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(path.parent / "no such python"))
    with Journal(path, live_uri="http://127.0.0.1:9") as journal:
        journal.run(experiment="x", name="x", identity={})
    assert read_journal(path)[0].status == "FINISHED"
    assert "no live view" in caplog.text
