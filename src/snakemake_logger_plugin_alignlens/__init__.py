"""``snakemake --logger alignlens``: what runs and how far it is, in one line instead of four lines per job.

Snakemake finds the package by its name and loads it at every start, so that it imports next to nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_alignlens.board import Board

_REDRAW_SECONDS = 1.0
# Without a terminal nothing can be drawn again: a line when a job ends, and when for so long none has.
_SILENCE_SECONDS = 60.0
_CLEAR = "\r\x1b[K"


class LogHandler(LogHandlerBase):
    """Draws one line where there is a terminal; elsewhere, in a CI log say, prints one for every job that ends."""

    def __post_init__(self) -> None:
        self._stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._board = Board()
        self._drawn = False
        self._turn = threading.Lock()
        self._ended = threading.Event()
        if not self.common_settings.dryrun:
            threading.Thread(target=self._tick, daemon=True).start()

    def emit(self, record: LogRecord) -> None:
        """Prints what a record is worth, above the line that is drawn."""
        try:
            with self._turn:
                self._print(self._lines(record))
        except Exception:  # the thread that calls this must live on, or nothing would be shown any more
            self.handleError(record)

    def close(self) -> None:
        """Ends the display."""
        self._ended.set()
        with self._turn:
            self._board.running.clear()
            self._print([])
        super().close()

    def _lines(self, record: LogRecord) -> list[str]:
        text = self.format(record) or ""
        if self.common_settings.dryrun:
            return [text] if text else []
        return self._board.lines(record, text, every_job=not self._live)

    def _tick(self) -> None:
        while not self._ended.wait(_REDRAW_SECONDS if self._live else _SILENCE_SECONDS):
            with self._turn:
                quiet = not self._live and self._board.running and self._board.silent_for(_SILENCE_SECONDS)
                self._print([self._board.line()] if quiet else [])

    def _print(self, lines: list[str]) -> None:
        shown = self._board.line(self._width()) if self._live and self._board.running else ""
        before = _CLEAR if self._drawn else ""
        self._stream.write(before + "".join(f"{line}\n" for line in lines) + shown)
        self._stream.flush()
        self._drawn = bool(shown)

    def _width(self) -> int:
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            columns = 0
        return (columns or 80) - 1  # some terminals do not know their width

    @property
    def writes_to_stream(self) -> bool:
        """Snakemake's own messages come through here."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake keeps its own log file."""
        return False

    @property
    def has_filter(self) -> bool:
        """Options such as --quiet work as they do without this plugin."""
        return False

    @property
    def has_formatter(self) -> bool:
        """What is not about the progress of a job looks as Snakemake has it."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Counts are enough."""
        return False


__all__ = ["LogHandler"]
