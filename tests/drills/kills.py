"""kill -9 at any moment, then the same command: the same bytes as if nothing had happened. Two at once: the same."""

from __future__ import annotations

import random
import shutil
import time
from typing import TYPE_CHECKING

import bench as bench_files
from harness import SECONDS, Child, Drill, Outcome, run, snapshot, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench import Bench

GROUP = "kills"
# The command, how often it is killed, and how often in a row before it may end.
_VERBS: dict[str, tuple[list[str], int, int]] = {
    "train": (bench_files.train(place="new", max_updates=40, validate_every=10), 12, 3),
    "masks": (bench_files.masks("new", 40), 6, 3),
    "attribute": (bench_files.attribute(out="new/scores"), 8, 2),
    "extract": (bench_files.extract(out="new/links"), 6, 2),
    "subwords train": (bench_files.subwords("new/subwords"), 6, 2),
    "subwords segment": (bench_files.segment("train", "source", "new"), 6, 2),
    "aligner": (bench_files.aligner("eflomal", place="new"), 6, 2),
    "data prepare": (bench_files.prepare("new/data"), 6, 2),
    "score-methods": (bench_files.score_methods("new/metrics.json"), 4, 2),
}

_KNOWN: dict[tuple[str, ...], tuple[dict[str, str], float]] = {}


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields kills at random moments, and pairs that run at once."""
    for verb, (command, times, rounds) in _VERBS.items():
        for number in range(times):
            draw = random.Random(f"{seed} {verb} {number}")
            shares = [draw.random() for _ in range(1 + number % rounds)]
            told = " and ".join(f"{100 * share:.0f} %" for share in shares)
            name = f"{verb}: killed at {told} of its time, {number}"
            yield Drill(GROUP, name, _killed(command, shares), _judged, heavy=verb in ("train", "masks") or number > 0)
    for verb, (command, _, _) in _VERBS.items():
        for number in range(2):
            delay = random.Random(f"{seed} {verb} twice {number}").random()
            name = f"{verb}: twice at once, the second at {100 * delay:.0f} %"
            yield Drill(GROUP, f"{name}, {number}", _twice(command, delay), _judged, heavy=True)
    command = _VERBS["train"][0]
    for number in range(3):
        yield Drill(
            GROUP, f"train: killed while a second waits, {number}", _first_killed(command, number), _judged, heavy=True
        )


def _judged(outcome: Outcome) -> list[str]:
    """What was found is told in the text of the outcome."""
    return outcome.err.splitlines() if outcome.code else []


def _result(folder: Path) -> dict[str, str]:
    """Returns what a command made below ``new``; journals tell times, so their bytes differ."""
    found = snapshot(folder / "new") if (folder / "new").exists() else {}
    return {
        name: what for name, what in found.items() if not name.endswith(".journal.jsonl") and not name.endswith(".lock")
    }


def _undisturbed(command: list[str], folder: Path) -> tuple[dict[str, str], float]:
    """Returns what the command makes, and how long it takes; it is run once for all drills."""
    key = tuple(command)
    if key not in _KNOWN:
        outcome = run(command, folder)
        if outcome.code != 0:
            raise RuntimeError(f"undisturbed, it fails: {outcome.err}")
        _KNOWN[key] = _result(folder), outcome.seconds
        shutil.rmtree(folder / "new")
    return _KNOWN[key]


def _told(folder: Path, wanted: dict[str, str], codes: list[int], errors: list[str]) -> Outcome:
    """Returns an outcome that says what is wrong."""
    problems = [f"exit code {code}: {error.strip()[-200:]}" for code, error in zip(codes, errors, strict=True) if code]
    found = _result(folder)
    different = sorted(name for name in wanted if found.get(name) != wanted[name])
    left = sorted(found.keys() - wanted.keys())
    problems += [f"other bytes: {different[0]}"] if different else []
    problems += [f"left behind: {left[0]}"] if left else []
    return Outcome(len(problems), b"", "\n".join(" ".join(text.split()) for text in problems), 0, folder, {}, {})


def _killed(command: list[str], shares: list[float]) -> Callable[[Path], Outcome]:
    def killed(folder: Path) -> Outcome:
        wanted, seconds = _undisturbed(command, folder)
        for share in shares:
            child = start(command, folder)
            if child.poll(share * seconds) is None:
                child.kill()
            child.said()
        outcome = run(command, folder)
        return _told(folder, wanted, [outcome.code], [outcome.err])

    return killed


def _twice(command: list[str], delay: float) -> Callable[[Path], Outcome]:
    """Both may end well; the second may also say in one line who is at it."""

    def twice(folder: Path) -> Outcome:
        wanted, seconds = _undisturbed(command, folder)
        first = start(command, folder)
        time.sleep(delay * seconds)
        second = start(command, folder)
        ends = [_end(first), _end(second)]
        if ends[1][0] == 2 and len(ends[1][1].strip().splitlines()) == 1:
            ends[1] = (0, "")
        return _told(folder, wanted, [code for code, _ in ends], [error for _, error in ends])

    return twice


def _first_killed(command: list[str], number: int) -> Callable[[Path], Outcome]:
    """A training whose parent died lives on; the next one starts, waits, and goes on when the first is killed."""

    def first_killed(folder: Path) -> Outcome:
        wanted, seconds = _undisturbed(command, folder)
        first = start(command, folder)
        time.sleep(0.3 * seconds)
        second = start(command, folder)
        time.sleep((0.1 + 0.15 * number) * seconds)
        if first.poll(0) is None:
            first.kill()
        first.said()
        code, error = _end(second)
        return _told(folder, wanted, [code], [error])

    return first_killed


def _end(child: Child) -> tuple[int, str]:
    code, _, error = child.wait(SECONDS)
    return code, error if code else ""
