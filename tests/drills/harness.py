"""One drill: a folder is prepared, a command is run in it, and what it did is compared with what is promised.

A command runs in a forked child of a process that has loaded all libraries, so that hundreds of drills take minutes;
a child that crashes takes nobody with it. Drills that need a process of its own start one (``fresh``).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GROUPS = ("bad input", "damage", "kills", "disk", "tracker", "security")
SECONDS = 120.0
"""A command that takes longer hangs."""
_MEMORY = 3 << 30
_ONE_LINE = 2000
_DIE_WITH_PARENT = 1
_CAPABILITIES = 0x20080522  # the version of the interface
_OVERRIDES = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
# What may stand before the one line: a logger (``alignlens.cli.train: ...``, its further lines indented), progress
# (``extract: 3/8 methods``), and warnings, each a line of its own.
_TALK = re.compile(
    r"^(  |(?!alignlens[: ]|usage|error|fatal|terminate)[a-z][\w. ]*: |alignlens[\w -]*: (warning|note): )"
)


class SkippedError(Exception):
    """This machine cannot do the drill; the text says why."""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    """The exit code; below zero, the signal that ended it."""
    out: bytes
    err: str
    seconds: float
    folder: Path
    before: Mapping[str, str]
    after: Mapping[str, str]
    arguments: Sequence[str] = ()

    @property
    def lines(self) -> list[str]:
        """What was said on stderr, without what progress and loggers say."""
        return [line for line in self.err.splitlines() if line.strip() and not _TALK.match(line)]

    @property
    def lost(self) -> list[str]:
        """What was there before and is now gone or different."""
        return [name for name, content in self.before.items() if self.after.get(name) != content]

    @property
    def new(self) -> list[str]:
        """New files, links, pipes; an empty folder is none."""
        return sorted(name for name in self.after.keys() - self.before.keys() if self.after[name] != "folder")

    @property
    def litter(self) -> list[str]:
        """What is new and was not asked for; of several outputs, those before the wrong one may be complete."""
        return [name for name in self.new if not name.endswith(".journal.jsonl") and not self._asked_for(name)]

    def _asked_for(self, name: str) -> bool:
        path = Path(name)
        seal = path.name.endswith(".sha256") and path.name.startswith(".")
        wanted = path.with_name(path.name[1:].removesuffix(".sha256")) if seal else path
        hidden = any(part.startswith(".") and part.endswith(".tmp") for part in wanted.parts)
        return not hidden and any(wanted.is_relative_to(argument) for argument in self.arguments if argument)


@dataclass(frozen=True)
class Drill:
    """A command with what is done before it and what must hold after it."""

    group: str
    name: str
    command: Sequence[str] | Callable[[Path], Outcome]
    """Arguments of ``alignlens``, or a function of the folder that does it all."""
    expectation: Callable[[Outcome], list[str]]
    setup: Callable[[Path], None] | None = None
    fresh: Sequence[str] = ()
    """A shell that starts the command as a process of its own: ``"$@" >&-``, say."""
    anybody: bool = False
    """Run it as somebody who may not write where the mode of a folder forbids it."""
    limits: Mapping[int, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    heavy: bool = False
    """Not in the fast sample."""


def snapshot(folder: Path) -> dict[str, str]:
    """Returns every name below a folder with what it is: a digest, a link's target, or its kind."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(kind):
            found[name] = f"link to {path.readlink()}"
        elif stat.S_ISDIR(kind):
            found[name] = "folder"
        elif stat.S_ISREG(kind):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = f"{stat.S_IFMT(kind):o} {path.lstat().st_rdev}"
    return found


def refused(outcome: Outcome) -> list[str]:
    """The promise for bad input: one line, exit code 2, no traceback, everything as it was."""
    taken = [f"done, and {_kept(outcome)[0]}" if _kept(outcome) else "done as if it were right"]
    return taken if outcome.code == 0 else calm(outcome)


def calm(outcome: Outcome) -> list[str]:
    """The promise where both is right: done, or refused in one line with everything as it was."""
    if outcome.code == 0:
        return no_crash(outcome)
    return [*(no_crash(outcome) or _one_line(outcome)), *_kept(outcome)]


def _one_line(outcome: Outcome) -> list[str]:
    if len(outcome.lines) != 1:
        return [f"{len(outcome.lines)} lines instead of one"]
    if not outcome.lines[0].startswith("alignlens") or len(outcome.lines[0]) > _ONE_LINE:
        return ["a line that is not ours, or endless"]
    return []


def _kept(outcome: Outcome) -> list[str]:
    """What was there must be as it was; a command that fails leaves nothing that nobody asked for."""
    lost = [f"changed or lost: {', '.join(outcome.lost[:3])}"] if outcome.lost else []
    return lost + ([f"left behind: {', '.join(outcome.litter[:3])}"] if outcome.litter and outcome.code else [])


