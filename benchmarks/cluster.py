"""What a job costs on a cluster: the tiny workflow of the tests through Slurm and on this machine alone, in one run.

Brings up a Slurm of its own as the tests do (root, and the packages of tests/cluster/install.sh) and takes it down.

python benchmarks/cluster.py [--rounds 1] [TARGET ...]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path += [str(PROJECT / "tests" / "cluster"), str(PROJECT / "tests" / "workflow")]

from slurm import CPUS, Slurm, why_not  # noqa: E402
from submitted import Submission  # noqa: E402
from throwaway import make_workspace  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="only these of the tiny workflow")
    args = parser.parse_args()
    if reason := why_not():
        sys.exit(f"benchmarks/cluster.py: {reason}")
    local, submitted, watching, jobs = [], [], [], 0
    with tempfile.TemporaryDirectory(prefix="alignlens-") as scratch:
        slurm = Slurm(Path(scratch) / "slurm")
        try:
            started = time.monotonic()
            slurm.start()
            print(f"Slurm up after {time.monotonic() - started:.0f} s", file=sys.stderr)
            for number in range(args.rounds):
                workspace = make_workspace(Path(scratch) / f"local{number}", PROJECT)
                started = time.monotonic()
                workspace.snakemake("--cores", "all", "--", *args.targets)
                local.append(time.monotonic() - started)
                workspace = make_workspace(Path(scratch) / f"cluster{number}", PROJECT)
                submission = Submission(workspace, slurm, snakemake=("-m", "snakemake"))
                before = len(slurm.jobs())
                started, used = time.monotonic(), _used()
                submission.wait(submission.start("--", *args.targets))
                submitted.append(time.monotonic() - started)
                watching.append(_used() - used)
                jobs = len(slurm.jobs()) - before
                assert submission.workspace.stable_files() == workspace.stable_files()
            steps = len(list(workspace.results.glob("benchmarks/**/*.tsv"))) + (workspace.results / "report").exists()
        finally:
            slurm.stop()
    here, there = statistics.median(local), statistics.median(submitted)
    print(f"{steps} steps, {jobs} Slurm jobs on one node of {CPUS} slots; same tables")
    print(f"this machine alone      {here:6.0f} s")
    print(f"through Slurm           {there:6.0f} s   {there / here:4.1f} x   {(there - here) / jobs:4.1f} s more a job")
    line = f"of that, CPU seconds of Snakemake, its clients and the sync at the end: {statistics.median(watching):.0f}"
    print(line)


def _used() -> float:
    """Returns the CPU seconds of finished children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
