"""``make drills``: tries what must not happen, and writes the table of ``docs/reliability.md``.

    python tests/drills/run.py                          all drills, the table to the terminal
    python tests/drills/run.py --group damage --seed 7  one group, with other damage
    python tests/drills/run.py --fast                   a sample that takes less than a minute
    python tests/drills/run.py --only 'translate --out' those whose name has this in it

Exits with 1 if a drill is not clean.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import bad_input
import damage
import disk
import kills
import security
import table
import tracker
from bench import Bench
from harness import GROUPS, Drill, SkippedError, run_drill

if TYPE_CHECKING:
    from collections.abc import Iterator

MAKERS = {
    "bad input": bad_input.drills,
    "damage": damage.drills,
    "kills": kills.drills,
    "disk": disk.drills,
    "tracker": tracker.drills,
    "security": security.drills,
}
FAST_PER_GROUP = {"bad input": 40, "damage": 20, "kills": 4, "disk": 4, "tracker": 4, "security": 4}
_QUIET = ("MLFLOW", "ALIGNLENS", "SNAKEMAKE")


@dataclass(frozen=True)
class Result:
    """What became of a drill."""

    group: str
    name: str
    problems: list[str]
    skipped: str
    seconds: float


def main(arguments: list[str] | None = None) -> int:
    """Runs drills; returns 1 if one is not clean."""
    args = _parser().parse_args(arguments)
    if args.bench:
        _prepare_process(tracking=False)
        Bench.build(args.bench)
        return 0
    groups = args.group or list(GROUPS)
    results = run_all(groups, args.seed, args.fast, args.jobs, args.only, args.verbose, args.built)
    if args.out:
        table.write(args.out, results, args.seed)
    print(table.markdown(results, args.seed))
    return 1 if any(result.problems for result in results) else 0


def run_all(
    groups: list[str], seed: int, fast: bool, jobs: int, only: str, verbose: bool, built: Path | None
) -> list[Result]:
    """Builds the bench if there is none, runs the drills of some groups and returns their outcomes."""
    _prepare_process("tracker" in groups)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the folder goes, too
    place = Path(tempfile.mkdtemp(prefix="alignlens-drills-"))
    place.chmod(0o755)
    try:
        bench = Bench(built.resolve()) if built else Bench.build(place / "bench")
        drills = [drill for group in groups for drill in _made(bench, group, seed, fast) if only in drill.name]
        found = []
        with multiprocessing.get_context("fork").Pool(jobs, _start_worker, (drills, bench, place)) as pool:
            for result in pool.imap(_run_one, range(len(drills))):
                found.append(result)
                if verbose or result.problems:
                    state = "; ".join(result.problems) or result.skipped or "clean"
                    print(f"{result.group}: {result.name} ({result.seconds:.1f} s): {state}", flush=True)
        return found
    finally:
        for folder in place.rglob("*"):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o755)
        shutil.rmtree(place, ignore_errors=True)


def _prepare_process(tracking: bool) -> None:
    """Gives this process the environment of a user who has set nothing, and all libraries."""
    for name in [name for name in os.environ if name.startswith(_QUIET)]:
        del os.environ[name]
    os.environ.update(OMP_NUM_THREADS="1", MLFLOW_DISABLE_TELEMETRY="true", PYTHONPATH=os.pathsep.join(sys.path))
    preload(tracking)


def preload(tracking: bool) -> None:
    """Loads once what hundreds of children need. Nothing is computed here: threads do not survive a fork."""
    import torch

    import alignlens.aligners.thot_models
    import alignlens.attribution.corpus
    import alignlens.decoding.translate
    import alignlens.report.page
    import alignlens.subwords.spans
    import alignlens.training.assembly  # noqa: F401

    torch.set_num_threads(1)
    if tracking:
        os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
        import sqlalchemy  # noqa: F401


def _made(bench: Bench, group: str, seed: int, fast: bool) -> Iterator[Drill]:
    drills = list(MAKERS[group](bench, seed))
    names = Counter(drill.name for drill in drills)
    if twice := [name for name, count in names.items() if count > 1]:
        raise SystemExit(f"drills: two are called {twice[0]!r}")
    if not fast:
        yield from drills
        return
    light = [drill for drill in drills if not drill.heavy]
    chosen = set(random.Random(seed).sample(range(len(light)), min(FAST_PER_GROUP[group], len(light))))
    yield from (drill for place, drill in enumerate(light) if place in chosen)


_STATE: tuple[list[Drill], Bench, Path]


def _start_worker(drills: list[Drill], bench: Bench, place: Path) -> None:
    global _STATE
    _STATE = drills, bench, place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run_one(number: int) -> Result:
    drills, bench, place = _STATE
    drill = drills[number]
    folder = place / str(number)
    started = time.monotonic()
    problems, skipped = [], ""
    try:
        folder.mkdir()
        bench.copy(folder)
        problems = run_drill(drill, folder)
    except SkippedError as reason:
        skipped = str(reason)
    except (OSError, ValueError, RuntimeError, LookupError, subprocess.SubprocessError, sqlite3.Error):
        problems = [f"the drill itself failed: {traceback.format_exc().strip().splitlines()[-1]}"]
        traceback.print_exc()
    finally:
        for path in (folder, folder.with_name(f"{folder.name}-reference")):
            shutil.rmtree(path, ignore_errors=True)
    return Result(drill.group, drill.name, problems, skipped, time.monotonic() - started)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group, repeatable")
    parser.add_argument("--seed", type=int, default=1, help="of damage, moments and samples (default 1)")
    parser.add_argument("--fast", action="store_true", help="a sample of every group")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="drills at once (default: all cores)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only drills whose name has this in it")
    parser.add_argument("--verbose", action="store_true", help="name every drill, not only those that are not clean")
    parser.add_argument("--bench", type=Path, metavar="DIR", help="only run the small pipeline in this new folder")
    parser.add_argument("--built", type=Path, metavar="DIR", help="a folder of --bench, instead of a new one")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table between the markers of this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
