"""The journal: what it records, how it ends, and what a reader makes of a killed one."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from alignlens.errors import InputError
from alignlens.tracking.journal import Journal, is_alive, read_journal, redacted, run_key
from alignlens.tracking.records import find_journals

IDENTITY = {"preset": "demo", "dataset": "toy", "aligner": "hmm"}

JOB = """
import sys, time
from pathlib import Path
from alignlens.tracking.journal import Journal
with Journal(Path(sys.argv[1])) as journal:
    run = journal.run(experiment="train", name="job", identity={"preset": "demo", "seed": 1})
    step = 0
    while True:
        run.metric("loss", 1 / (step + 1), step)
        step += 1
        if step == 50:
            print("ready", flush=True)
        if step >= 50:
            time.sleep(0.001)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo" / "out.journal.jsonl"


def start_job(path: Path) -> subprocess.Popen[str]:
    job = subprocess.Popen([sys.executable, "-c", JOB, str(path)], stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    return job


def stop_job(job: subprocess.Popen[str], number: signal.Signals) -> int:
    job.send_signal(number)
    status = job.wait(timeout=10)
    assert job.stdout is not None
    job.stdout.close()
    return status


def test_everything_recorded_comes_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIGNLENS_COMMIT", "abc123")
    path.parent.mkdir()
    links = path.parent / "links" / "union.pharaoh"
    links.parent.mkdir()
    links.write_text("0-0\n")
    before = time.time()
    with Journal(path) as journal:
        run = journal.run(
            experiment="score",
            name="de-en · hmm",
            identity=IDENTITY,
            tags={"dataset": "toy"},
            params={"size": 3, "file": links},
            group="de-en · aligners",
        )
        run.metric("aer", 12.5)
        run.metrics({"loss": 2, "rate": 0.5}, step=7)
        run.artifact(links, folder="links")
    (record,) = read_journal(path)
    assert record.key == run_key("score", IDENTITY) == run.key
    assert (record.experiment, record.name, record.group) == ("score", "de-en · hmm", "de-en · aligners")
    assert record.tags == {"dataset": "toy"}
    assert record.params == {"size": 3, "file": str(links)}
    assert (record.identity, record.commit) == (IDENTITY, "abc123")
    assert (record.status, record.error, record.host) == ("FINISHED", "", socket.gethostname())
    points = [(point.name, point.value, point.step) for point in record.points]
    assert points[:3] == [("aer", 12.5, 0), ("loss", 2.0, 7), ("rate", 0.5, 7)]
    assert [name for name, _, _ in points[3:]] == ["peak_memory_mb", "seconds"]
    (artifact,) = record.artifacts
    assert artifact.path == links
    assert artifact.sha256 == hashlib.sha256(b"0-0\n").hexdigest()
    assert (artifact.size, artifact.folder) == (4, "links")
    assert record.end is not None
    assert before <= record.start <= record.end <= time.time()


def test_a_moved_results_folder_still_knows_its_files(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    (path.parent / "table.csv").write_text("a\n")
    with Journal(path) as journal:
        journal.run(experiment="score", name="x", identity=IDENTITY).artifact(path.parent / "table.csv")
    (tmp_path / "demo").rename(tmp_path / "moved")
    (record,) = read_journal(tmp_path / "moved" / path.name)
    assert record.artifacts[0].path == tmp_path / "moved" / "table.csv"
    assert record.artifacts[0].path.read_text() == "a\n"


def test_key_depends_on_what_the_job_is_and_on_nothing_else() -> None:
    assert run_key("score", {"a": 1, "b": 2}) == run_key("score", {"b": 2, "a": 1})
    assert run_key("score", {"a": 1}) != run_key("train", {"a": 1})
    assert run_key("score", {"a": 1}) != run_key("score", {"a": 2})


def test_usage_of_the_job_is_a_metric_of_each_of_its_runs(path: Path) -> None:
    with Journal(path) as journal:
        for number in range(3):
            run = journal.run(experiment="score", name=str(number), identity={"n": number})
        run.metric("seconds", 42)
        time.sleep(0.05)
    records = read_journal(path)
    now = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for record in records:
        assert 5 < record.latest["peak_memory_mb"] <= now / 1024
        assert record.status == "FINISHED"
    assert records[0].latest["seconds"] == records[1].latest["seconds"] >= 0.05
    assert records[2].latest["seconds"] == 42, "what the job measured itself stands"


def test_two_runs_with_one_identity_are_a_programming_error(path: Path) -> None:
    with Journal(path) as journal:
        journal.run(experiment="score", name="a", identity=IDENTITY)
        with pytest.raises(ValueError, match="same identity"):
            journal.run(experiment="score", name="b", identity=IDENTITY)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("on_disk", [True, False])
def test_a_metric_must_be_finite(path: Path, value: float, on_disk: bool) -> None:
    with Journal(path if on_disk else None) as journal:
        run = journal.run(experiment="train", name="a", identity=IDENTITY)
        with pytest.raises(InputError, match=r"'loss' is -?(nan|inf) at step 4"):
            run.metrics({"ok": 1.0, "loss": value}, step=4)
    if on_disk:
        assert "ok" not in read_journal(path)[0].latest, "a refused call records nothing"


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal(None) as journal:
        run = journal.run(experiment="score", name="a", identity=IDENTITY)
        run.metric("aer", 1)
        run.artifact(tmp_path / "not there")
    assert list(tmp_path.iterdir()) == []


def test_an_error_ends_every_run_as_failed(path: Path) -> None:
    def job() -> None:
        with Journal(path) as journal:
            for number in range(2):
                journal.run(experiment="score", name=str(number), identity={"n": number})
            raise RuntimeError("two\nlines of http://bob:secret@host/x")

    with pytest.raises(RuntimeError):
        job()
    for record in read_journal(path):
        assert (record.status, record.error) == ("FAILED", "RuntimeError: two lines of http://***@host/x")
    assert "secret" not in path.read_text()


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), "KILLED"), (SystemExit(0), "FINISHED"), (SystemExit(3), "FAILED")],
)
def test_leaving_by_other_ways(path: Path, error: BaseException, status: str) -> None:
    def job() -> None:
        with Journal(path) as journal:
            journal.run(experiment="score", name="a", identity=IDENTITY)
            raise error

    with pytest.raises(type(error)):
        job()
    assert read_journal(path)[0].status == status


