"""Archives of named arrays (``.npz``), written so that equal arrays are equal bytes, and never trusted when read."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.errors import InputError
from alignlens.io.atomic import atomic_path
from alignlens.io.seals import verify

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

# What numpy raises for damage; a damaged number may request any amount of memory.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    SyntaxError,
    OverflowError,
    MemoryError,
)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays under their names, compressed."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path, advice: str) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an archive by name; raises ``InputError`` if anything is wrong with it."""
    verify(path)
    try:
        with np.load(path, allow_pickle=False) as content:
            # For a file with a single array, np.load returns that array instead of an archive.
            return dict(content)
    except FileNotFoundError:
        raise InputError("no such file.", path, advice=advice) from None
    except _DAMAGE as error:
        problem = f"not an archive of arrays ({' '.join(str(error).split())[:200] or type(error).__name__})."
        raise InputError(problem, path, advice=advice) from None
