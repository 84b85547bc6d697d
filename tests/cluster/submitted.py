"""The tiny workflow as Slurm jobs, disturbed as a cluster disturbs one: by kill, cancel and memory limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from slurm import Slurm
from throwaway import TINY, Workspace, environment, kill_group

ONE_TASK = {"translation": False, "classification": [], "toys": dict.fromkeys(TINY["studies"]["snell2021"]["toys"])}
ONE_TASK["toys"] |= {"control": TINY["studies"]["snell2021"]["toys"]["control"]}
# One model and one aligner: a job on a cluster starts Snakemake once for itself and once for each of its steps.
SMALL = {
    **TINY,
    "models": {**TINY["models"], "lstm": None},
    "aligners": [{"name": "fast_align", "text": "offline"}],
    "studies": {**TINY["studies"], "snell2021": {**TINY["studies"]["snell2021"], **ONE_TASK}},
}
#: Ends at the memory limit the first time, and has room enough the second.
HUNGRY = "model_encoder"
#: Runs for a while, after some others: Snakemake is killed when it runs first, and it is cancelled when it runs again.
CANCELLED = "rule_train_wildcards_tiny_xa-xb_transformer_1"
# After every look at the queue in vain the plugin waits for ten seconds more, which no option changes. A person can
# wait; a test of many short jobs cannot.
IMPATIENT = """
import asyncio
from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor

async def sleep(self):
    await asyncio.sleep(1)

Executor.sleep = sleep
main()
"""
OPTIONS = (
    "--workflow-profile",
    "profiles/slurm",
    "--slurm-init-seconds-before-status-checks",
    "2",
    # The node has fewer real cores than Slurm believes.
    "--set-threads",
    "attribute=1",
)
SHORT_OF_MEMORY = ("--set-resources", f"{HUNGRY}:mem_mb=150*attempt**4")
_PATIENCE_SECONDS = 1800.0


@dataclass
class Submission:
    """Runs Snakemake in a workspace against a Slurm, and remembers what happened to its jobs."""

    workspace: Workspace
    slurm: Slurm
    variables: dict[str, str] = field(default_factory=dict)
    snakemake: tuple[str, str] = ("-c", IMPATIENT)

    def start(self, *options: str) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, *self.snakemake, "--configfile", "tiny.yaml", *OPTIONS, *options],
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

    def kill_when(self, process: subprocess.Popen[str], comment: str) -> list[tuple[str, str, str]]:
        """Kills Snakemake as a power cut would as soon as a job runs; returns all jobs by then."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until and process.poll() is None:
            jobs = self.slurm.jobs()
            if any((state, text) == ("RUNNING", comment) for _, state, text in jobs):
                kill_group(process)
                return jobs
            time.sleep(0.2)
        raise AssertionError(f"never so far:\n{self.end_of_log()}")

    def cancel(self, comment: str, process: subprocess.Popen[str], before: list[tuple[str, str, str]]) -> str:
        """Cancels a job that is not among those before as soon as it runs; returns its number."""
        known = {number for number, _, _ in before}
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until and process.poll() is None:
            for number, state, text in self.slurm.jobs():
                if state == "RUNNING" and text == comment and number not in known:
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
