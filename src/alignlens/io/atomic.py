"""Every output appears by rename: a file under its final name is complete."""

from __future__ import annotations

import json
import os
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _temporary(path: Path) -> Path:
    """Returns a hidden sibling of ``path`` that belongs to this process, after sweeping those of dead ones."""
    host = socket.gethostname()
    for stale in path.parent.glob(f".{path.name}.{host}-*.tmp"):
        pid = int(stale.name.rsplit("-", 1)[1].removesuffix(".tmp"))
        if not _alive(pid):
            _remove(stale)
    return path.with_name(f".{path.name}.{host}-{os.getpid()}.tmp")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path; renames it to ``path`` if the block succeeds, removes it otherwise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
    finally:
        _remove(temporary)
    _sync(path.parent)


@contextmanager
def atomic_directory(path: Path | str) -> Iterator[Path]:
    """Yields a temporary directory; renames it to ``path`` (replacing it) if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    _remove(temporary)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        if path.exists():
            _remove(path)
        temporary.replace(path)
    finally:
        _remove(temporary)
    _sync(path.parent)


def write_text(path: Path | str, text: str) -> None:
    """Writes ``text`` as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_lines(path: Path | str, lines: Iterable[str]) -> None:
    """Writes one line per item; an item may not contain a line break."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines:
            if "\n" in line:
                raise ValueError(f"line break inside a line: {line!r}")
            out.write(line)
            out.write("\n")


def write_json(path: Path | str, value: Any) -> None:
    """Writes indented JSON with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
