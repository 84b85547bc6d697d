"""Failures of the operating system, memory and standard output, as one line each."""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

from alignlens.errors import AlignlensError

_ADVICE = {
    errno.ENOSPC: "Free disk space, then run the same command again.",
    errno.EDQUOT: "Free disk space, then run the same command again.",
    errno.EROFS: "Choose a writable place.",
    errno.EACCES: "Grant permission, or choose another place.",
    errno.EPERM: "Grant permission, or choose another place.",
    errno.EISDIR: "Name a file, not a folder.",
    errno.ENOTDIR: "A part of this path is a file, not a folder.",
    errno.EEXIST: "A part of this path is a file, not a folder.",
    errno.ENOENT: "Check the path.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ELOOP: "Its symlinks form a loop.",
    errno.EFBIG: "The file would be larger than allowed (ulimit -f).",
    errno.EMFILE: "Allow more open files (ulimit -n).",
    errno.ENOMEM: "Close other programs, or use a smaller input.",
    errno.EBADF: "It is closed; do not close it, or name a file.",
    errno.EIO: "The disk is failing; check the system log.",
}
_OTHERWISE = "Check the path and the machine."
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TORCH_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc", "alloc_cpu")
_LEAST_MEMORY = 1 << 30
_GROUPS = Path("/sys/fs/cgroup")


def one_line(text: str) -> str:
    """Returns a message without line breaks and other control characters, which file names may contain."""
    return _UNPRINTABLE.sub(lambda character: " " if character[0] in "\n\t" else repr(character[0])[1:-1], text).strip()


def explained(error: BaseException) -> str | None:
    """Returns the line for an error that is not our bug, or None if it is."""
    if isinstance(error, AlignlensError):
        return one_line(str(error))
    if isinstance(error, OSError) and error.errno is not None:
        where = "standard output" if error.filename is None else os.fsdecode(error.filename)
        problem = (error.strerror or "cannot be used").rstrip(".").lower()
        return one_line(f"{where or repr('')}: {problem}. {_ADVICE.get(error.errno, _OTHERWISE)}")
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _TORCH_MEMORY)
    ):
        return (
            "out of memory. Shorten or split the longest line, lower --batch-tokens, --beam or --samples, "
            "or use a machine with more memory."
        )
    return None


def limit_memory() -> None:
    """Makes an allocation that cannot be met fail at once; otherwise the kernel kills a process later."""
    available = _available_memory()
    if available is None:
        return
    limit = _used_memory() + max(available, _LEAST_MEMORY)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _available_memory() -> int | None:
    """Returns the bytes that this process may use: what the machine and its control group have left."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        left = [int(fields["MemAvailable"].split()[0]) + int(fields["SwapFree"].split()[0]) << 10]
    except (OSError, KeyError, ValueError):
        return None
    for group in _control_groups():
        # One without a limit says "max"; that of the whole machine says nothing.
        with suppress(OSError, ValueError):
            most, used = ((group / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
            left.append(int(most) - int(used))
    return min(left)


def _control_groups() -> list[Path]:
    """Returns the folders of the control group that this process is in, and of those around it."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                own = _GROUPS / line.removeprefix("0::/")
                return [own, *(parent for parent in own.parents if parent.is_relative_to(_GROUPS))]
    return [_GROUPS]


def _used_memory() -> int:
    """Returns the bytes that count against the limit already."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^VmData:\s*(\d+) kB", status, re.MULTILINE)
    return int(match[1]) << 10 if match else 0


def open_standard_streams() -> None:
    """Makes a closed stream one that fails when it is used; otherwise the next file to be opened takes its place."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free number: this one
    # The replacement is read-only: anything written fails, and is reported.
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open


def drop_output() -> None:
    """Lets the interpreter end in silence although its standard output cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
