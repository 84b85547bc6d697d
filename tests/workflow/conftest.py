"""Copies of the project in which snakemake really runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from throwaway import Workspace, make_workspace


@pytest.fixture
def workspace(tmp_path: Path, project: Path) -> Workspace:
    """A fresh copy in which nothing has run."""
    return make_workspace(tmp_path / "project", project)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Workspace:
    """A copy in which the tiny workflow has run undisturbed, on all cores; tests leave it as they found it."""
    made = make_workspace(tmp_path_factory.mktemp("finished") / "project", project)
    made.snakemake("--cores", "all")
    return made
