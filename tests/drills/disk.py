"""No room: a full disk, files that may not grow, a full standard output, for every verb that writes."""

from __future__ import annotations

import ctypes
import os
import resource
from typing import TYPE_CHECKING

from good import OUT_FILE, OUT_FOLDER, Good
from goods import GOODS
from harness import Drill, Outcome, SkippedError, calm, refused, run
from outputs import full_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench import Bench

GROUP = "disk"
_READ_ONLY = 1
_DETACH = 2


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields all of them; none depends on the seed."""
    for name, command, shell in full_output():
        yield Drill(GROUP, f"{name}: standard output is a full disk", command, refused, fresh=shell, heavy=True)
    for good in GOODS:
        outputs = [option for option, kind in good.takes.items() if kind in (OUT_FILE, OUT_FOLDER)]
        options = [option for option in outputs if option in good.arguments]
        for size in (0, 1, 512, 4096) if options else ():
            what = f"{good.name}: no file may have more than {size} bytes"
            yield Drill(GROUP, what, good.arguments, calm, limits={resource.RLIMIT_FSIZE: size})
        for option in options:
            for what, flags, data in (
                ("a full disk", 0, "size=4k"),
                ("a disk of 16 kB", 0, "size=16k"),
                ("a read-only disk", _READ_ONLY, ""),
            ):
                yield Drill(
                    GROUP, f"{good.name} {option}: {what}", _mounted(good, option, flags, data), calm, heavy=True
                )


def _mounted(good: Good, option: str, flags: int, data: str) -> Callable[[Path], Outcome]:
    """Returns a run with the output on a small disk of its own."""

    def mounted(folder: Path) -> Outcome:
        place = folder / "disk"
        place.mkdir()
        _mount(place, flags, data)
        try:
            if data == "size=4k":
                _fill(place)
            return run(good.with_value(option, "disk/new"), folder)
        finally:
            ctypes.CDLL(None).umount2(os.fsencode(place), _DETACH)

    return mounted


def _mount(place: Path, flags: int, data: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"drill", os.fsencode(place), b"tmpfs", flags, data.encode()) != 0:
        raise SkippedError(f"no disk of its own: {os.strerror(ctypes.get_errno())}")


def _fill(place: Path) -> None:
    try:
        (place / "full").write_bytes(bytes(1 << 20))
    except OSError:
        return
