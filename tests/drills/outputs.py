"""Where output goes: closed, full and broken standard output, pipes that somebody reads, folders without rights."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from bad_values import GROUP, calm_about, folders
from good import OUT_FILE, OUT_FOLDER
from goods import BY_NAME
from harness import SECONDS, Drill, Outcome, calm, no_crash, refused, snapshot, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CLOSED = ("bash", "-c", '"$@" >&-', "closed")
_FULL = ("bash", "-c", '"$@" >/dev/full', "full")
_GONE = ("bash", "-c", 'set -o pipefail; "$@" | true', "gone")


def _without_out(name: str) -> tuple[str, ...]:
    """Returns a command that works, without its output, which it then prints."""
    arguments = list(BY_NAME[name].arguments)
    place = arguments.index("--out")
    return tuple(arguments[:place] + arguments[place + 2 :])


_PRINTING = {
    "score": ("score", "--gold", BY_NAME["score"].value("--gold"), "--links", BY_NAME["score"].value("--links")),
    "bleu": BY_NAME["bleu"].arguments[:7],
    "symmetrize": BY_NAME["symmetrize"].arguments[:7],
    "aligner": _without_out("aligner stored"),
    "translate": BY_NAME["translate"].arguments[:5],
    "align": BY_NAME["align"].arguments[:9],
    "track list": BY_NAME["track list"].arguments,
    "help": ("--help",),
    "help of a verb": ("score", "--help"),
    "version": ("--version",),
}
_READ = ("score", "symmetrize", "reference", "bleu", "translate", "force", "align")


def drills() -> Iterator[Drill]:
    """Yields all of them."""
    for name, command in _PRINTING.items():
        yield Drill(GROUP, f"{name}: standard output closed", command, calm, fresh=_CLOSED, heavy=True)
        yield Drill(GROUP, f"{name}: nobody reads it", command, _quiet, fresh=_GONE, heavy=True)
    for name in _READ:
        good = BY_NAME[name]
        yield Drill(GROUP, f"{name} --out: a pipe that is read", _piped(good.with_value("--out", "pipe")), _arrived)
    for name, good in BY_NAME.items():
        for option, kind in good.takes.items():
            if kind in (OUT_FILE, OUT_FOLDER) and option in good.arguments:
                command = good.with_value(option, "closed/new")
                what = f"{name} {option}: a folder without rights"
                yield Drill(GROUP, what, command, refused, _closed_folder, anybody=True)


def full_output() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yields printing commands with a shell whose standard output is a full disk."""
    for name, command in _PRINTING.items():
        yield name, command, _FULL


def _quiet(outcome: Outcome) -> list[str]:
    """A reader that went away is no error, and nothing is to be said."""
    gone = outcome.code in (0, 141)
    return [*(no_crash(outcome) if not gone else []), *(["said something"] if outcome.lines else [])]


def _arrived(outcome: Outcome) -> list[str]:
    """A pipe is still one, and has got the output, or was refused."""
    nothing = outcome.code == 0 and not outcome.out
    return [*calm_about("pipe")(outcome), *(["nothing came out of it"] if nothing else [])]


def _closed_folder(folder: Path) -> None:
    folders("closed")(folder)
    (folder / "closed").chmod(0o555)


def _piped(command: list[str]) -> Callable[[Path], Outcome]:
    """Returns a run whose output is a pipe, read to its end."""

    def piped(folder: Path) -> Outcome:
        os.mkfifo(folder / "pipe")
        before = snapshot(folder)
        started = time.monotonic()
        reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        child = start(command, folder)
        content, code, end = b"", None, time.monotonic() + SECONDS
        while code is None and time.monotonic() < end:
            code = child.poll(0)
            with contextlib.suppress(BlockingIOError):
                content += os.read(reader, 1 << 16)
            time.sleep(0.002)
        os.close(reader)
        if code is None:
            child.kill()
            code = -signal.SIGALRM
        err = child.said()[1]
        return Outcome(code, content, err, time.monotonic() - started, folder, before, snapshot(folder))

    return piped
