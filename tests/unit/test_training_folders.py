"""Work folders of trainings: what a kill leaves is no hindrance, and what is somebody else's stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_files import CopyTask


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def test_a_kill_before_a_work_folder_is_marked_is_no_hindrance(task: CopyTask, tmp_path: Path) -> None:
    work = tmp_path / "place/work"
    work.mkdir(parents=True)
    (work / ".training.host-1.tmp").write_text("The saved state of")
    done = task.train(tmp_path / "place")
    assert done.returncode == 0, done.stderr
    assert not work.exists()


def test_a_work_folder_with_other_things_is_not_removed(task: CopyTask, tmp_path: Path) -> None:
    work = tmp_path / "place/work"
    work.mkdir(parents=True)
    (work / "thesis.tex").write_text("years of work")
    done = task.train(tmp_path / "place")
    assert done.returncode == 2
    assert "work: holds other files" in done.stderr
    assert (work / "thesis.tex").is_file()
    (work / "thesis.tex").rename(tmp_path / "place/thesis.tex")
    assert task.train(tmp_path / "place").returncode == 0
    # A file that appears among ours later stays, too.
    (tmp_path / "place/model/notes").write_text("mine")
    done = task.train(tmp_path / "place")
    assert done.returncode == 2
    assert "model/notes: would be lost" in done.stderr
