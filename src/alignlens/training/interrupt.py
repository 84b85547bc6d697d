"""SIGTERM and Ctrl-C ask a long job to stop at its next safe place, instead of stopping it anywhere."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupt:
    """While the block runs, signals are only noted; ``obey`` then delivers one as usual."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # A signal that was ignored stays ignored: a job in the background is not the one that Ctrl-C is meant for.
        heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def obey(self) -> None:
        """Delivers the noted signal to the handler from before the block; returns if that handler ignores it."""
        self._restore()
        signal.raise_signal(self.asked if self.asked is not None else signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = number

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
