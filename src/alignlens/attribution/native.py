"""Compiled steps: C that was built when alignlens was installed, found again and loaded."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from pathlib import Path

import torch

_log = logging.getLogger("attribution")


@cache
def native(folder: Path, what: str) -> ctypes.CDLL | None:
    """Returns the library built of ``kernels/`` in a folder, for this processor.

    None, and a word about ``what`` takes longer, where it was not built.
    """
    newest = max((path.stat().st_mtime for path in (folder / "kernels").glob("*.[ch]")), default=0.0)
    why = "were not built"
    for name in ("_kernels_avx2", "_kernels")[not _has_avx2() :]:
        for path in folder.glob(f"{name}.*so"):  # of any Python: nothing of it is used in there
            if path.stat().st_mtime < newest:
                why = "are older than their source"
                continue
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:  # of another machine that shares this folder
                why = f"cannot be loaded ({error})"
    _log.warning("compiled steps %s: %s longer; make install builds them", why, what)
    return None


def _has_avx2() -> bool:
    return torch.backends.cpu.get_cpu_capability().startswith("AVX")  # AVX2 or AVX512, never less
