"""Compiled steps: finds and loads the C code that was built when alignlens was installed."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from pathlib import Path

import torch

_log = logging.getLogger("attribution")
#: Endings of built files, and the instruction sets that they use.
LEVELS = {"_avx512": "AVX-512", "_avx2": "AVX2", "": "any processor"}


@cache
def native(folder: Path, what: str) -> ctypes.CDLL | None:
    """Returns the library built of ``kernels/`` in a folder, for this processor.

    None, with a warning that ``what`` takes longer, if it was not built.
    """
    newest = max((path.stat().st_mtime for path in (folder / "kernels").glob("*.[ch]")), default=0.0)
    why = "were not built"
    for name in (f"_kernels{level}" for level in levels()):
        for path in folder.glob(f"{name}.*so"):  # of any Python: nothing of it is used in there
            if path.stat().st_mtime < newest:
                why = "are older than their source"
                continue
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:  # built on another machine that shares this folder
                why = f"cannot be loaded ({error})"
    _log.warning("compiled steps %s: %s longer; make install builds them", why, what)
    return None


def levels() -> tuple[str, ...]:
    """Returns the names of instruction sets that this processor has, the best first; every one has the last."""
    # torch's word, so that a user who turns instructions off for torch (ATEN_CPU_CAPABILITY) turns ours off as well.
    best = torch.backends.cpu.get_cpu_capability()
    known = {"AVX512": ("_avx512", "_avx2", ""), "AVX2": ("_avx2", "")}
    return known.get(best, ("",))


def level_of(library: ctypes.CDLL) -> str:
    """Returns the name of the instruction set that a library was built for."""
    stem = Path(library._name).name.partition(".")[0]
    return LEVELS[stem.removeprefix("_kernels")]
