"""Whether other processes of this machine are alive."""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Returns whether process ``pid`` of this machine is alive and not a zombie.

    A killed process stays a zombie until its parent waits for it, which the first process of a container may never
    do; it counts as dead.
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
