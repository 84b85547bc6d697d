"""SIGTERM unwinds like Ctrl-C, so that what is open can be closed properly."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class Terminated(SystemExit):
    """SIGTERM arrived."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(128 + number)


@contextmanager
def unwinding() -> Iterator[None]:
    """Raises ``Terminated`` in the block if SIGTERM arrives; a handler set by others stays."""
    taken = False
    try:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
            taken = True
    except ValueError:
        taken = False  # only the main thread may; elsewhere the process just ends
    try:
        yield
    finally:
        if taken:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
