"""The tiny workflow as Slurm jobs, disturbed as a cluster disturbs one: by kill, cancel and memory limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from slurm import Slurm
from throwaway import Workspace, environment, kill_group

#: Ends at the memory limit the first time, and has room enough the second.
HUNGRY = "model_encoder"
CANCELLED = "rule_train_wildcards_tiny_xa-xb_lstm_1"
OPTIONS = (
    "--workflow-profile",
    "profiles/slurm",
    # A person can wait for twenty seconds between two looks at the queue; a test of many short jobs cannot.
    "--slurm-init-seconds-before-status-checks",
    "2",
    "--set-resources",
    f"{HUNGRY}:mem_mb=150*attempt**4",
    # The node has two real cores, whatever Slurm believes.
    "--set-threads",
    "attribute=1",
)
_PATIENCE_SECONDS = 1800.0


@dataclass
class Submission:
    """Runs Snakemake in a workspace against a Slurm, and remembers what happened to its jobs."""

    workspace: Workspace
    slurm: Slurm
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "snakemake", "--configfile", "tiny.yaml", *OPTIONS, *options],
                cwd=self.workspace.folder,
                env={**environment(), **self.variables, **self.slurm.environment},
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        return self.workspace.folder / "submitted.log"

    def kill_when(self, process: subprocess.Popen[str], completed: int) -> list[tuple[str, str, str]]:
        """Kills Snakemake as a power cut would when so many jobs are done and others run; returns the jobs by then."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until and process.poll() is None:
            jobs = self.slurm.jobs()
            states = [state for _, state, _ in jobs]
            if states.count("COMPLETED") >= completed and "RUNNING" in states:
                kill_group(process)
                return jobs
            time.sleep(0.2)
        raise AssertionError(f"never so far:\n{self.end_of_log()}")

    def cancel(self, comment: str, process: subprocess.Popen[str]) -> str:
        """Cancels a job as soon as it runs; returns its number."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until and process.poll() is None:
            for number, state, text in self.slurm.jobs():
                if state == "RUNNING" and text == comment:
                    assert self.slurm.run("scancel", number).returncode == 0
                    return number
            time.sleep(0.2)
        raise AssertionError(f"{comment} never ran:\n{self.end_of_log()}")

    def wait(self, process: subprocess.Popen[str]) -> None:
        status = process.wait(_PATIENCE_SECONDS)
        assert status == 0, self.end_of_log()

    def end_of_log(self) -> str:
        return "\n".join(self.log.read_text().splitlines()[-60:])


def living_children_of(folder: Path) -> list[str]:
    """The command lines of processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if (entry / "cwd").resolve() == folder:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found
