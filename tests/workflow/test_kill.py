"""kill -9 in the middle, then the same command: the same files, one finished run per job, on any number of cores."""

from __future__ import annotations

import os
import signal
import time

import pytest
from throwaway import Workspace, kill_group

pytestmark = pytest.mark.workflow


def test_killed_again_and_again_it_ends_as_undisturbed_on_all_cores(finished: Workspace, workspace: Workspace) -> None:
    # Killed as soon as the first file of a kind appears, so that every stage is interrupted once.
    aligning = ("aligners/**/align.log", "links/**/*.pharaoh", "scores/**/score.log")
    attributing = ("attributions/**/attribute.log", "attributions/**/metrics.json")
    modelling = ("models/**/train.log", "translations/**/*.log", *attributing)
    stages = [("all", sign) for sign in ("data/tiny/prepare.log", *aligning)] + [("1", sign) for sign in modelling]
    for cores, sign in stages:
        process = workspace.start("--cores", cores)
        until = time.monotonic() + 400
        while not any(workspace.results.glob(sign)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert any(workspace.results.glob(sign)), (workspace.folder / "started.log").read_text()
        kill_group(process)
        # The tracker is asked in between too: what was killed must not look as if it ran.
        assert workspace.alignlens("track", "sync").returncode == 0
        assert "RUNNING" not in {run["status"] for run in workspace.mlflow_runs()}
    workspace.snakemake("--cores", "1")
    expected = finished.stable_files()
    assert len(expected) > 50
    assert workspace.stable_files() == expected
    runs = workspace.mlflow_runs()
    assert {run["status"] for run in runs} == {"FINISHED"}
    assert sorted(str(run["key"]) for run in runs) == sorted(str(run["key"]) for run in finished.mlflow_runs())
    assert not list(workspace.results.rglob(".*.tmp")), "temporary files of killed jobs are left"
    assert "Nothing to be done" in workspace.snakemake("--cores", "all").stderr


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
