"""``alignlens server`` for real: runs and files through the proxy, many writers, kills, strangers, secrets."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tracking_server import OwnServer, free_port, own_server, stored, wait_for
from writers import ROUNDS, STEPS, loss

from alignlens.errors import ToolError
from alignlens.serving.database import find_programs
from alignlens.serving.server import Server, ServerSettings
from alignlens.tracking.journal import Journal, read_journal
from alignlens.tracking.records import find_journals, process_is_alive, process_start
from alignlens.tracking.store import Store

pytestmark = pytest.mark.cluster

PASSWORD = "correct-horse-battery"
SECRET_KEY = "key-of-the-forms-7261"
JOB = """
import sys
from pathlib import Path
from alignlens.tracking.journal import Journal
path, uri = Path(sys.argv[1]), sys.argv[2]
with Journal(path, live_uri=uri) as journal:
    run = journal.run(experiment="drill", name=path.name, identity={"preset": "demo", "file": path.name},
                      params={"a": 1}, tags={"dataset": "toy"}, group="drills")
    path.with_suffix(".csv").write_text("table of " + path.name)
    run.metric("loss", 1.0, 0)
    run.artifact(path.with_suffix(".csv"), "tables")
    for step, line in enumerate(sys.stdin, start=1):
        run.metric("loss", 1.0 / (step + 1), step)
        print(step, flush=True)
"""


@pytest.fixture(scope="session", autouse=True)
def postgresql() -> None:
    """These tests skip where it is absent."""
    try:
        find_programs()
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """One server on loopback; every test brings it back up if it has killed it."""
    with own_server() as made:
        yield made


@pytest.fixture(scope="module")
def guarded() -> Iterator[OwnServer]:
    """One server with passwords and a public name, in the results folder of a project."""
    options = ("--host", "0.0.0.0", "--auth", "--allowed-hosts", "mlflow.example.org")
    secrets = {
        "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": SECRET_KEY,
        "MLFLOW_TRACKING_USERNAME": "admin",
        "MLFLOW_TRACKING_PASSWORD": PASSWORD,
    }
    with own_server(*options, place="project/results/server", **secrets) as made:
        yield made


def start_job(path: Path, uri: str) -> subprocess.Popen[str]:
    """Starts a job that records a step per line it is told and says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", JOB, str(path), uri]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def make_steps(job: subprocess.Popen[str], count: int) -> None:
    assert job.stdin is not None
    assert job.stdout is not None
    for _ in range(count):
        job.stdin.write("next\n")
        job.stdin.flush()
        assert job.stdout.readline()


def finish(job: subprocess.Popen[str]) -> None:
    job.communicate()
    assert job.returncode == 0


def wait_until_side_process_is_gone(path: Path) -> None:
    needle = f"alignlens.tracking.live\0{path}".encode()
    wait_for(lambda: not any(needle in line for line in command_lines()), "the side process is gone")


