"""kill -9 in the middle, then the same command: the same files, one finished run per job, on any number of cores."""

from __future__ import annotations

import os
import signal
import time

import pytest
from throwaway import Run, Workspace, kill_group

pytestmark = pytest.mark.workflow


# One of each kind: another program's work, what goes on from its own state, what streams to the tracker.
MOMENTS = ("aligners/**/align.log", "models/**/work/training", "attributions/**/attribute.log")
# Every kind of step, of one model and one aligner; nothing after them depends on cores or has a state.
TARGETS = (
    "results/tiny/attributions/tiny/lstm/1/final/test/forced/metrics.json",
    "results/tiny/attributions/tiny/lstm/1/final/test/free/metrics.json",
    "results/tiny/scores/tiny/hmm/offline/200/metrics.json",
    "results/tiny/translations/tiny/xa-xb/lstm/1/forced.json",
)


def test_killed_again_and_again_it_ends_as_undisturbed_on_all_cores(
    finished: Workspace, finished_runs: list[Run], workspace: Workspace
) -> None:
    for sign in MOMENTS:
        process = workspace.start("--cores", "all", *TARGETS)
        until = time.monotonic() + 400
        while not any(workspace.results.glob(sign)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert any(workspace.results.glob(sign)), (workspace.folder / "started.log").read_text()
        kill_group(process)
        # The tracker is asked in between too: what was killed must not look as if it ran.
        assert workspace.alignlens("track", "sync").returncode == 0
        assert "RUNNING" not in workspace.statuses()
    workspace.snakemake("--cores", "1", *TARGETS)
    made, expected = workspace.stable_files(), finished.stable_files()
    assert len(made) > 50
    assert made == {name: expected[name] for name in made}
    runs = workspace.mlflow_runs()
    keys = [str(run["key"]) for run in runs]
    assert {run["status"] for run in runs} == {"FINISHED"}
    assert len(keys) == len(set(keys))
    assert set(keys) < {str(run["key"]) for run in finished_runs}
    assert not list(workspace.results.rglob(".*.tmp")), "temporary files of killed jobs are left"
    assert "Nothing to be done" in workspace.snakemake("--cores", "all", *TARGETS).stderr


def test_jobs_that_outlive_their_killed_workflow_and_the_next_one_end_with_the_same_bytes(
    finished: Workspace, workspace: Workspace
) -> None:
    models = [str(path.relative_to(finished.folder)) for path in sorted(finished.results.glob("models/*/*/*/*/model"))]
    process = workspace.start("--cores", "2", *models[:2])
    until = time.monotonic() + 400
    while not any(workspace.results.glob("models/**/work/training")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)  # the main process alone: its trainings go on
    process.wait()
    workspace.snakemake("--cores", "2", *models[:2])
    for name in models[:2]:
        made = {path.name: path.read_bytes() for path in (workspace.folder / name).glob("*.*")}
        assert made == {path.name: path.read_bytes() for path in (finished.folder / name).glob("*.*")}
    assert not list(workspace.results.glob("models/**/work"))
