"""Journals into a real MLflow on SQLite: once, twice, after kills, in parallel, without a tracker, anew."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stores import client_of, counts, runs_of, write

from alignlens.tracking.journal import Journal
from alignlens.tracking.records import find_journals
from alignlens.tracking.store import Store

KILLED_JOB = """
import sys, time
from pathlib import Path
from alignlens.tracking.journal import Journal
with Journal(Path(sys.argv[1])) as journal:
    run = journal.run(experiment="train", name="killed", identity={"preset": "demo", "seed": 1}, group="seeds")
    for step in range(10**9):
        run.metric("loss", 1.0, step)
        if step == 20:
            print("ready", flush=True)
        time.sleep(0.001 if step > 20 else 0)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One database for all tests that use journals of their own in an experiment of their own."""
    return Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


def test_all_that_the_journal_says_arrives_and_a_second_sync_changes_nothing(store: Store, tmp_path: Path) -> None:
    small, big = tmp_path / "aer.csv", tmp_path / "model.bin"
    small.write_text("12.5\n")
    big.write_bytes(b"0" * 6_000_000)
    gone = tmp_path / "gone.txt"
    gone.write_text("soon gone")
    path = tmp_path / "a.journal.jsonl"
    with Journal(path) as journal:
        run = journal.run(
            experiment="full",
            name="de-en · hmm",
            identity={"preset": "demo"},
            tags={"dataset": "toy", "flag": True},
            params={"size": 10, "names": ["a", "b"], "text": "plain", "nothing": None},
            group="de-en · aligners",
        )
        for step in range(2000):
            run.metric("loss", 1 / (step + 1), step)
        run.metric("aer", 12.5)
        for file in (small, big, gone):
            run.artifact(file, "tables")
    gone.unlink()
    assert counts(store.sync([path])) == (1, 0, 0, 0, 0)
    (stored,) = runs_of(store, "full")
    assert (stored.info.run_name, stored.info.status) == ("de-en · hmm", "FINISHED")
    assert stored.data.params == {"size": "10", "names": '["a","b"]', "text": "plain", "nothing": "null"}
    assert stored.data.metrics["aer"] == 12.5
    assert {"seconds", "peak_memory_mb"} < set(stored.data.metrics)
    tags = stored.data.tags
    assert (tags["dataset"], tags["flag"], tags["preset"], tags["status"]) == ("toy", "true", "demo", "FINISHED")
    (parent,) = runs_of(store, "full", groups=True)
    assert (parent.info.run_name, parent.info.status) == ("de-en · aligners", "FINISHED")
    assert tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.info.start_time <= stored.info.start_time <= stored.info.end_time == parent.info.end_time
    client = client_of(store)
    history = client.get_metric_history(stored.info.run_id, "loss")
    assert sorted((point.step, point.value) for point in history) == [(n, 1 / (n + 1)) for n in range(2000)]
    assert all(stored.info.start_time <= point.timestamp <= stored.info.end_time for point in history)
    files = {file.path: file.file_size for file in client.list_artifacts(stored.info.run_id, "tables")}
    assert files["tables/aer.csv"] == 5
    assert set(files) == {"tables/aer.csv", "tables/model.bin.reference.txt", "tables/gone.txt.reference.txt"}
    reference = Path(client.download_artifacts(stored.info.run_id, "tables/model.bin.reference.txt")).read_text()
    assert str(big) in reference
    assert "6000000 bytes" in reference

    before = [stored.to_dictionary(), parent.to_dictionary()]
    assert counts(store.sync([path])) == (0, 0, 0, 1, 0)
    after = [*runs_of(store, "full"), *runs_of(store, "full", groups=True)]
    assert [run.to_dictionary() for run in after] == before


def test_a_rerun_replaces_and_its_group_stays(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 20}, "rerun")
    other = write(tmp_path / "b.journal.jsonl", {"aer": 1}, "rerun")
    store.sync([path, other])
    (parent,) = runs_of(store, "rerun", groups=True)
    write(path, {"aer": 10}, "rerun")
    assert counts(store.sync([path, other])) == (0, 1, 0, 1, 0)
    assert [run.data.metrics["aer"] for run in runs_of(store, "rerun")] == [10, 1]
    assert [run.info.run_id for run in runs_of(store, "rerun", groups=True)] == [parent.info.run_id]
    assert {run.data.tags["mlflow.parentRunId"] for run in runs_of(store, "rerun")} == {parent.info.run_id}


def test_the_filters_of_the_manual_find_runs(store: Store, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "tracking.md"
    filters = re.findall(r"^\| .* \| `((?:tags|metrics)\.[^`]+)` \|$", page.read_text(), re.MULTILINE)
    assert len(filters) == 4
    path = tmp_path / "a.journal.jsonl"

    def job() -> None:
        with Journal(path) as journal:
            tags = {"dataset": "demo", "links": "grow-diag", "model": "transformer", "direction": "xa-xb"}
            tags |= {"decoding": "forced", "extraction": "ding"}
            run = journal.run(experiment="filters", name="a", identity={"preset": "demo"}, tags=tags)
            run.metrics({"aer": 20, "seconds": 700, "peak_memory_mb": 5000})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        job()
    store.sync([path])
    experiment = runs_of(store, "filters")[0].info.experiment_id
    assert [len(client_of(store).search_runs([experiment], text)) for text in filters] == [1, 1, 1, 1]


def test_duplicates_made_by_others_are_removed(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 20}, "twice")
    store.sync([path])
    (stored,) = runs_of(store, "twice")
    client = client_of(store)
    tags = {"alignlens.key": stored.data.tags["alignlens.key"]}
    client.create_run(stored.info.experiment_id, tags=tags, run_name="double")
    assert counts(store.sync([path])) == (0, 0, 0, 1, 0)
    assert [run.info.run_id for run in runs_of(store, "twice")] == [stored.info.run_id]


def test_a_deleted_group_or_experiment_comes_back(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 20}, "deleted")
    store.sync([path])
    (parent,) = runs_of(store, "deleted", groups=True)
    client = client_of(store)
    client.delete_run(parent.info.run_id)
    assert counts(store.sync([path])) == (0, 0, 0, 1, 0)
    (new_parent,) = runs_of(store, "deleted", groups=True)
    (run,) = runs_of(store, "deleted")
    assert run.data.tags["mlflow.parentRunId"] == new_parent.info.run_id != parent.info.run_id
    client.delete_experiment(run.info.experiment_id)
    store.sync([path])
    assert [run.data.metrics["aer"] for run in runs_of(store, "deleted")] == [20]


def test_runs_of_the_user_are_left_alone(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 20}, "guest")
    store.sync([path])
    client = client_of(store)
    own = client.create_run(runs_of(store, "guest")[0].info.experiment_id, run_name="mine")
    store.sync([path])
    assert client.get_run(own.info.run_id).info.status == "RUNNING"


def test_sigkill_gives_killed_and_a_rerun_gives_one_finished_run(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "k.journal.jsonl"
    job = subprocess.Popen([sys.executable, "-c", KILLED_JOB, str(path)], stdout=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    store.sync([path])
    (run,) = runs_of(store, "train")
    assert run.info.status == "RUNNING", "a living job is shown as it stands"
    job.send_signal(signal.SIGKILL)
    job.wait()
    job.stdout.close()
    with path.open("ab") as file:
        file.write(b'{"event":"metrics","run"')  # torn while it was written
    assert counts(store.sync([path])) == (0, 0, 1, 0, 0)
    (killed,) = runs_of(store, "train")
    assert (killed.info.run_id, killed.info.status) == (run.info.run_id, "KILLED")
    assert killed.data.tags["status"] == "KILLED"
    steps = [point.step for point in client_of(store).get_metric_history(killed.info.run_id, "loss")]
    assert sorted(steps) == list(range(len(steps))), "what was sent before is not sent twice"
    assert len(steps) > 20
    assert counts(store.sync([path])) == (0, 0, 0, 1, 0)

    with Journal(path) as journal:
        journal.run(experiment="train", name="killed", identity={"preset": "demo", "seed": 1}, group="seeds").metric(
            "loss", 0.5
        )
    assert counts(store.sync([path])) == (0, 1, 0, 0, 0)
    (finished,) = runs_of(store, "train")
    assert (finished.info.status, finished.data.metrics["loss"]) == ("FINISHED", 0.5)
    assert finished.info.run_id != killed.info.run_id


def test_a_failed_job_says_why(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "f.journal.jsonl"

    def job() -> None:
        with Journal(path) as journal:
            journal.run(experiment="fails", name="f", identity={})
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError):
        job()
    store.sync([path])
    (run,) = runs_of(store, "fails")
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", "RuntimeError: no luck")


def test_running_runs_nobody_will_end_are_ended(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "gone.journal.jsonl"
    with Journal(path) as journal:
        journal.run(experiment="orphan", name="orphan", identity={"n": 1})
        store.sync([path])
        path.unlink()
        result = store.sync([])
    assert counts(result) == (0, 0, 0, 0, 1)
    (run,) = runs_of(store, "orphan")
    assert (run.info.status, run.data.tags["status"]) == ("KILLED", "KILLED")
    client = client_of(store)
    foreign = {"alignlens.key": "f" * 16, "alignlens.attempt": "elsewhere:1:2:3.0", "alignlens.source": "/none"}
    other = client.create_run(run.info.experiment_id, tags=foreign)
    assert store.sync([]).ended == 0
    assert client.get_run(other.info.run_id).info.status == "RUNNING", "another machine's business"
    client.delete_run(other.info.run_id)


def test_a_run_the_tracker_refuses_does_not_stop_the_others(store: Store, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.journal.jsonl", {"a(b)!": 1.0}, "refused")
    good = write(tmp_path / "good.journal.jsonl", {"aer": 1.0}, "refused")
    broken = tmp_path / "broken.journal.jsonl"
    broken.write_text("junk\n")
    result = store.sync([bad, broken, good])
    assert (result.created, result.reached, result.complete) == (1, True, False)
    assert len(result.problems) == 2
    assert any(str(bad) in problem for problem in result.problems)
    assert any(f"{broken}:1" in problem for problem in result.problems)
    assert [run.info.run_name for run in runs_of(store, "refused")] == ["toy · good"]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("params", {"a(b)!": 1}),
        ("params", {"/x": 1}),
        ("params", {"x" * 300: 1}),
        ("metrics", {"": 1.0}),
        ("metrics", {"a/../b": 1.0}),
        ("metrics", {"x" * 300: 1.0}),
    ],
)
def test_whatever_the_tracker_refuses_is_one_line_and_no_half_run(
    store: Store, tmp_path: Path, part: str, content: dict[str, float]
) -> None:
    bad = tmp_path / "bad.journal.jsonl"
    with Journal(bad) as journal:
        params = content if part == "params" else {}
        run = journal.run(experiment="picky", name="bad", identity={"preset": "x"}, params=params, group="bad")
        run.metrics(content if part == "metrics" else {"aer": 1.0})
    good = write(tmp_path / "good.journal.jsonl", {"aer": 1.0}, "picky")
    result = store.sync([bad, good])
    assert result.reached
    (problem,) = result.problems
    assert problem.startswith(f"{bad}: bad: the tracker refuses it (")
    assert problem.isprintable()
    assert [run.info.run_name for run in runs_of(store, "picky")] == ["toy · good"]


def test_long_texts_are_cut_and_do_not_matter(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "long.journal.jsonl"
    long = "x" * 50_000

    def job() -> None:
        with Journal(path) as journal:
            identity = {"preset": long}
            journal.run(
                experiment="long", name=long, identity=identity, tags={"a": long}, params={"b": long}, group=long
            )
            raise RuntimeError(long)

    with pytest.raises(RuntimeError):
        job()
    assert counts(store.sync([path])) == (1, 0, 0, 0, 0)
    (run,) = runs_of(store, "long")
    assert len(run.info.run_name) == 250
    assert max(map(len, run.data.tags.values())) <= 8000
    assert counts(store.sync([path])) == (0, 0, 0, 1, 0)


def test_a_refused_rerun_leaves_the_run_before_it(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.journal.jsonl", {"aer": 20}, "again")
    store.sync([path])
    write(path, {"a(b)!": 1.0}, "again")
    assert not store.sync([path]).complete
    assert [run.data.metrics["aer"] for run in runs_of(store, "again")] == [20]


def test_malformed_journals_do_not_stop_the_others_and_write_nowhere_else(store: Store, tmp_path: Path) -> None:
    results = tmp_path / "results"
    secret = tmp_path / "secret.txt"
    secret.write_text("not for others")
    with Journal(results / "demo" / "outside.journal.jsonl") as journal:
        journal.run(experiment="hostile", name="outside", identity={"n": 1}).artifact(secret, "tables")
    for number, folder in enumerate((str(tmp_path / "abs"), "../..", "a/../../b")):
        text = (results / "demo" / "outside.journal.jsonl").read_text()
        bad = text.replace('"folder":"tables"', f'"folder":"{folder}"').replace("outside", f"bad {number}")
        (results / "demo" / f"bad{number}.journal.jsonl").write_text(bad)
    os.mkfifo(results / "demo" / "fifo.journal.jsonl")
    (results / "demo" / "folder.journal.jsonl").mkdir()
    before = set(tmp_path.rglob("*"))
    result = Store(store.address, results).sync(find_journals(results))
    assert (result.created, len(result.problems)) == (1, 5)
    assert all(problem.isprintable() for problem in result.problems)
    assert sum(":2: not a journal line (folder" in problem for problem in result.problems) == 3
    assert set(tmp_path.rglob("*")) == before
    (run,) = runs_of(store, "hostile")
    (file,) = client_of(store).list_artifacts(run.info.run_id, "tables")
    assert file.path == "tables/secret.txt.reference.txt"
    reference = Path(client_of(store).download_artifacts(run.info.run_id, file.path)).read_text()
    assert "lies outside the results folder" in reference
    assert "not for others" not in reference


def test_of_two_journals_of_one_job_the_later_counts(store: Store, tmp_path: Path) -> None:
    old = write(tmp_path / "old" / "a.journal.jsonl", {"aer": 2}, "copies")
    new = write(tmp_path / "new" / "a.journal.jsonl", {"aer": 1}, "copies")
    for order in ([old, new], [new, old]):
        store.sync(order)
        assert [run.data.metrics["aer"] for run in runs_of(store, "copies")] == [1]


def test_four_processes_on_a_fresh_store(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "demo" / f"{number}.journal.jsonl", {"aer": number})
    code = (
        "import sys; from pathlib import Path; from alignlens.tracking.store import Store\n"
        "result = Store(sys.argv[1]).sync(sorted(Path(sys.argv[2]).rglob('*.jsonl')))\n"
        "assert result.complete, result.problems\n"
        "print(result.created, result.replaced, result.unchanged)"
    )
    store = Store(f"sqlite:///{tmp_path / 'mlflow.db'}")
    command = [sys.executable, "-c", code, store.address.uri, str(tmp_path)]
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [job.communicate(timeout=120) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0, 0], outputs
    assert sorted(out.strip() for out, _ in outputs) == ["0 0 3", "0 0 3", "0 0 3", "3 0 0"]
    assert {error for _, error in outputs} == {""}, "MLflow keeps quiet"
    assert [run.data.metrics["aer"] for run in runs_of(store)] == [0, 1, 2]
    assert len(runs_of(store, groups=True)) == 1