def test_sigterm_is_recorded_and_still_ends_the_job(path: Path) -> None:
    job = start_job(path)
    assert stop_job(job, signal.SIGTERM) == 143
    (record,) = read_journal(path)
    assert (record.status, record.error) == ("KILLED", "terminated by SIGTERM")
    assert "seconds" in record.latest


def test_the_journal_leaves_signals_as_it_found_them(path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Journal(path):
        pass
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigkill_leaves_a_readable_journal(path: Path) -> None:
    job = start_job(path)
    (record,) = read_journal(path)
    assert (record.status, record.pid) == ("RUNNING", job.pid)
    assert is_alive(record)
    assert stop_job(job, signal.SIGKILL) == -signal.SIGKILL
    (record,) = read_journal(path)
    assert record.status == "RUNNING"
    assert not is_alive(record)
    assert [point.step for point in record.points] == list(range(len(record.points)))
    assert len(record.points) >= 50


def test_every_torn_last_line_is_left_out(path: Path) -> None:
    with Journal(path) as journal:
        journal.run(experiment="score", name="a", identity=IDENTITY).metric("aer", 12)
    whole = path.read_bytes()
    last_line = len(whole) - len(whole.rstrip(b"\n").rpartition(b"\n")[2]) - 1
    for cut in range(last_line, len(whole)):
        path.write_bytes(whole[:cut])
        (record,) = read_journal(path)
        assert record.status == "RUNNING"
        assert record.latest["aer"] == 12
    path.write_bytes(b"")
    assert read_journal(path) == []


@pytest.mark.parametrize("line", ["junk", "[]", '{"event": "run"}', '{"event": "end", "run": "x", "time": 0}', "\0"])
def test_a_broken_line_inside_is_an_error_with_its_number(path: Path, line: str) -> None:
    with Journal(path) as journal:
        journal.run(experiment="score", name="a", identity=IDENTITY)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=rf"{path.name}:2: not a journal line"):
        read_journal(path)


def test_a_second_life_of_a_process_number_is_not_the_job(path: Path) -> None:
    with Journal(path) as journal:
        journal.run(experiment="score", name="a", identity=IDENTITY)
        (record,) = read_journal(path)
        assert is_alive(record)
        record.process = "1"
        assert not is_alive(record)


