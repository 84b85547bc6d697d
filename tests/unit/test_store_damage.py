"""A damaged SQLite store is noticed before anything is written; a rebuild ends whole or leaves everything as it was."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from stores import client_of, counts, runs_of

from alignlens.cli.main import main
from alignlens.tracking.journal import Journal
from alignlens.tracking.records import find_journals
from alignlens.tracking.store import Store

PAGE = 4096


def fill(results: Path, number: int, content: str = "1\n") -> None:
    table = results / "demo" / f"{number}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(content)
    with Journal(results / "demo" / f"{number}.journal.jsonl") as journal:
        run = journal.run(experiment="score", name=str(number), identity={"preset": "demo", "n": number}, group="g")
        run.metric("aer", number)
        run.artifact(table, "tables")


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with a store, to be copied."""
    results = tmp_path_factory.mktemp("pattern") / "results"
    for number in range(2):
        fill(results, number)
    assert counts(store_of(results).sync(find_journals(results))) == (2, 0, 0, 0, 0)
    return results


@pytest.fixture
def results(pattern: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pattern, tmp_path / "results"))


@pytest.fixture(autouse=True)
def _no_tracker_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def store_of(results: Path) -> Store:
    return Store(f"sqlite:///{results / 'mlflow.db'}", results)


def files_of(results: Path) -> dict[str, bytes]:
    """Everything there is, the lock apart, which stays empty."""
    return {str(path.relative_to(results)): path.read_bytes() for path in results.rglob("*") if path.is_file()}


