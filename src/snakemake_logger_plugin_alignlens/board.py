"""What is known of a run from the records of Snakemake: jobs that run, jobs that are done, jobs that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import WARNING, LogRecord
from pathlib import Path
from typing import Any

_LAST_LINES = 10
_LAST_BYTES = 20_000
# What Snakemake says before the first job, and what the line tells better.
_CHATTER = (
    "Assuming unrestricted",
    "Building DAG",
    "Conda environments: ignored",
    "Execute ",
    "Group jobs: inactive",
    "Select jobs",
    "Singularity containers: ignored",
    "Using shell",
    "host: ",
)
_COUNTED = ("job_started", "progress", "resources_info", "rulegraph", "run_info", "workflow_started")


@dataclass(frozen=True)
class Job:
    """A job that runs."""

    name: str
    """The rule and its wildcards: ``train demo/xa-xb/lstm/1``."""
    started: float
    works: bool
    """A target that only collects others does not."""


class Board:
    """Takes one record after the other, and says what is worth a line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.running: dict[int, Job] = {}
        self._clock = clock
        self._started = self._spoke = clock()
        self._done = self._total = 0

    def lines(self, record: LogRecord, text: str, every_job: bool) -> list[str]:
        """Returns the lines to print for a record; ``text`` is what Snakemake would print."""
        event = str(getattr(record, "event", None) or "")
        lines = self._of_job(event, record, every_job)
        if lines is None:
            passes = event not in _COUNTED and text and not (text.startswith(_CHATTER) and record.levelno < WARNING)
            lines = [text] if passes else []
        if lines:
            self._spoke = self._clock()
        return lines

    def _of_job(self, event: str, record: Any, every_job: bool) -> list[str] | None:
        """Returns the lines for a record about jobs; None if it is about something else."""
        if event == "run_info":
            self._total = record.stats.get("total", self._total)
            return [f"{self._total} jobs"] if not self.running and not self._done else []
        if event == "progress":
            self._done, self._total = record.done, record.total
            return [f"{self._count()} all done"] if record.done == record.total else []
        if event == "job_info":
            name = " ".join([record.rule_name, "/".join(str(value) for value in record.wildcards.values())])
            self.running[record.jobid] = Job(name.strip(), self._clock(), record.shellcmd is not None)
            return []
        if event == "job_finished":
            job = self.running.pop(record.job_id, None)
            self._done += 1
            return [f"{self._count()} {self._described(job)}"] if every_job and job and job.works else []
        if event == "job_error":
            job = self.running.pop(record.jobid, None)
            return [f"failed: {self._described(job) if job else record.rule_name}", *_ends_of(record.log)]
        return None

    def line(self, width: int | None = None) -> str:
        """Returns how far the run is and what runs, those that run longest first."""
        jobs = sorted((job for job in self.running.values() if job.works), key=lambda job: job.started)
        line = f"{self._count()} {' · '.join(map(self._described, jobs))}"
        return line if width is None or len(line) <= width else f"{line[: width - 1]}…"

    def silent_for(self, seconds: float) -> bool:
        """Returns whether nothing was worth a line for so long."""
        return self._clock() - self._spoke >= seconds

    def _count(self) -> str:
        """Returns ``[ 12/130]  4:05``: jobs done, jobs in all, time."""
        total = str(self._total)
        return f"[{self._done:>{len(total)}}/{total}] {_clock_time(self._clock() - self._started):>5}"

    def _described(self, job: Job) -> str:
        return f"{job.name} ({_clock_time(self._clock() - job.started)})"


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _ends_of(logs: Iterable[str]) -> list[str]:
    """Returns the names of log files, each with its last lines."""
    lines = []
    for name in logs:
        try:
            content = Path(name).read_bytes()[-_LAST_BYTES:].decode(errors="replace").splitlines()
        except OSError:
            content = []
        lines += [f"  {name}:", *(f"    {line}" for line in content[-_LAST_LINES:])]
    return lines