def test_a_job_of_another_machine_counts_as_alive_while_its_journal_is_young(path: Path) -> None:
    with Journal(path) as journal:
        journal.run(experiment="score", name="a", identity=IDENTITY)
        (record,) = read_journal(path)
    record.host, record.pid = "elsewhere", 1
    assert is_alive(record)
    os.utime(path, (0, 0))
    assert not is_alive(record)


def test_a_rerun_starts_a_new_journal(path: Path) -> None:
    for value in (1.0, 2.0):
        with Journal(path) as journal:
            journal.run(experiment="score", name="a", identity=IDENTITY).metric("aer", value)
    (record,) = read_journal(path)
    assert [point.value for point in record.points if point.name == "aer"] == [2.0]


def test_digest_tells_journals_and_statuses_apart(path: Path) -> None:
    with Journal(path) as journal:
        run = journal.run(experiment="score", name="a", identity=IDENTITY)
        digests = {read_journal(path)[0].digest}
        run.metric("aer", 1)
        digests.add(read_journal(path)[0].digest)
    (record,) = read_journal(path)
    assert record.digest == read_journal(path)[0].digest
    digests.add(record.digest)
    record.status = "KILLED"
    digests.add(record.digest)
    assert len(digests) == 4


def test_a_full_disk_is_an_error_and_leaves_whole_lines() -> None:
    def fill() -> None:
        with Journal(Path("/dev/full")) as journal:
            journal.run(experiment="score", name="a", identity=IDENTITY)

    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(InputError, match="cannot be written"):
        fill()


def test_a_write_cut_short_is_taken_back(path: Path) -> None:
    """A file size limit makes the kernel accept part of a line."""
    code = """
import resource, signal, sys
from pathlib import Path
from alignlens.errors import InputError
from alignlens.tracking.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with Journal(path) as journal:
    run = journal.run(experiment="score", name="a", identity={})
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
    try:
        run.metric("aer", 1)
    except InputError:
        assert path.stat().st_size == size, path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        run.metric("aer", 2)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert read_journal(path)[0].latest["aer"] == 2


def test_an_unwritable_place_is_told_before_the_work_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), Journal(tmp_path / "file" / "a.journal.jsonl"):
        pytest.fail("the block must not run")


def test_the_error_of_the_job_is_not_hidden_by_a_full_disk(path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from alignlens.tracking.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with Journal(path) as journal:
    journal.run(experiment="score", name="a", identity={})
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
    raise RuntimeError("the cause")
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "RuntimeError: the cause"
    assert [(record.status, record.points) for record in read_journal(path)] == [("RUNNING", [])]


def test_works_outside_the_main_thread(path: Path) -> None:
    def job() -> None:
        with Journal(path) as journal:
            journal.run(experiment="score", name="a", identity=IDENTITY)

    thread = threading.Thread(target=job)
    thread.start()
    thread.join()
    assert read_journal(path)[0].status == "FINISHED"


def test_an_artifact_must_exist(path: Path) -> None:
    with Journal(path) as journal:
        run = journal.run(experiment="score", name="a", identity=IDENTITY)
        with pytest.raises(InputError, match="no such file"):
            run.artifact(path.parent / "missing")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("http://bob:pw@host:5000/x", "http://***@host:5000/x"),
        ("see postgresql://bob:p@ss@db/x and http://host/a@b", "see postgresql://***@db/x and http://host/a@b"),
        ("nobody@nowhere", "nobody@nowhere"),
    ],
)
def test_redacted(text: str, hidden: str) -> None:
    assert redacted(text) == hidden


def test_find_journals(tmp_path: Path) -> None:
    for name in ("b/x", "a/y/z"):
        with Journal(tmp_path / f"{name}.journal.jsonl"):
            pass
    (tmp_path / "a" / "other.jsonl").write_text("")
    assert find_journals(tmp_path) == [tmp_path / "a/y/z.journal.jsonl", tmp_path / "b/x.journal.jsonl"]
    assert find_journals(tmp_path, "b") == [tmp_path / "b/x.journal.jsonl"]
    with pytest.raises(InputError, match="no such results folder"):
        find_journals(tmp_path / "none")
    with pytest.raises(InputError, match="preset 'c'"):
        find_journals(tmp_path, "c")


def test_importing_it_loads_neither_mlflow_nor_numpy() -> None:
    code = "import sys, alignlens.tracking.journal; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", "import json;" + code], check=True, capture_output=True, text=True)
    assert not {"mlflow", "numpy", "pandas", "torch", "subprocess", "logging"} & set(json.loads(out.stdout))
