"""``alignlens track`` and ``alignlens ui`` as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from alignlens.cli.main import main
from alignlens.tracking.journal import Journal


@pytest.fixture(autouse=True)
def _no_tracker_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    for preset, aer in (("demo", 12.25), ("deen", 30.0)):
        with Journal(results / preset / "a.journal.jsonl") as journal:
            run = journal.run(experiment="score", name=f"{preset} · hmm", identity={"preset": preset})
            run.metrics({"f1": 80, "aer": aer})
    return results


def test_list(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["track", "list", "--results", str(results), "--preset", "demo"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("score  FINISHED  demo · hmm  aer 12.25 f1 80 seconds ")
    assert main(["track", "list", "--results", str(results), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["status"], row["metrics"]["aer"]) for row in rows] == [
        ("deen · hmm", "FINISHED", 30.0),
        ("demo · hmm", "FINISHED", 12.25),
    ]


def test_list_leaves_out_what_is_no_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path / "demo" / "good.journal.jsonl") as journal:
        journal.run(experiment="score", name="good", identity={}).metric("aer", 12.25)
    text = (tmp_path / "demo" / "good.journal.jsonl").read_bytes()
    for number, (old, new) in enumerate(
        (
            (b'"name":"good"', b'"name":"\\u001b[31m"'),
            (b'"aer":12.25', b'"aer":NaN'),
            (b'"pid":', b'"pid":-'),
            (b"{", b"\xff"),
        )
    ):
        (tmp_path / "demo" / f"bad{number}.journal.jsonl").write_bytes(text.replace(old, new))
    (tmp_path / "demo" / "empty.journal.jsonl").write_bytes(b"")
    os.mkfifo(tmp_path / "demo" / "fifo.journal.jsonl")
    for options in ([], ["--json"]):
        assert main(["track", "list", "--results", str(tmp_path), *options]) == 0
        told = capsys.readouterr()
        assert told.out.count("aer") == 1
        assert len(told.err.splitlines()) == 5
        assert all(line.isprintable() for line in told.err.splitlines())
        assert "bad1.journal.jsonl:2: not a journal line (NaN is not a number)" in told.err


def test_sync_then_rebuild(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["track", "sync", "--results", str(results), "--json"]
    assert main([*command, "--preset", "demo"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["created"], first["unchanged"], first["complete"]) == (1, 0, True)
    assert main(command) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["created"], second["unchanged"], second["complete"]) == (1, 1, True)
    assert second["uri"] == f"sqlite:///{results / 'mlflow.db'}"
    assert main(["track", "rebuild", "--results", str(results)]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("mlflow.db: 2 created, 0 replaced, 0 continued, 0 unchanged\n")
    assert captured.err == ""


def test_an_unreachable_tracker_warns_and_does_not_fail(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = "http://bob:secret@127.0.0.1:9"
    assert main(["track", "sync", "--results", str(results), "--uri", uri]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "warning: http://***@127.0.0.1:9: not usable" in captured.err
    assert main(["track", "sync", "--results", str(results), "--uri", uri, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["complete"] is False
    assert "secret" not in captured.out + captured.err
    assert main(["track", "rebuild", "--results", str(results), "--uri", uri]) == 2


def test_a_tracking_uri_of_the_environment_that_is_none_of_ours(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:./mlruns")
    assert main(["track", "sync", "--results", str(results)]) == 0
    assert "MLFLOW_TRACKING_URI: file:./mlruns: not a tracking URI" in capsys.readouterr().err
    assert main(["track", "sync", "--results", str(results), "--uri", "nonsense"]) == 2


def test_wrong_folders_are_told(tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["track", "list", "--results", str(tmp_path / "none")]) == 2
    assert "no such results folder" in capsys.readouterr().err
    assert main(["track", "list", "--results", str(results), "--preset", "dema"]) == 2
    assert "did you mean demo?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["track"], ["track", "sync"], ["track", "rebuild"], ["track", "list"], ["ui"]])
def test_help_is_short_and_has_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 25
    assert "example:\n  alignlens " in text


def test_ui_names_a_busy_port(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        assert main(["ui", "--results", str(results), "--port", port]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use). Choose another --port." in error


def test_ui_serves_nobody_else(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--results", str(results), "--host", "0.0.0.0"]) == 2
    assert "--host 0.0.0.0: others could change your runs" in capsys.readouterr().err


def test_ui_of_a_server_only_says_where_it_is(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--results", str(results), "--uri", "http://bob:pw@host:5000", "--no-sync"]) == 0
    assert capsys.readouterr().out == "open http://***@host:5000\n"


def test_ui_serves_the_runs(results: Path) -> None:
    main(["track", "sync", "--results", str(results)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "alignlens.cli.main", "ui", "--results", str(results), "--no-sync"]
    server = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline().decode() == f"open http://127.0.0.1:{port} (Ctrl-C stops it)\n"
        until = time.monotonic() + 60
        found = b""
        while b"alignlens/score" not in found and time.monotonic() < until:
            time.sleep(0.2)
            try:
                url = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search?max_results=10"
                found = urllib.request.urlopen(url, timeout=5).read()
            except OSError:
                assert server.poll() is None
        assert b"alignlens/score" in found
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)
        server.stdout.close()
