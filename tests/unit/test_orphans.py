"""Jobs of a killed workflow are found by their folder and name, and nobody else's are touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from alignlens.errors import ToolError
from alignlens.workflow.orphans import JOB_PREFIX, Orphan, cancel_orphans

SQUEUE = """#!/bin/sh
[ -e "$0.cancelled" ] && grep -v alignlens_1 "$0.jobs" || cat "$0.jobs"
"""
SCANCEL = """#!/bin/sh
echo "$@" > "$(dirname "$0")/squeue.cancelled"
"""


def make_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_only_jobs_of_this_folder_and_this_program_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "squeue", SQUEUE)
    make_program(tmp_path / "scancel", SCANCEL)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    rows = [
        f"11|alignlens_1|{tmp_path}|rule_train_wildcards_de|en",
        f"12|alignlens_1|{tmp_path}|rule_align",
        "13|alignlens_2|/elsewhere|rule_align",
        f"14|interactive|{tmp_path}|(null)",
    ]
    (tmp_path / "squeue.jobs").write_text("\n".join(rows) + "\n")
    assert cancel_orphans(tmp_path) == [Orphan("11", "rule_train_wildcards_de|en"), Orphan("12", "rule_align")]
    assert (tmp_path / "squeue.cancelled").read_text() == "11 12\n"
    (tmp_path / "squeue.cancelled").unlink()
    assert cancel_orphans(Path("/a/third/folder")) == []
    assert not (tmp_path / "squeue.cancelled").exists()


def test_jobs_that_cannot_be_cancelled_stop_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "squeue", SQUEUE)
    make_program(tmp_path / "scancel", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "squeue.jobs").write_text(f"11|alignlens_1|{tmp_path}|rule_align\n")
    with pytest.raises(ToolError, match="scancel 11, then the same command"):
        cancel_orphans(tmp_path, patience=0.1)


def test_a_queue_that_no_longer_answers_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "squeue", '#!/bin/sh\n[ -e "$0.cancelled" ] && exit 1\ncat "$0.jobs"\n')
    make_program(tmp_path / "scancel", SCANCEL)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "squeue.jobs").write_text(f"11|alignlens_1|{tmp_path}|rule_align\n")
    with pytest.raises(ToolError, match="scancel 11, then the same command"):
        cancel_orphans(tmp_path, patience=0.1)


def test_without_a_cluster_there_is_nothing_to_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cancel_orphans(tmp_path) == []
    make_program(tmp_path / "squeue", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cancel_orphans(tmp_path) == []


def test_the_profile_names_jobs_as_they_are_looked_for(project: Path) -> None:
    profile = yaml.safe_load((project / "profiles/slurm/config.yaml").read_text())
    assert f"{profile['slurm-jobname-prefix']}_" == JOB_PREFIX