def command_lines() -> list[bytes]:
    """The arguments of every process of this machine but ours."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
    return found


def undisturbed(results: Path) -> dict[str, dict[str, object]]:
    """What one sync of the finished journals makes of a fresh store."""
    uri = f"sqlite:///{results / 'undisturbed.db'}"
    assert Store(uri, results).sync(find_journals(results)).complete
    return stored(uri)


def keys_of(results: Path) -> set[str]:
    """The runs that the journals of a results folder tell of, by their keys."""
    return {record.key for path in find_journals(results) for record in read_journal(path)}


def of_journals(runs: dict[str, dict[str, object]], results: Path) -> dict[str, dict[str, object]]:
    """The runs that the journals of a results folder tell of."""
    keys = keys_of(results)
    return {key: run for key, run in runs.items() if key in keys}


def test_runs_and_files_arrive_through_the_proxy(server: OwnServer, tmp_path: Path) -> None:
    table, binary = tmp_path / "aer.csv", tmp_path / "scores.bin"
    table.write_text("aer\n12.5\n")
    binary.write_bytes(os.urandom(300_000))
    for number in range(3):
        with Journal(tmp_path / "demo" / f"{number}.journal.jsonl") as journal:
            for part in ("a", "b"):
                run = journal.run(
                    experiment="proxy",
                    name=f"de-en · {number} · {part}",
                    identity={"preset": "demo", "number": number, "part": part},
                    params={"size": number},
                    tags={"dataset": "toy"},
                    group=f"group {number}",
                )
                for step in range(20):
                    run.metric("loss", 1 / (step + 1), step)
                run.artifact(table, "tables")
                run.artifact(binary)
    assert server.sync(tmp_path).endswith("6 created, 0 replaced, 0 continued, 0 unchanged\n")
    assert server.sync(tmp_path).endswith("0 created, 0 replaced, 0 continued, 6 unchanged\n")
    runs = {key: run for key, run in server.runs().items() if run["experiment"] == "alignlens/proxy"}
    assert runs == undisturbed(tmp_path)
    assert len(runs) == 9, "six runs in three groups"
    for run in of_journals(runs, tmp_path).values():
        assert runs[run["parent"]]["name"].startswith("group")
        assert run["files"] == {"tables/aer.csv": table.read_bytes(), "scores.bin": binary.read_bytes()}
        assert [step for step, _, _ in run["metrics"]["loss"]] == list(range(20))
    assert list((server.folder / "artifacts").rglob("scores.bin")), "the server keeps the files, not the client"


def write_at_once(uri: str, folder: Path, *options: str) -> None:
    """Fifty writers without a word of complaint, the sync that ends a pipeline, and a look at all that arrived."""
    command = [sys.executable, str(Path(__file__).with_name("writers.py")), uri, str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Store(uri, folder).sync(find_journals(folder)).complete
    found = {key: run for key, run in stored(uri).items() if run["experiment"] == "alignlens/many"}
    runs = of_journals(found, folder)
    assert (len(runs), len(found)) == (50, 51), "every writer, and one group"
    for run in runs.values():
        writer = int(run["params"]["writer"])
        assert (run["status"], found[run["parent"]]["name"]) == ("FINISHED", "writers")
        values = [(step, value) for step, _, value in run["metrics"]["loss"]]
        assert values == [(step, loss(writer, step)) for step in range(ROUNDS * STEPS)]


def test_fifty_writers_on_sqlite(tmp_path: Path) -> None:
    write_at_once(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)


def test_fifty_writers_of_one_machine_on_a_server(server: OwnServer, tmp_path: Path) -> None:
    write_at_once(server.uri, tmp_path)


def test_fifty_machines_on_a_fresh_server(tmp_path: Path) -> None:
    """No common lock, and all of them find neither experiment nor group."""
    with own_server() as fresh:
        write_at_once(fresh.uri, tmp_path, "--apart")


def test_batches_at_once_do_not_wait_for_each_other(server: OwnServer) -> None:
    """More than the server works on at once; MLflow takes a second connection while it holds the first."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server.uri)
    experiment = client.create_experiment("batches")
    runs = [client.create_run(experiment).info.run_id for _ in range(60)]
    for step in range(3):
        asked = [http.client.HTTPConnection("127.0.0.1", server.port) for _ in runs]
        for run, connection in zip(runs, asked, strict=True):
            metrics = [{"key": f"m{number}", "value": 1.0, "timestamp": 0, "step": step} for number in range(5)]
            body = json.dumps({"run_id": run, "metrics": metrics})
            connection.request("POST", "/api/2.0/mlflow/runs/log-batch", body, {"Content-Type": "application/json"})
        with ExitStack() as closed:
            answers = [closed.enter_context(connection.getresponse()) for connection in asked]
            assert {answer.status: answer.read() for answer in answers} == {200: b"{}"}


