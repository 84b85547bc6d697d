"""What ``alignlens server`` decides before it starts anything, and which processes it takes for its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignlens.cli.main import main
from alignlens.errors import ConfigError, ToolError
from alignlens.serving import database
from alignlens.serving.command import check_free, check_host, guests, is_loopback, port_number, url_of
from alignlens.serving.daemons import Daemon
from alignlens.serving.server import SECRETS, ServerSettings
from alignlens.tracking import turns

SLEEPER = [sys.executable, "-c", "import time; print('on my way', flush=True); time.sleep(600)"]


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.delenv(name, raising=False)


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    """Returns the one line of a call that must exit with 2 and leave no folder behind."""
    assert main(["server", "up", "--folder", str(folder / "server"), *options]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert not (folder / "server").exists()
    return captured.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "mlflow.example.org"])
def test_a_public_host_needs_passwords_and_names(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "needs --auth" in refused(capsys, tmp_path, "--host", host)
    assert "--allowed-hosts" in refused(capsys, tmp_path, "--host", host, "--auth")
    names = ("--host", host, "--auth", "--allowed-hosts", "a.example.org")
    assert f"set {SECRETS[0]} and {SECRETS[1]}" in refused(capsys, tmp_path, *names)
    monkeypatch.setenv(SECRETS[0], "x")
    assert f"set {SECRETS[1]} in" in refused(capsys, tmp_path, *names)
    monkeypatch.setenv(SECRETS[1], "y")
    ServerSettings(host, 5000, auth=True, allowed_hosts=("a.example.org",)).check()


@pytest.mark.parametrize(
    "names", ["*", "*.example.org", "https://a.example.org", "a.example.org:80", "a,,b", "a b", "a-,b", "a\nb", "a?"]
)
def test_allowed_hosts_are_names_of_machines(names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a host name" in refused(capsys, tmp_path, "--allowed-hosts", names)


PORTS = [
    "0",
    "-1",
    "65536",
    "99999999999999999999",
    "1e3",
    "5000.0",
    "80 ",
    "x",
    "0x50",
    "5_000",
    "５０００",
    "nan",
]
HOSTS = [
    " ",
    "a b",
    "-x",
    "a..b",
    ".",
    "a\nb",
    "http://x",
    "x/y",
    "x:1",
    "é",
    "a" * 300,
    "*",
    "$(id)",
    "127.0.0.1\n",
]


@pytest.mark.parametrize("port", PORTS)
def test_a_port_is_a_whole_number_that_can_be_one(
    port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, tmp_path, f"--port={port}")
    assert "not a port. Give a whole number from 1 to 65535." in told
    assert main(["ui", "--results", str(tmp_path / "none"), f"--port={port}"]) == 2
    assert capsys.readouterr().err == told.replace("server:", "ui:")


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_an_address_or_a_name(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, tmp_path, f"--host={host}")
    assert "neither an address nor a host name" in told
    assert main(["ui", "--results", str(tmp_path / "none"), f"--host={host}"]) == 2
    assert capsys.readouterr().err == told.replace("server:", "ui:")


def test_good_ports_and_hosts() -> None:
    assert [port_number(text) for text in ("1", "80", "05000", "65535")] == [1, 80, 5000, 65535]
    for host in ("127.0.0.1", "::1", "0.0.0.0", "localhost", "mlflow.example.org", "my_host-1", "fe80::1%eth0"):
        check_host(host)


@pytest.mark.parametrize(
    "content", ["", "junk", "[]", "{}", '{"allowed_hosts": 3}', '{"allowed_hosts": [], "port": "x"}']
)
def test_damaged_settings_of_a_running_server_are_told(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = Daemon(tmp_path, "server")
    daemon.start(SLEEPER, dict(os.environ), tmp_path)
    try:
        (tmp_path / "server.json").write_text(content)
        assert main(["server", "status", "--folder", str(tmp_path)]) == 2
        assert "server.json: damaged or missing" in capsys.readouterr().err
    finally:
        assert main(["server", "down", "--folder", str(tmp_path)]) == 0
        assert daemon.pid is None


def test_loopback_and_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "")))
    assert (url_of("::1", 5), url_of("h", 5)) == ("http://[::1]:5", "http://h:5")
    assert ServerSettings("0.0.0.0", 80, True, ("m.org",)).url == "http://m.org:80"
    assert ServerSettings("127.0.0.1", 80, True, ("m.org",)).url == "http://127.0.0.1:80"


def test_guests_are_named_one_by_one() -> None:
    found = guests(["m.org"], 5000)
    assert "*" not in "".join(found.values())
    hosts = set(found["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))
    assert {"127.0.0.1:5000", "localhost", "m.org", "m.org:5000"} < hosts
    assert found["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"] == "https://m.org,http://m.org:5000"


def test_a_port_in_use_is_told() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1:\d+ .*--port"):
            check_free("127.0.0.1", listener.getsockname()[1])


def test_without_postgresql_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(database, "_DEBIAN", tmp_path)
    with pytest.raises(ToolError, match=r"PostgreSQL is not installed.*apt-get install postgresql"):
        database.Database(tmp_path).up()


def test_programs_of_the_newest_version_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(database, "_DEBIAN", tmp_path)
    for version in ("9.6", "10", "15", "16"):
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        for name in ("postgres", "initdb", "createdb", "pg_isready"):
            if (version, name) != ("16", "initdb"):
                (folder / name).touch()
    assert database.find_programs() == tmp_path / "15" / "bin"


def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bytes too long for a socket"):
        database.Database(tmp_path / ("x" * 100)).up()


def test_status_and_down_of_what_never_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path / "none")]
    assert main(["server", "status", *folder, "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "answers": False,
        "pids": {"database": None, "server": None},
        "settings": None,
    }
    assert main(["server", "down", *folder]) == 0
    assert capsys.readouterr().out == "nothing ran\n"
    assert not (tmp_path / "none").exists()


def started(folder: Path) -> Daemon:
    daemon = Daemon(folder, "sleeper")
    daemon.start(SLEEPER, dict(os.environ), folder)
    while not daemon.last_words():
        time.sleep(0.01)
    return daemon


def test_a_daemon_is_started_found_and_ended(tmp_path: Path) -> None:
    daemon = started(tmp_path)
    assert daemon.last_words() == "on my way"
    assert daemon.log.stat().st_mode & 0o777 == 0o600
    pid = Daemon(tmp_path, "sleeper").pid
    assert pid is not None
    assert os.getsid(pid) == pid, "Ctrl-C in our terminal is not for it"
    assert Daemon(tmp_path, "sleeper").end(signal.SIGTERM)
    assert daemon.pid is None
    assert not daemon.end(signal.SIGTERM)


def test_a_process_of_another_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "sleeper")
    other = subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL)
    try:
        (tmp_path / "sleeper.pid").write_text(f"{other.pid} 1\n")
        assert daemon.pid is None
        assert not daemon.end(signal.SIGTERM)
        assert other.poll() is None
        assert not (tmp_path / "sleeper.pid").exists()
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("content", ["", "torn", "12", "x y\n"])
def test_a_broken_pid_file_names_nobody(content: str, tmp_path: Path) -> None:
    (tmp_path / "sleeper.pid").write_text(content)
    assert Daemon(tmp_path, "sleeper").pid is None


def test_children_of_a_killed_daemon_are_ended_with_it(tmp_path: Path) -> None:
    code = f"import subprocess; subprocess.run({SLEEPER!r})"
    daemon = Daemon(tmp_path, "parent")
    daemon.start([sys.executable, "-c", code], dict(os.environ), tmp_path)
    while daemon.last_words() != "on my way":
        time.sleep(0.01)
    daemon.record_children()
    parent, child = (int(line.split()[0]) for line in (tmp_path / "parent.pid").read_text().splitlines())
    os.kill(parent, signal.SIGKILL)
    while daemon.pid is not None:
        time.sleep(0.01)
    os.kill(child, 0)
    assert daemon.end(signal.SIGTERM)
    assert not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes()


def test_patience_ends_with_one_holder_and_not_with_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_PATIENCE_SECONDS", 0.2)
    path = tmp_path / "lock"
    waits = []

    def sleep(seconds: float) -> None:
        """Others take their turns twice as long as anybody would wait for one."""
        waits.append(seconds)
        if sum(waits) < 0.4:
            os.utime(path, ns=(len(waits), len(waits)))
        time_sleep(seconds)

    time_sleep = time.sleep
    monkeypatch.setattr(turns.time, "sleep", sleep)
    with turns.turn(path), pytest.raises(ToolError, match="another process has been writing"), turns.turn(path):
        pass
    assert sum(waits) > 0.4
