"""Slurm jobs that a killed Snakemake left behind: they would write the same files as the jobs that replace them."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from alignlens.errors import ToolError

#: What the names of our jobs begin with: ``slurm-jobname-prefix`` of profiles/slurm.
JOB_PREFIX = "alignlens_"
_ANSWER_SECONDS = 30
_PATIENCE_SECONDS = 60.0


class Orphan(NamedTuple):
    """A job in the queue: its number, and the comment that says what it is."""

    number: str
    comment: str


def cancel_orphans(directory: Path, patience: float = _PATIENCE_SECONDS) -> list[Orphan]:
    """Cancels the jobs that were submitted from ``directory``, waits until they have ended and returns them.

    Only call this if no other Snakemake works there. A training saves its state when it is cancelled.
    Raises if some keep running, since nothing may be submitted beside them.
    """
    orphans = _queued(directory)
    if not orphans:
        return []
    _asked("scancel", *(orphan.number for orphan in orphans))
    until = time.monotonic() + patience
    while (left := _queued(directory)) != []:
        if time.monotonic() > until:
            numbers = " ".join(orphan.number for orphan in left or orphans)
            raise ToolError(
                f"Slurm jobs of a killed Snakemake are still running. Run: scancel {numbers}, then the same command."
            )
        time.sleep(0.5)
    return orphans


def summary(orphans: list[Orphan]) -> str:
    """Returns one line about what was cancelled."""
    return f"cancelled {len(orphans)} Slurm jobs of a Snakemake that was killed: " + ", ".join(
        f"{orphan.number} {orphan.comment}" for orphan in orphans
    )


def _queued(directory: Path) -> list[Orphan] | None:
    """Returns our jobs in the queue, or None where there is no cluster that answers."""
    if shutil.which("squeue") is None:
        return None
    listed = _asked("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%i|%j|%Z|%k")
    if listed is None:
        return None
    rows = [line.split("|", 3) for line in listed.splitlines() if line.count("|") >= 3]
    return [
        Orphan(number.strip(), comment.strip())
        for number, name, folder, comment in rows
        if name.strip().startswith(JOB_PREFIX) and Path(folder.strip()) == directory
    ]


def _asked(*command: str) -> str | None:
    """Returns what a client of Slurm answers; None where there is no cluster to ask."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