@pytest.mark.parametrize("victim", ["server", "database"])
def test_a_kill_in_the_middle_of_a_streamed_run_changes_nothing(victim: str, server: OwnServer, tmp_path: Path) -> None:
    path = tmp_path / "demo" / f"{victim}.journal.jsonl"
    job = start_job(path, server.uri)
    make_steps(job, 3)
    wait_for(lambda: of_journals(server.told(), tmp_path), "the run is seen on the server")
    (seen,) = of_journals(server.told(), tmp_path).values()
    assert seen["info"]["status"] == "RUNNING"
    server.kill(victim)
    make_steps(job, 3)
    assert server.alignlens("server", "status", "--folder", str(server.folder)).returncode == 2
    server.up()
    make_steps(job, 3)
    finish(job)
    wait_until_side_process_is_gone(path)
    server.sync(tmp_path)
    expected = of_journals(undisturbed(tmp_path), tmp_path)
    assert server.runs(keys_of(tmp_path)) == expected
    (run,) = expected.values()
    assert (run["status"], len(run["metrics"]["loss"]), len(run["files"])) == ("FINISHED", 10, 1)


def test_a_server_that_cannot_be_reached_costs_a_job_nothing(server: OwnServer, tmp_path: Path) -> None:
    path = tmp_path / "demo" / "lonely.journal.jsonl"
    job = start_job(path, f"http://127.0.0.1:{free_port()}")
    make_steps(job, 5)
    finish(job)
    assert read_journal(path)[0].status == "FINISHED"
    assert server.sync(tmp_path).endswith("1 created, 0 replaced, 0 continued, 0 unchanged\n")
    assert server.runs(keys_of(tmp_path)) == of_journals(undisturbed(tmp_path), tmp_path)


def test_up_again_down_and_up_keep_the_runs(server: OwnServer) -> None:
    before, pids = server.runs(), server.pids("server")
    assert server.uri in server.up()
    assert server.pids("server") == pids, "what runs is left alone"
    other = ("server", "up", "--folder", str(server.folder), "--port", str(free_port()))
    refused = server.alignlens(*other)
    assert (refused.returncode, "runs with other options" in refused.stderr) == (2, True)
    server.down()
    assert not any(str(server.folder).encode() in line for line in command_lines())
    server.up()
    assert server.runs() == before


def test_a_killed_starter_leaves_nothing_that_stops_the_next_one(server: OwnServer) -> None:
    """The first process of the server goes alone, as with the out-of-memory killer: its child keeps the port."""
    killed = server.pids("server")[0]
    start = process_start(killed)
    os.kill(killed, 9)
    wait_for(lambda: not process_is_alive(killed, start), f"process {killed} is gone")
    server.up()
    status = server.alignlens("server", "status", "--folder", str(server.folder), "--json")
    assert json.loads(status.stdout)["answers"], status.stdout + (server.folder / "server.log").read_text()[-2000:]


