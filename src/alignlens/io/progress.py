"""Progress on stderr: a bar in a terminal, a line every 30 seconds in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_LINE_EVERY_SECONDS = 30.0
_BAR_EVERY_SECONDS = 0.2


class Progress:
    """Counts work done in units a person understands (sentences, bytes, iterations)."""

    def __init__(self, label: str, total: int | None, unit: str = "sentences") -> None:
        self._label, self._total, self._unit = label, total, unit
        self._done = 0
        self._before = 0
        self._note = ""
        self._started = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._done:
            self._show()
            sys.stderr.write("\n")

    def start_at(self, done: int) -> None:
        """Sets how much was done before this process; it counts towards the percentage but not the rate."""
        self._done = self._before = done

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Adds finished work and an optional note, and updates the display when due."""
        self._done += amount
        self._note = note
        now = time.monotonic()
        if now - self._shown >= (_BAR_EVERY_SECONDS if self._terminal else _LINE_EVERY_SECONDS):
            self._shown = now
            self._show()

    def _show(self) -> None:
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = (self._done - self._before) / seconds
        text = f"{self._label}: {self._done:,}"
        if self._total:
            left = (self._total - self._done) / rate if rate else 0.0
            text += f"/{self._total:,} {self._unit} ({100 * self._done / self._total:.0f} %)"
            text += f" {rate:,.1f}/s eta {_clock(left)}"
        else:
            text += f" {self._unit} {rate:,.1f}/s"
        if self._note:
            text += f", {self._note}"
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else text + "\n")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
