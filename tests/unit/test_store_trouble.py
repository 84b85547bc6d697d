"""A tracker that is away, silent, damaged or deleted costs little and loses nothing, and secrets stay secret."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stores import client_of, counts, runs_of, write

from alignlens.errors import ConfigError
from alignlens.tracking.address import Address, resolve_address
from alignlens.tracking.journal import Journal
from alignlens.tracking.records import find_journals
from alignlens.tracking.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One database for all tests that use journals of their own in an experiment of their own."""
    return Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


def test_an_unreachable_server_costs_little_and_loses_nothing(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 3}, "later")
    begin = time.monotonic()
    result = Store("http://bob:secret@127.0.0.1:9").sync([path])
    assert time.monotonic() - begin < 60, "MLflow's own patience is minutes"
    assert not result.complete
    assert not result.reached
    (reason,) = result.problems
    assert "127.0.0.1:9" in reason
    assert "secret" not in reason
    assert "\n" not in reason
    assert counts(store.sync([path])) == (1, 0, 0, 0, 0)
    assert [run.data.metrics["aer"] for run in runs_of(store, "later")] == [3]


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alignlens.tracking.address._PROBE_SECONDS", 0.5)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        begin = time.monotonic()
        result = Store(f"http://127.0.0.1:{listener.getsockname()[1]}").sync([])
        assert 0.5 <= time.monotonic() - begin < 60
    assert not result.reached


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", OK + b"<html>\x1b[31mhi", OK + b"[]", OK + b'{"experiments": 5}']
)
def test_what_answers_is_no_tracker(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(answer)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        result = Store(f"http://127.0.0.1:{listener.getsockname()[1]}").sync([])
        assert not result.reached
        (problem,) = result.problems
        assert problem.isprintable()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("uri", ["http://a..b", "http://" + "a" * 100 + ".org", "http://:9", "postgresql://a..b/x"])
def test_machines_that_cannot_be(uri: str) -> None:
    result = Store(uri).sync([])
    assert not result.reached
    assert "not usable" in result.problems[0]


@pytest.mark.parametrize("uri", ["postgresql://bob:secret@127.0.0.1:9/x", "mysql+pymysql://bob:secret@127.0.0.1:9/x"])
def test_an_unreachable_database_is_given_up(uri: str) -> None:
    result = Store(uri).sync([])
    assert not result.reached
    assert "secret" not in result.problems[0]


def test_a_damaged_or_deleted_database_is_rebuilt_with_the_same_runs(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("1\n")
    for number in range(2):
        path = write(tmp_path / "demo" / f"{number}.journal.jsonl", {"aer": number})
        with Journal(path) as journal:
            run = journal.run(experiment="score", name=str(number), identity={"n": number}, group="g")
            run.metric("aer", number)
            run.artifact(table, "tables")
    journals = find_journals(tmp_path)
    database = tmp_path / "mlflow.db"
    store = Store(f"sqlite:///{database}", tmp_path)

    def shown() -> list[Any]:
        rows = []
        for run in runs_of(store):
            tags = {name: value for name, value in run.data.tags.items() if name != "mlflow.parentRunId"}
            rows.append((run.info.run_name, run.info.start_time, run.info.end_time, run.data.metrics, tags))
        return rows

    assert counts(store.rebuild(journals)) == (2, 0, 0, 0, 0), "there is no database yet"
    before = shown()
    assert len(before) == 2
    damaged = b"not a database, but long enough to be looked at" * 100
    database.write_bytes(damaged)
    result = store.sync(journals)
    assert not result.reached
    assert "not a database). Rebuild it: alignlens track rebuild." in result.problems[0]
    assert database.read_bytes() == damaged
    assert counts(store.rebuild(journals)) == (2, 0, 0, 0, 0)
    assert shown() == before
    assert (tmp_path / "mlflow.db.damaged").read_bytes() == damaged
    assert counts(store.sync(journals)) == (0, 0, 0, 2, 0)
    assert len(list(tmp_path.glob("mlartifacts/alignlens/score/*"))) == 4, "nobody knows whose the others were"
    assert counts(store.rebuild(journals)) == (2, 0, 0, 0, 0)
    assert len(list(tmp_path.glob("mlartifacts/alignlens/score/*"))) == 4, "the old ones of a sound store went"
    for run in runs_of(store):
        assert [file.path for file in client_of(store).list_artifacts(run.info.run_id)] == ["tables"]
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {
        "mlflow.db",
        "mlflow.db.bak",
        "mlflow.db.damaged",
        "mlflow.lock",
        "table.csv",
    }


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert resolve_address(None, tmp_path).database == tmp_path / "mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000")
    assert resolve_address(None, tmp_path).uri == "http://host:5000"
    assert resolve_address("https://other", tmp_path).uri == "https://other"
    assert resolve_address("postgresql://h/x", tmp_path).artifacts == tmp_path / "mlartifacts"
    monkeypatch.chdir(tmp_path)
    assert Address("sqlite:///a/b.db").uri == f"sqlite:///{tmp_path / 'a' / 'b.db'}"
    shown = Address("postgresql://bob:s3cret@db:5432/x?password=s3cret&sslmode=require")
    assert str(shown) == "postgresql://***@db:5432/x"
    assert "s3cret" not in shown.hide(f"cannot connect to {shown.uri} with\npassword s3cret")
    long = shown.hide(f"API request failed {'with words ' * 100} (Caused by a timeout)")
    assert (long[:11], long[-21:], len(long)) == ("API request", "(Caused by a timeout)", 203), "its middle is left out"
    for wrong in (
        "http://a b/",
        "http://a\nb/",
        "sqlite:///a\0b",
        "\x1b[31m",
        "",
        "file:./mlruns",
        "mlruns",
        "sqlite://",
        "sqlite:///:memory:",
        "http://host:port",
    ):
        with pytest.raises(ConfigError):
            Address(wrong)


def test_secrets_reach_neither_journal_nor_store(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.journal.jsonl"
    uri = "http://bob:hunter2@127.0.0.1:9"
    with Journal(path, live_uri=uri) as journal:
        journal.run(experiment="secret", name="s", identity={})
        arguments = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
        assert f"alignlens.tracking.live {path}" in arguments
        assert "hunter2" not in arguments
    assert "hunter2" not in path.read_text()
    store.sync([path])
    assert store.address.database is not None
    assert b"hunter2" not in store.address.database.read_bytes()
    assert not os.environ.get("MLFLOW_TRACKING_URI", "").startswith("http://bob")
