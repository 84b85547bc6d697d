"""Copies of the project in which snakemake really runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from throwaway import TINY, Run, Workspace, make_workspace, run_once

sys.path.append(str(Path(__file__).parents[1] / "unit"))


@pytest.fixture
def workspace(tmp_path: Path, project: Path) -> Workspace:
    """A fresh copy in which nothing has run."""
    return make_workspace(tmp_path / "project", project)


@pytest.fixture(scope="session")
def finished(common: Path, project: Path) -> Workspace:
    """The copy in which the tiny workflow has run undisturbed, on all cores; tests leave it as they found it."""
    return run_once(common / "finished", project, TINY)


@pytest.fixture(scope="session")
def finished_runs(finished: Workspace) -> list[Run]:
    """What MLflow tells of the tiny workflow."""
    return finished.mlflow_runs()
