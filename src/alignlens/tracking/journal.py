"""The record of truth of a job: one JSON object per line beside its output.

A job only appends to its journal; MLflow is filled from journals (``alignlens track sync``) and can be made
anew from them. A journal that cannot be written is therefore an error of the job, never silently lost.
Standard library only, so that a short step pays nothing for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import resource
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from alignlens import __version__
from alignlens.errors import InputError
from alignlens.tracking.events import as_line, is_folder
from alignlens.tracking.records import FAILED, FINISHED, KILLED, RunRecord, is_alive, process_start, read_journal
from alignlens.tracking.terminating import Terminated, unwinding
from alignlens.tracking.watch import start_live

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = ["Journal", "Run", "RunRecord", "is_alive", "read_journal", "redacted", "run_key"]

_KEY_LENGTH = 16
_ERROR_CHARACTERS = 2000
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


def redacted(text: str) -> str:
    """Returns ``text`` with the ``user:password@`` of every address in it hidden."""
    return _CREDENTIALS.sub("***@", text)


def canonical(value: object) -> str:
    """Returns JSON that is equal for equal values: sorted keys, no spaces; paths become text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a journal holds text, numbers, lists and mappings, not {type(value).__name__}: {value!r}")


def run_key(experiment: str, identity: Mapping[str, Any]) -> str:
    """Returns the permanent key of a job: a hash of what it is, not of when it ran."""
    text = canonical({"experiment": experiment, "identity": dict(identity)})
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_KEY_LENGTH]


class Run:
    """One run of a journal: metrics with steps, and files."""

    def __init__(self, journal: Journal, key: str) -> None:
        self._journal, self.key = journal, key
        self._names: set[str] = set()

    def metric(self, name: str, value: float, step: int = 0) -> None:
        """Records one finite number."""
        self.metrics({name: value}, step)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Records several finite numbers of the same step."""
        numbers = {name: float(value) for name, value in values.items()}
        for name, number in numbers.items():
            if not math.isfinite(number):
                raise InputError(
                    f"metric {name!r} is {number} at step {step}.",
                    self._journal.path or "journal",
                    advice="A result must be a finite number; look for a diverged model or an empty input.",
                )
        if numbers:
            self._names.update(numbers)
            self._journal.write("metrics", self.key, step=int(step), values=numbers)

    def artifact(self, path: Path | str, folder: str = "") -> None:
        """Records a finished file by path, size and checksum; the file itself stays where it is."""
        path = Path(path)
        if not is_folder(folder):
            raise ValueError(f"not a folder inside the files of a run: {folder!r}")
        if self._journal.path is None:
            return
        if not path.is_file():
            raise InputError("no such file to record.", path, advice="Record a file after it was written.")
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        # Relative to the journal, so that a results folder may be moved as a whole.
        relative = os.path.relpath(path.resolve(), self._journal.path.parent.resolve())
        self._journal.write(
            "artifact", self.key, path=relative, sha256=checksum, size=path.stat().st_size, folder=folder
        )

    def end(self, status: str, error: str, usage: Mapping[str, float]) -> None:
        """Closes the run; ``usage`` does not replace what the job measured under the same name."""
        self.metrics({name: value for name, value in usage.items() if name not in self._names})
        self._journal.write("end", self.key, status=status, error=error)


class Journal:
    """The runs of one job; leaving the block ends them all with the job's status.

    ``Journal(None)`` accepts everything and writes nothing. With ``live_uri`` a side process shows the runs in
    that MLflow store while the job goes on; the job neither waits for it nor fails with it.
    At the end every run gets ``seconds`` and ``peak_memory_mb`` of the whole job, also where one job makes
    several runs.
    """

    def __init__(self, path: Path | None, live_uri: str | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._live_uri = live_uri
        self._runs: dict[str, Run] = {}
        self._descriptor: int | None = None
        self._open = False
        self._started = 0.0
        self._signals = ExitStack()

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._open = True
        if self.path is not None:
            try:
                place = Path(os.path.realpath(self.path))  # A symlink stays a symlink.
                place.parent.mkdir(parents=True, exist_ok=True)
                # A new file, not the old one emptied: a job that outlived its killed workflow may still write there.
                if place.is_file():
                    place.unlink()
                self._descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise self._unwritable(error) from None
            self._signals.enter_context(unwinding())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status, text = _outcome(error)
        usage = {"seconds": time.monotonic() - self._started, "peak_memory_mb": _peak_memory_mb()}
        try:
            for run in self._runs.values():
                run.end(status, text, usage)
        except InputError:
            if error is None:  # otherwise the job's own error takes precedence
                raise
        finally:
            self._open = False
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            self._signals.close()

    def run(
        self,
        *,
        experiment: str,
        name: str,
        identity: Mapping[str, Any],
        tags: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        group: str | None = None,
    ) -> Run:
        """Returns a new run; what it is (``experiment`` and ``identity``) may occur once in a journal."""
        key = run_key(experiment, identity)
        if key in self._runs:
            raise ValueError(f"two runs of one journal have the same identity: {dict(identity)}")
        self.write(
            "run",
            key,
            experiment=experiment,
            name=as_line(name),
            group=None if group is None else as_line(group),
            tags=dict(tags or {}),
            params=dict(params or {}),
            identity=dict(identity),
            pid=os.getpid(),
            process=process_start(os.getpid()),
            host=socket.gethostname(),
            version=__version__,
            commit=as_line(os.environ.get("ALIGNLENS_COMMIT", "")),
        )
        run = self._runs[key] = Run(self, key)
        if self._live_uri is not None and len(self._runs) == 1:
            self.show_live(self._live_uri)
        return run

    def show_live(self, uri: str) -> None:
        """Starts the side process now, for a job that only later turns out to take long."""
        if self.path is not None:
            start_live(self.path, uri)

    def write(self, event: str, key: str, **content: object) -> None:
        """Appends one whole line, or nothing, and hands it to the operating system."""
        if not self._open:
            raise ValueError("the journal is not open; use it as a context manager")
        text = canonical({"event": event, "run": key, "time": time.time(), **content})
        line = text.encode(errors="replace") + b"\n"  # a path may hold bytes that are no UTF-8
        if self._descriptor is None:
            return
        before = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, before)
                os.lseek(self._descriptor, before, os.SEEK_SET)
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"the journal cannot be written ({error.strerror}).",
            self.path or "journal",
            advice="Free disk space or grant write permission, then run the same command again.",
        )


def _outcome(error: BaseException | None) -> tuple[str, str]:
    """Returns status and one-line text for the exception that left the block."""
    if error is None or (type(error) is SystemExit and error.code in (None, 0)):
        return FINISHED, ""
    if isinstance(error, KeyboardInterrupt):
        return KILLED, "interrupted"
    if isinstance(error, Terminated):
        return KILLED, "terminated by SIGTERM"
    text = as_line(redacted(str(error)), _ERROR_CHARACTERS)
    return FAILED, f"{type(error).__name__}: {text}" if text else type(error).__name__


def _peak_memory_mb() -> float:
    """Returns the largest resident size so far of this process or of one of its finished children."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
