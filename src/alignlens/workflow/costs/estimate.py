"""What a configuration costs: core hours, GPU hours and disk of its jobs (``jobs``), added up by stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

STAGES = (
    "data",
    "subwords",
    "aligners",
    "imported models",
    "training",
    "translation",
    "attribution",
    "links and scores",
    "encoders and costs",
    "learning",
    "studies and report",
)


class Job(NamedTuple):
    """One job of Snakemake."""

    stage: str
    rule: str
    name: str
    core_seconds: float
    bytes: float = 0.0
    gpu_seconds: float | None = None  # of the same job on a GPU, where it can use one
    work_bytes: float = 0.0  # while it runs
    threads: int = 1


class Total(NamedTuple):
    """Some jobs together."""

    jobs: int
    core_hours: float
    gpu_hours: float
    bytes: float

    @classmethod
    def of(cls, jobs: list[Job]) -> Total:
        """Returns the sum."""
        return cls(
            len(jobs),
            sum(job.core_seconds for job in jobs) / 3600,
            sum(job.gpu_seconds or 0.0 for job in jobs) / 3600,
            sum(job.bytes for job in jobs),
        )


@dataclass(frozen=True)
class Estimate:
    """All jobs of a plan, and what is assumed of them, in words."""

    jobs: tuple[Job, ...]
    assumed: tuple[str, ...]

    def rules(self) -> Counter[str]:
        """Returns the number of jobs of every rule."""
        return Counter(job.rule for job in self.jobs)

    def stages(self) -> dict[str, Total]:
        """Returns the sums of all stages that have jobs, in order."""
        by_stage = {stage: [job for job in self.jobs if job.stage == stage] for stage in STAGES}
        return {stage: Total.of(jobs) for stage, jobs in by_stage.items() if jobs}

    def total(self) -> Total:
        """Returns the sum of all jobs."""
        return Total.of(list(self.jobs))

    def core_hours_beside_gpus(self) -> float:
        """Returns the core hours of what is left if every job that can use a GPU does."""
        return sum(job.core_seconds for job in self.jobs if job.gpu_seconds is None) / 3600

    def longest(self) -> Job:
        """Returns the job that takes longest by itself on cores."""
        return max(self.jobs, key=lambda job: job.core_seconds / job.threads)

    def work_bytes(self) -> float:
        """Returns the disk that all jobs need while they run, were they to run at once."""
        return sum(job.work_bytes for job in self.jobs)

    def as_json(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        longest = self.longest()
        return {
            "stages": {stage: total._asdict() for stage, total in self.stages().items()},
            "total": self.total()._asdict(),
            "core_hours_beside_gpus": self.core_hours_beside_gpus(),
            "work_bytes": self.work_bytes(),
            "longest": longest._asdict(),
            "rules": dict(self.rules()),
            "assumed": list(self.assumed),
        }
