"""A Slurm and an MLflow server of our own, brought up once for all tests and taken down by pid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "workflow"))

from slurm import Slurm, why_not
from submitted import SMALL
from throwaway import Workspace, run_once


@pytest.fixture(scope="module")  # after those that say that something is not installed
def local(common: Path, project: Path) -> Workspace:
    """The workflow on this machine alone."""
    return run_once(common / "local", project, SMALL)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of one node with accounting."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    made = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
