"""Other processes of this machine: whether one still lives."""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Tells whether process ``pid`` of this machine can still do anything.

    One that was killed stays a zombie until its parent asks for it, which the first process of a container may never
    do: that one is dead.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # gone meanwhile, or a system without /proc
        return True
    return stat.rpartition(")")[2].split()[:1] != ["Z"]
