"""Locks that a killed Snakemake leaves behind, and how to know that nobody holds them any more."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_held: list[int] = []


def release_stale_locks(directory: Path) -> bool:
    """Removes Snakemake's locks in ``directory`` if no process that called this is alive; returns whether none is.

    Snakemake's lock files name no owner, so after kill -9 it refuses to start until told to unlock. Here every
    main process holds a shared lock of the operating system for as long as it lives; whoever can have it alone
    knows that all others are dead. Two workflows at once still meet Snakemake's own lock.
    """
    folder = directory / ".snakemake"
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / "alive.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    if alone:
        for lock in (folder / "locks").glob("*.lock"):
            lock.unlink(missing_ok=True)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _held.append(descriptor)
    return alone