def no_crash(outcome: Outcome) -> list[str]:
    """What never may happen."""
    problems = []
    if "Traceback (most recent call last)" in outcome.err:
        problems.append(f"traceback: {outcome.err.strip().splitlines()[-1][:100]}")
    elif outcome.code not in (0, 2):
        problems.append("hangs" if outcome.code == -signal.SIGALRM else f"exit code {outcome.code}")
    return problems


def works(*checks: Callable[[Outcome], str | None]) -> Callable[[Outcome], list[str]]:
    """The promise for good input: exit code 0, what was there is kept, and what the checks ask."""

    def judged(outcome: Outcome) -> list[str]:
        problems = no_crash(outcome)
        if outcome.code != 0:
            problems = problems or [f"exit code {outcome.code} instead of 0: {''.join(outcome.lines[-1:])[:160]}"]
        else:
            problems += [told for check in checks if (told := check(outcome))]
        return problems

    return judged


def run_drill(drill: Drill, folder: Path) -> list[str]:
    """Returns what is wrong: nothing if the drill is clean."""
    if drill.setup is not None:
        drill.setup(folder)
    outcome = drill.command(folder) if callable(drill.command) else run(drill.command, folder, drill)
    return drill.expectation(outcome)


def run(arguments: Sequence[str], folder: Path, how: Drill | None = None) -> Outcome:
    """Runs ``alignlens`` with these arguments in a folder to its end, or kills it when it hangs."""
    before = snapshot(folder)
    started = time.monotonic()
    if how is not None and how.fresh:
        code, out, err = _fresh(arguments, folder, how)
    else:
        child = start(arguments, folder, how)
        code, out, err = child.wait(how.seconds if how else SECONDS)
    return Outcome(code, out, err, time.monotonic() - started, folder, before, snapshot(folder), arguments)


class Child:
    """A running command in a session of its own; what it says comes through pipes, which no limit on files stops."""

    def __init__(self, pid: int, streams: tuple[int, int]) -> None:
        self.pid, self._streams = pid, streams
        self._said = [b"", b""]
        for stream in streams:
            os.set_blocking(stream, False)

    def wait(self, seconds: float = SECONDS) -> tuple[int, bytes, str]:
        """Returns exit code, stdout and stderr; ``-SIGALRM`` if it had to be ended."""
        code = self.poll(seconds)
        if code is None:
            self.kill()
            code = -signal.SIGALRM
        out, err = self.said()
        return code, out, err

    def poll(self, seconds: float) -> int | None:
        """Returns the exit code if the command ends within some seconds."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._listen()
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                return None
            time.sleep(0.003)

    def kill(self) -> None:
        """Ends the command and all that it started, as a power cut would, and waits until it is gone."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def said(self) -> tuple[bytes, str]:
        """Returns stdout and stderr of a command that has ended."""
        self._listen()
        for stream in self._streams:
            os.close(stream)
        return self._said[0], self._said[1].decode(errors="replace")

    def _listen(self) -> None:
        for place, stream in enumerate(self._streams):
            with suppress(BlockingIOError):
                while block := os.read(stream, 1 << 16):
                    self._said[place] += block


def start(arguments: Sequence[str], folder: Path, how: Drill | None = None) -> Child:
    """Starts ``alignlens`` in a forked child."""
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(arguments, folder, how, (out[1], err[1]))
    for stream in (out[1], err[1]):
        os.close(stream)
    with suppress(OSError):  # both sides ask for it, so that it is there before anybody kills it
        os.setpgid(pid, pid)
    return Child(pid, (out[0], err[0]))


def _be_child(arguments: Sequence[str], folder: Path, how: Drill | None, streams: tuple[int, int]) -> NoReturn:
    code = 1
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.update(how.environment if how else {})
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
        for limit, value in (how.limits if how else {}).items():
            resource.setrlimit(limit, (value, resource.RLIM_INFINITY))
        if how and how.anybody:
            _give_up_rights()
        from alignlens.cli.main import main

        code = main(list(arguments))
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # as the interpreter does for what nobody catches
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _fresh(arguments: Sequence[str], folder: Path, how: Drill) -> tuple[int, bytes, str]:
    command = [*how.fresh, sys.executable, "-m", "alignlens", *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **how.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=how.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return -signal.SIGALRM, out, err.decode(errors="replace")
    return process.returncode, out, err.decode(errors="replace")


class _Rights(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _give_up_rights() -> None:
    """Makes root somebody to whom the mode of a file means something (capset without CAP_DAC_*)."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    rights = (_Rights * 2)()
    library = ctypes.CDLL(None)
    library.capget(header, rights)
    for name in ("effective", "permitted", "inheritable"):
        setattr(rights[0], name, getattr(rights[0], name) & ~_OVERRIDES)
    library.capset(header, rights)
