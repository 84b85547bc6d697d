"""A folder for finished parts of a long job, held by this process alone, from which the same command continues.

It is not an output. Its first file marks it as ours, and it is removed at the end.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io.atomic import write_text
from alignlens.io.locks import held
from alignlens.io.seals import read_seal

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKER = "parts"
_MARK = "Finished parts of an alignlens job. The same command continues from here and removes this folder at the end.\n"


@contextmanager
def parts_folder(folder: Path) -> Iterator[Path]:
    """Yields a folder for parts, after making sure that it is ours or new; a second process waits."""
    real = Path(os.path.realpath(folder))
    _check_ours(real, folder)
    with held(real.with_name(f".{real.name}.lock"), "works here"):
        _check_ours(real, folder)
        write_text(real / _MARKER, _MARK, seal=False)
        try:
            yield real
        finally:
            _remove_if_empty(real)


def remove_parts(folder: Path, kind: str) -> None:
    """Removes all parts of a kind, what killed jobs left of them, and the folder unless something else is in it."""
    for path in folder.iterdir():
        if not path.is_dir() and path.match(".*.tmp"):
            path.unlink(missing_ok=True)
        elif path.match(".*.tmp") or _kind_of(path) == kind:
            shutil.rmtree(path, ignore_errors=True)
    _remove_if_empty(folder)


def _kind_of(path: Path) -> str | None:
    try:
        seal = read_seal(path)
    except InputError:
        return None
    return None if seal is None else seal.kind


def _check_ours(folder: Path, name: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder for parts of a job.", name, advice="Choose a new folder.")
    check_marked(folder, name, _MARKER)


def check_marked(folder: Path, name: Path, marker: str) -> None:
    """Raises if a folder without the marker holds more than a temporary marker, which a killed process may leave."""
    if not folder.is_dir() or (folder / marker).is_file():
        return
    if any(not path.match(f".{marker}.*.tmp") for path in folder.iterdir()):
        raise InputError("holds other files, which would be removed at the end.", name, advice="Choose a new folder.")


def _remove_if_empty(folder: Path) -> None:
    if [path.name for path in folder.glob("*")] == [_MARKER]:
        (folder / _MARKER).unlink()
        folder.rmdir()
