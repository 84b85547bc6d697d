"""Processes that outlive the command that starts them, identified by number and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ToolError
from alignlens.io.atomic import write_lines
from alignlens.tracking.records import process_is_alive, process_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GLANCE_SECONDS = 0.1
_PATIENCE_SECONDS = 30.0
_LOG_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Daemon:
    """A program of ``folder`` with ``<name>.pid`` and ``<name>.log`` there."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """The log with its output."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its first process, if that lives."""
        recorded = self._recorded()
        return recorded[0][0] if recorded and process_is_alive(*recorded[0]) else None

    def start(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, user: str | None = None) -> None:
        """Starts it in a session of its own; files it makes are private."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                command,
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                **privileges(user),
            )
        except OSError as error:
            raise ToolError(f"{command[0]}: cannot be started ({error.strerror}).") from None
        finally:
            os.close(log)
        self._record([child.pid])

    def record_children(self) -> None:
        """Also notes the processes it has started: if it is killed, they stay and keep its port."""
        leader = self.pid
        if leader is not None:
            self._record([leader, *sorted(_group(leader) - {leader})])

    def end(self, number: signal.Signals) -> bool:
        """Sends the signal to its first process, ends what is left of it, and returns whether there was anything."""
        recorded = self._recorded()
        living = [process for process in recorded if process_is_alive(*process)]
        if living:
            _send(living[0][0], number)
            if not _gone(living):
                for process in living:
                    if process_is_alive(*process):
                        _send(process[0], signal.SIGKILL)
                if not _gone(living):
                    raise ToolError(f"{self.name}: process {living[0][0]} does not stop.")
        self._file.unlink(missing_ok=True)
        return bool(living)

    def last_words(self) -> str:
        """Returns the last line of its log that says something."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def _record(self, pids: Sequence[int]) -> None:
        write_lines(self._file, [f"{pid} {process_start(pid)}" for pid in pids])

    def _recorded(self) -> list[tuple[int, str]]:
        """Returns numbers and start times, the first process first; without a start time there is none."""
        try:
            lines = [line.split() for line in self._file.read_text(encoding="utf-8").splitlines()]
            return [(int(pid), start) for pid, start in lines]
        except (OSError, ValueError):
            return []


def privileges(user: str | None) -> dict[str, Any]:
    """Returns the arguments for ``subprocess`` to run a program as ``user``."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _group(leader: int) -> set[int]:
    members = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(ProcessLookupError):
                if os.getpgid(int(entry.name)) == leader:
                    members.add(int(entry.name))
    return members


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ToolError(f"process {pid} belongs to another user, who has to stop it.") from None


def _gone(processes: Sequence[tuple[int, str]]) -> bool:
    until = time.monotonic() + _PATIENCE_SECONDS
    while any(process_is_alive(*process) for process in processes):
        if time.monotonic() > until:
            return False
        time.sleep(_GLANCE_SECONDS)
    return True
