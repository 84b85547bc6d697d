"""One writer at a time: a lock on this machine that is released when its process dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_SECONDS = 120.0
_GLANCE_SECONDS = 0.05


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Holds the lock ``path`` during the block; raises if a single other process keeps it for minutes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ToolError(f"{path}: cannot be opened ({error.strerror}).") from None
    try:
        _wait_for(descriptor, path)
        os.utime(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path) -> None:
    holder, until = 0, 0.0
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            # Among many writers the wait is long although each has its turn: the file's time tells one from the next.
            present = os.fstat(descriptor).st_mtime_ns
            if present != holder:
                holder, until = present, time.monotonic() + _PATIENCE_SECONDS
            elif time.monotonic() > until:
                raise ToolError(f"{path}: another process has been writing for {_PATIENCE_SECONDS:.0f} s.") from None
            time.sleep(_GLANCE_SECONDS)
        except OSError as error:
            raise ToolError(f"{path}: cannot be locked ({error.strerror}).") from None