def test_a_starter_that_dies_while_it_is_looked_at_is_replaced(
    server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still lives at the first look; then only its child answers, for as long as nobody ends that."""
    made = Server(server.folder)
    monkeypatch.setattr(made.database, "up", lambda: os.kill(server.pids("server")[0], 9))
    made.up(ServerSettings(port=server.port))
    assert made.answers()


def answer(server: OwnServer, method: str, path: str, **headers: str) -> int:
    """The status that a request gets."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    try:
        body = json.dumps({"max_results": 1}) if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


def signed(password: str) -> str:
    return "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()


SEARCH = "/api/2.0/mlflow/experiments/search"


def test_strangers_are_turned_away(server: OwnServer, guarded: OwnServer) -> None:
    for path in ("/", "/version", "/api/2.0/mlflow-artifacts/artifacts", "/ajax-api/2.0/mlflow/runs/get?run_id=x"):
        assert answer(guarded, "GET", path) == 401, path
    assert answer(guarded, "POST", SEARCH) == 401
    assert answer(guarded, "POST", SEARCH, Authorization=signed("wrong")) == 401
    assert answer(guarded, "POST", SEARCH, Authorization=signed(PASSWORD)) == 200
    for own, names in ((server, []), (guarded, ["mlflow.example.org", f"mlflow.example.org:{guarded.port}"])):
        for host in ("localhost", f"127.0.0.1:{own.port}", *names):
            assert answer(own, "POST", SEARCH, Authorization=signed(PASSWORD), Host=host) == 200, host
        for host in ("evil.example.org", "10.example.org", "mlflow.example.org.evil.org"):
            assert answer(own, "POST", SEARCH, Authorization=signed(PASSWORD), Host=host) == 403, host
    page = {"Authorization": signed(PASSWORD), "Host": "mlflow.example.org"}
    assert answer(guarded, "POST", SEARCH, **page, Origin="https://mlflow.example.org") == 200
    assert answer(guarded, "POST", SEARCH, **page, Origin="https://evil.example.org") == 403


def test_the_folder_is_private(guarded: OwnServer) -> None:
    assert guarded.folder.stat().st_mode & 0o067 == 0, "others may not even pass; a group may not look"
    for private in ("artifacts", "database", "basic_auth.db", "basic_auth.ini", "server.log", "database.log"):
        assert (guarded.folder / private).stat().st_mode & 0o077 == 0, private


def test_a_wrong_password_is_one_warning_without_it(guarded: OwnServer, tmp_path: Path) -> None:
    with Journal(tmp_path / "demo" / "a.journal.jsonl") as journal:
        journal.run(experiment="denied", name="a", identity={})
    wrong = OwnServer(guarded.folder, port=guarded.port)
    wrong.secrets = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": "wrong-horse-battery"}
    done = wrong.alignlens("track", "sync", "--results", str(tmp_path), "--uri", wrong.uri)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "", 1)
    assert "sync again later" in done.stderr
    assert "wrong-horse" not in done.stderr


def test_no_secret_is_written_down(guarded: OwnServer, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline and a streamed job with the password in the environment; every file and every command is read."""
    monkeypatch.syspath_prepend(str(project / "tests" / "workflow"))
    from throwaway import PARTS, TINY

    folder = guarded.folder.parents[1]
    for part in PARTS:
        (folder / part).symlink_to(project / part)
    small = {"models": dict.fromkeys(("transformer", "lstm", "fconv"))}
    small |= {"aligners": [{"name": "fast_align", "text": "offline"}], "studies": dict.fromkeys(TINY["studies"])}
    config = TINY | small | {"tracking": {"uri": guarded.uri}}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    secrets = [PASSWORD.encode(), SECRET_KEY.encode(), base64.b64encode(f"admin:{PASSWORD}".encode())]
    for name, value in guarded.secrets.items():
        monkeypatch.setenv(name, value)
    live = start_job(folder / "results" / "tiny" / "live.journal.jsonl", guarded.uri)
    make_steps(live, 2)
    wait_for(lambda: of_journals(guarded.told(), folder / "results"), "the run is seen on the server")
    command = [sys.executable, "-m", "snakemake", "--configfile", "tiny.yaml", "--cores", "2"]
    with (folder / "snakemake.log").open("w") as log:
        pipeline = subprocess.Popen(command, cwd=folder, env=guarded.environment, stdout=log, stderr=log)
        while pipeline.poll() is None:
            assert not any(secret in line for line in command_lines() for secret in secrets)
            time.sleep(0.05)
    assert pipeline.returncode == 0, (folder / "snakemake.log").read_text()
    finish(live)
    wait_until_side_process_is_gone(folder / "results" / "tiny" / "live.journal.jsonl")
    results = folder / "results"
    runs = guarded.told()
    assert {run["info"]["status"] for run in runs.values()} == {"FINISHED"}
    assert len(of_journals(runs, results)) > 10, "the pipeline's own sync had the password"
    shown = guarded.alignlens("ui", "--results", str(results), "--uri", guarded.uri)
    assert (shown.returncode, shown.stdout) == (0, f"open {guarded.uri}\n")
    files = [path for path in [folder / "snakemake.log", *results.rglob("*")] if path.is_file()]
    assert {"basic_auth.db", "server.log", "report.html", "live.journal.jsonl"} <= {path.name for path in files}
    assert [path for path in files for secret in secrets if secret in path.read_bytes()] == []
    assert PASSWORD not in str(runs)
    assert SECRET_KEY not in str(runs)