def damage(database: Path, page: int) -> bytes:
    content = bytearray(database.read_bytes())
    content[page * PAGE : (page + 1) * PAGE] = bytes(range(256)) * (PAGE // 256)
    database.write_bytes(content)
    return bytes(content)


def page_of(database: Path, table: str) -> int:
    with closing(sqlite3.connect(database)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(page) - 1


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_damaged_pages_are_noticed_before_anything_is_written(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = results / "mlflow.db"
    whole = database.read_bytes()
    fill(results, 2)
    pages = [page_of(database, name) for name in ("runs", "tags", "sqlite_autoindex_runs_1", "webhooks")]
    for page in (*pages, len(whole) // PAGE - 1):
        database.write_bytes(whole)
        damage(database, page)
        before = files_of(results)
        assert main(["track", "sync", "--results", str(results)]) == 0
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1
        assert "damaged (" in told.err
        assert "Rebuild it: alignlens track rebuild." in told.err
        assert files_of(results) == before
    assert main(["ui", "--results", str(results), "--no-sync", "--port", free_port()]) == 2
    assert "Rebuild it: alignlens track rebuild." in capsys.readouterr().err
    for size in (len(whole) // 2, PAGE, 100):
        database.write_bytes(whole[:size])
        assert not store_of(results).sync(find_journals(results)).reached
        assert database.read_bytes() == whole[:size]


def test_a_flipped_bit_in_an_index_is_noticed(results: Path) -> None:
    database = results / "mlflow.db"
    content = database.read_bytes()
    with closing(sqlite3.connect(database)) as connection:
        (run,) = connection.execute("SELECT run_uuid FROM runs").fetchone()
    place = content.index(run.encode())
    database.write_bytes(content[:place] + b"~" + content[place + 1 :])
    assert "damaged" in store_of(results).sync(find_journals(results)).problems[0]


def test_a_damaged_store_never_takes_the_place_of_a_good_copy(results: Path) -> None:
    database, backup = results / "mlflow.db", results / "mlflow.db.bak"
    good = database.read_bytes()
    journals = find_journals(results)
    assert counts(store_of(results).rebuild(journals)) == (2, 0, 0, 0, 0)
    assert backup.read_bytes() == good
    damaged = damage(database, page_of(database, "runs"))
    assert counts(store_of(results).rebuild(journals)) == (2, 0, 0, 0, 0)
    assert backup.read_bytes() == good
    assert (results / "mlflow.db.damaged").read_bytes() == damaged
    assert counts(store_of(results).sync(journals)) == (0, 0, 0, 2, 0)
    database.write_bytes(b"")
    assert counts(store_of(results).rebuild(journals)) == (2, 0, 0, 0, 0)
    assert backup.read_bytes() == good, "an empty file is no store"


def test_side_files_of_the_old_store_do_not_spoil_the_new_one(results: Path) -> None:
    database = results / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE experiments SET name = 'mine' WHERE name = 'Default'")
        connection.commit()
        wal = (results / "mlflow.db-wal").read_bytes()
        copy = database.read_bytes()
    assert wal
    database.write_bytes(copy)
    (results / "mlflow.db-wal").write_bytes(wal)
    damage(database, page_of(database, "runs"))
    (results / "mlflow.db-wal").write_bytes(wal)
    journals = find_journals(results)
    assert counts(store_of(results).rebuild(journals)) == (2, 0, 0, 0, 0)
    assert sorted(path.name for path in results.glob("mlflow.db-*")) == []
    assert counts(store_of(results).sync(journals)) == (0, 0, 0, 2, 0)


def test_a_copied_store_does_not_write_into_the_folder_it_comes_from(
    results: Path, pattern: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(pattern)
    command = ["--results", str(results)]
    assert main(["track", "sync", *command]) == 0
    assert "2 unchanged" in capsys.readouterr().out, "looking at it is harmless"
    fill(results, 2)
    assert main(["track", "sync", *command]) == 0
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"was moved or copied; its files still go to {pattern}" in told.replace("file://", "")
    assert main(["track", "rebuild", *command]) == 0
    assert main(["track", "sync", *command]) == 0
    assert "3 unchanged" in capsys.readouterr().out
    assert files_of(pattern) == before


def test_runs_of_the_user_keep_their_files(results: Path) -> None:
    store = store_of(results)
    assert counts(store.rebuild(find_journals(results))) == (2, 0, 0, 0, 0)
    client = client_of(store)
    own = client.create_run(runs_of(store)[0].info.experiment_id, run_name="mine")
    client.log_text(own.info.run_id, "notes", "notes.txt")
    notes = Path(own.info.artifact_uri.removeprefix("file://")) / "notes.txt"
    assert notes.is_relative_to(results)
    assert notes.read_text() == "notes"
    assert counts(store.rebuild(find_journals(results))) == (2, 0, 0, 0, 0)
    assert notes.read_text() == "notes"


REBUILD = """
import os, resource, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets jobs in the background ignore it
from alignlens.tracking import store as stores
from alignlens.cli.main import main
results, how = Path(sys.argv[1]), sys.argv[2]
create, made = stores.Tracker.create_run, []
def tell(self, experiment, *arguments):
    run = create(self, experiment, *arguments)
    made.append(run)
    if len(made) == 3:
        if how == "full":  # no file may become bigger than the new store is now
            fresh, = results.glob(".mlflow.db.*.new")
            resource.setrlimit(resource.RLIMIT_FSIZE, (fresh.stat().st_size, resource.RLIM_INFINITY))
        elif how == "read-only":
            raise PermissionError(13, "Permission denied")
        else:
            print("ready", flush=True)
            time.sleep(60)
    return run
stores.Tracker.create_run = tell
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.exit(main(["track", "rebuild", "--results", str(results)]))
"""


def start(results: Path, how: str) -> subprocess.Popen[str]:
    for number in range(2, 4):
        fill(results, number, "x" * 4_000_000)
    command = [sys.executable, "-c", REBUILD, str(results), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_rebuild_that_fails_leaves_nothing_behind(results: Path, how: str) -> None:
    job = start(results, how)
    before = files_of(results)
    out, told = job.communicate(timeout=120)
    assert (job.returncode, out) == (2, "")
    assert told.count("\n") == 1
    assert "mlflow.db: " in told
    assert told.endswith("The old store stays as it is.\n")
    assert files_of(results) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_rebuild_that_is_stopped_leaves_nothing_behind(results: Path, number: signal.Signals) -> None:
    job = start(results, "wait")
    before = files_of(results)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    assert files_of(results) != before
    job.send_signal(number)
    _, told = job.communicate(timeout=60)
    assert job.returncode == 128 + number
    assert told.count("\n") <= 1
    assert files_of(results) == before


def test_the_next_rebuild_sweeps_up_after_a_killed_one_and_leaves_other_names(results: Path) -> None:
    job = start(results, "wait")
    before = files_of(results)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    job.kill()
    job.communicate(timeout=60)
    assert files_of(results) != before
    assert (results / "mlflow.db").read_bytes() == before["mlflow.db"]
    others = [".mlflow.db.mine", ".mlflow.db.new", f".mlflow.db.{'0' * 32}.bak", f".mlflow.db.{'g' * 32}.new"]
    for name in others:
        (results / name).write_text("mine")
    (results / f".mlflow.db.{'a' * 32}.new").write_text("junk")
    assert counts(store_of(results).rebuild(find_journals(results))) == (4, 0, 0, 0, 0)
    assert sorted(path.name for path in results.glob(".*")) == sorted(others)
    assert len(list(results.glob("mlartifacts/alignlens/score/*"))) == 4
    assert (results / "mlflow.db.bak").read_bytes() == before["mlflow.db"]


def test_nothing_to_build_from_is_no_reason_to_throw_the_store_away(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in find_journals(results):
        path.write_text("junk\n")
    before = files_of(results)
    assert main(["track", "rebuild", "--results", str(results)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert "no journal to rebuild it from" in told[-1]
    assert files_of(results) == before


def test_a_rebuild_says_which_journals_it_could_not_use(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "demo" / "junk.journal.jsonl").write_text("junk\n")
    assert main(["track", "rebuild", "--results", str(results)]) == 0
    told = capsys.readouterr()
    assert "2 created" in told.out
    assert "1 left out" in told.out
    assert "junk.journal.jsonl:1: not a journal line" in told.err


def test_what_is_no_file_is_no_store(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = results / "mlflow.db"
    database.unlink()
    for make in (database.mkdir, lambda: os.mkfifo(database)):
        make()
        before = time.monotonic()
        for action in ("sync", "rebuild"):
            main(["track", action, "--results", str(results)])
            told = capsys.readouterr().err
            assert told.count("\n") == 1
            assert "not a regular file" in told
        assert time.monotonic() - before < 30
        database.rmdir() if database.is_dir() else database.unlink()
