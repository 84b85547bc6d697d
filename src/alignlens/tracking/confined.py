"""Open files whose names come from others: regular ones only, and only below a folder that we trust.

Nothing else is opened at all: a FIFO would wait for ever, opening a device may do something, and a link may lead to
what was never meant to be published.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class OutsideError(OSError):
    """The path leads out of the trusted folder."""


class IrregularError(OSError):
    """A folder, device, FIFO or socket."""


def open_regular(path: Path | str, folder: int | None = None, follow: bool = True) -> IO[bytes]:
    """Returns an open regular file; ``folder`` is a descriptor that a relative path starts from."""
    _require_regular(os.stat(path, dir_fd=folder, follow_symlinks=follow), path)
    descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    try:
        _require_regular(os.fstat(descriptor), path)  # it may have been changed in between
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def open_below(root: Path, path: Path) -> IO[bytes]:
    """Returns an open regular file whose true place, links followed, is below ``root``.

    The true path is walked folder by folder without following links, so that none can be put there meanwhile.
    """
    # Not Path.resolve, which raises no OSError for a loop of links.
    top, true = (Path(os.path.realpath(place, strict=True)) for place in (root, path))
    if not true.is_relative_to(top) or true == top:
        raise OutsideError(errno.EXDEV, "lies outside the results folder", str(path))
    *folders, name = true.relative_to(top).parts
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return open_regular(name, descriptor, follow=False)
    finally:
        os.close(descriptor)


def _require_regular(status: os.stat_result, path: Path | str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise IrregularError(errno.EINVAL, "not a regular file", str(path))
