"""Reads journals, the counterpart of ``alignlens.tracking.journal``. Standard library only."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import InputError, nearest
from alignlens.io.processes import is_running
from alignlens.tracking.confined import open_regular
from alignlens.tracking.events import FAILED, FINISHED, KILLED, RUNNING, MalformedError, escaped, parse_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FAILED", "FINISHED", "KILLED", "RUNNING", "SUFFIX", "RunRecord", "find_journals", "read_journal"]

SUFFIX = ".journal.jsonl"
FILES = "mlartifacts"
"""The folder beside a SQLite store that holds the files of its runs."""

_REMOTE_QUIET_SECONDS = 3600.0
_LARGEST_BYTES = 1 << 28  # a million validations; anything larger is not a journal of ours and may not fit into memory
_NAMES = ("experiment", "name", "group", "tags", "params", "identity", "pid", "process", "host", "version", "commit")
_PID = re.compile("[0-9]{1,10}")


def process_start(pid: int) -> str:
    """Returns the start time of a living process in the kernel's own unit; empty if unknown or dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


@dataclass(frozen=True)
class Point:
    """One value of a metric."""

    name: str
    value: float
    step: int
    time: float


@dataclass(frozen=True)
class Artifact:
    """One recorded file; ``path`` is where the journal expects it now."""

    path: Path
    sha256: str
    size: int
    folder: str


@dataclass
class RunRecord:
    """One run in a journal; RUNNING if the journal does not say how it ended."""

    journal: Path
    key: str
    experiment: str
    name: str
    group: str | None
    tags: dict[str, Any]
    params: dict[str, Any]
    identity: dict[str, Any]
    pid: int
    process: str
    host: str
    version: str
    commit: str
    start: float
    status: str = RUNNING
    error: str = ""
    end: float | None = None
    last: float = 0.0
    points: list[Point] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)

    @property
    def preset(self) -> str:
        """The preset that the run belongs to; empty if its identity names none."""
        return str(self.identity.get("preset", ""))

    @property
    def attempt(self) -> str:
        """Identifies this execution of the job: another one has another process or start."""
        return f"{self.host}:{self.pid}:{self.process}:{self.start!r}"

    @property
    def digest(self) -> str:
        """Digest of the run's content in the journal: if equal, there is nothing new."""
        return hashlib.sha256(self.content + self.status.encode()).hexdigest()

    @property
    def latest(self) -> dict[str, float]:
        """The last recorded value of every metric."""
        return {point.name: point.value for point in self.points}


def read_journal(path: Path | str) -> list[RunRecord]:
    """Returns the runs of a journal; a last line torn by a kill is left out."""
    path = Path(path)
    records: dict[str, RunRecord] = {}
    for number, line in enumerate(_read(path).split(b"\n")[:-1], start=1):
        try:
            record = _apply(parse_event(line), records, path)
        except MalformedError as error:
            raise InputError(
                f"not a journal line ({error}).", path, number, "Run the job again, or delete the journal."
            ) from None
        record.content += line + b"\n"
    return list(records.values())


def _read(path: Path) -> bytes:
    shown = escaped(str(path))
    if shown != str(path):
        raise InputError("the name is not plain text.", shown, advice="Rename the folder or the journal.")
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_BYTES:
                raise InputError("too large for a journal.", path, advice="Run the job again, or delete the journal.")
            return file.read(_LARGEST_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", path, advice="Check the path.") from None


def _apply(event: dict[str, Any], records: dict[str, RunRecord], path: Path) -> RunRecord:
    """Adds a checked event to the run it belongs to, and returns that."""
    kind, key, now = event["event"], event["run"], float(event["time"])
    if kind == "run":
        if key in records:
            raise MalformedError("the run has already begun")
        content = {name: event[name] for name in _NAMES}
        record = records[key] = RunRecord(journal=path, key=key, start=now, last=now, **content)
        return record
    if key not in records:
        raise MalformedError("the run has not begun")
    record = records[key]
    if record.end is not None:
        raise MalformedError("the run has already ended")
    record.last = now
    if kind == "metrics":
        step = event["step"]
        record.points.extend(Point(name, float(value), step, now) for name, value in event["values"].items())
    elif kind == "artifact":
        file = Path(os.path.normpath(path.parent / event["path"]))
        record.artifacts.append(Artifact(file, event["sha256"], event["size"], event["folder"]))
    else:
        record.status, record.error, record.end = event["status"], event["error"], now
    return record


def is_alive(record: RunRecord) -> bool:
    """Returns whether the process that writes the record can still add to it.

    A process of another machine cannot be asked: it counts as alive while its journal is young. If it
    turns out to be alive after all, the next sync sees the longer journal and corrects that.
    """
    if record.end is not None:
        return False
    if record.host != socket.gethostname():
        try:
            return time.time() - record.journal.stat().st_mtime < _REMOTE_QUIET_SECONDS
        except OSError:
            return False
    return process_is_alive(record.pid, record.process)


def process_is_alive(pid: int, start: str) -> bool:
    """Returns whether process ``pid`` of this machine lives and is the one that started at ``start``."""
    return is_running(pid) and (not start or process_start(pid) == start)


def left_by_dead(attempt: str, journal: str) -> bool:
    """Returns whether an attempt of this machine has lost its process or its journal; of others we know nothing."""
    host, pid, start = (*attempt.rsplit(":", 3), "", "", "")[:3]
    if host != socket.gethostname() or _PID.fullmatch(pid) is None:
        return False
    return not Path(journal).is_file() or not process_is_alive(int(pid), start)


def find_journals(results: Path, preset: str | None = None, skipped: list[str] | None = None) -> list[Path]:
    """Returns the journals under a results folder, or under one preset of it, in a fixed order.

    A folder that cannot be read is an error, or with ``skipped`` a line that is added to it.
    """
    if not results.is_dir():
        raise InputError("no such results folder.", results, advice="Run the pipeline first or give --results.")
    folder = results
    if preset is not None:
        presets = [child.name for child in results.iterdir() if child.is_dir()]
        if preset not in presets:
            near = nearest(preset, presets)
            raise InputError(f"no results of preset {preset!r}{near}.", results, advice="Run it first.")
        folder = results / preset

    def unreadable(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # a job that runs has removed it meanwhile
        advice = "Give read permission, or move it out of the results."
        problem = InputError(f"cannot be read ({error.strerror}).", escaped(str(error.filename)), advice=advice)
        if skipped is None:
            raise problem
        skipped.append(str(problem))

    return sorted(_journals_below(folder, unreadable))


def _journals_below(top: Path, unreadable: Callable[[OSError], None]) -> Iterator[Path]:
    """Yields everything named like a journal, so that files that are not journals are reported."""
    for folder, folders, files in os.walk(top, onerror=unreadable):
        if FILES in folders and Path(folder) == top:
            folders.remove(FILES)
        for name in (*folders, *files):
            if name.endswith(SUFFIX):
                yield Path(folder, name)
