"""Locks of the operating system, which die with their owner; and those of Snakemake, which do not."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)
_held: list[int] = []


def release_stale_locks(directory: Path) -> bool:
    """Removes Snakemake's locks in ``directory`` if no process that called this is alive; returns whether none is.

    Snakemake's lock files name no owner, so after kill -9 it refuses to start until told to unlock. Here every
    main process holds a shared lock of the operating system for as long as it lives; a process that gets it exclusively
    knows that all others are dead. Two workflows at once still run into Snakemake's own lock.
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


class Hold:
    """A lock that this process holds until it releases it or dies."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def awaited(self) -> bool:
        """Returns whether another process waits for the lock."""
        return _is_shared(_queue(self._path))


@contextmanager
def held(path: Path, what: str) -> Iterator[Hold]:
    """Holds the lock ``path`` during the block. A second process logs who holds it, and waits.

    The file exists only while a process holds the lock or waits for it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _taken(path, what)
    try:
        with suppress(OSError):  # The owner's name is a courtesy; a full disk is no reason to stop.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield Hold(path)
    finally:
        if not _is_shared(_queue(path)):
            _queue(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)  # Before the release, while no other process can hold it under this name.
        os.close(descriptor)


def _taken(path: Path, what: str) -> int:
    """Acquires the lock; returns its open file."""
    while True:
        descriptor = _opened(path)
        try:
            _wait_for(descriptor, path, what)
        except BaseException:
            os.close(descriptor)
            raise
        if _stands_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # Its owner has removed it, and another process may have created a new one.


def _wait_for(descriptor: int, path: Path, what: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
    except OSError as error:
        raise ToolError(
            f"{path}: cannot be locked ({error.strerror}). Use a file system that supports locks."
        ) from None
    waiting = _opened(_queue(path))
    try:
        fcntl.flock(waiting, fcntl.LOCK_SH)
        _log.warning("%s: %s %s; waiting for it to end", path.parent, owner, what)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(waiting)


def _stands_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _queue(path: Path) -> Path:
    """Returns the file that processes waiting for a lock share."""
    return path.with_name(f"{path.name}.queue")


def _is_shared(path: Path) -> bool:
    """Returns whether any process has a shared lock on a file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
