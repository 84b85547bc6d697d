"""Every output appears by rename: a file under its final name is complete.

What happens depends on what has that name. A regular file is replaced; a symlink stays, and the file it
points to is replaced; a device or a FIFO is written to. A folder is replaced only if alignlens wrote it.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.processes import is_running
from alignlens.io.seals import read_seal, seal_folder, seals_files, sidecar, sidecar_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LONGEST_STEM = 100
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
_HERE = -100  # AT_FDCWD
_STREAMS = ("/dev/fd/", "/dev/std", "/proc/")  # names of what a process has open already
_NEW_FOLDER = "Choose a new folder."
_open_folders: set[Path] = set()


def _temporary(path: Path) -> Path:
    """Returns a hidden sibling of ``path`` that belongs to this process, after sweeping those of dead ones."""
    name = path.name.encode()
    # The sibling's name must not be too long if the file's name is not.
    digest = hashlib.sha256(name).hexdigest()[:16]
    stem = path.name if len(name) <= _LONGEST_STEM else f"{name[:_LONGEST_STEM].decode(errors='ignore')}-{digest}"
    host = socket.gethostname()
    for stale in path.parent.glob(f".{glob.escape(stem)}.{glob.escape(host)}-*.tmp"):
        pid = stale.name.rsplit("-", 1)[1].removesuffix(".tmp")
        if pid.isdecimal() and not is_running(int(pid)):
            _remove(stale)
    return path.with_name(f".{stem}.{host}-{os.getpid()}.tmp")


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
def _named(path: Path, temporary: Path) -> Iterator[None]:
    """Lets an error of the operating system name the output, not the file that would have become it."""
    try:
        yield
    except OSError as error:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        if error.errno is None or (names and not any(str(temporary) in name for name in names)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def destination(path: Path | str) -> Path | None:
    """Returns the file that a name stands for, symlinks followed; None if it is to be written to without a rename."""
    path = Path(path)
    if not path.name:
        raise InputError("is not the name of a file.", f"{str(path)!r}", advice="Name a file.")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    if stat.S_ISREG(mode) and not str(path.absolute()).startswith(_STREAMS):
        return Path(os.path.realpath(path))
    if stat.S_ISDIR(mode):
        raise InputError("is a folder, but the output is a file.", path, advice="Name a file in it.")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise InputError("is a disk or a socket, not a file.", path, advice="Name a file.")
    return None


@contextmanager
def atomic_path(path: Path | str, seal: bool | Literal["always"] = True) -> Iterator[Path]:
    """Yields a temporary path; renames it to ``path`` if the block succeeds, removes it otherwise.

    With ``seal``, a step of the pipeline leaves a checksum beside the file. Files that check themselves need none;
    ``always`` is for files that are never edited and whose damage would go unnoticed.
    """
    name, final = Path(path), destination(path)
    if final is None:
        with _through(name) as temporary:
            yield temporary
        return
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(final)
    wanted = seal == "always" or (seal and seals_files())
    sealed = wanted and not any(final.is_relative_to(folder) for folder in _open_folders)
    with _named(name, temporary):
        try:
            yield temporary
            _sync(temporary)
            _put_in_place(temporary, final, sealed)
        finally:
            _remove(temporary)
        _sync(final.parent)


def move_file(path: Path, final: Path) -> None:
    """Renames a file that is complete, and seals it under its new name if this process seals single files."""
    _put_in_place(path, final, seals_files())


def _put_in_place(path: Path, final: Path, sealed: bool) -> None:
    # A sealed file stays sealed, whoever rewrites it.
    checksum = sha256_of(path) if sealed or sidecar(final).is_file() else None
    # Even after a crash, a file is never beside the checksum of another.
    sidecar(final).unlink(missing_ok=True)
    path.replace(final)
    if checksum is not None:
        path.write_text(sidecar_text(final, checksum), encoding="utf-8")
        _sync(path)
        path.replace(sidecar(final))


@contextmanager
def _through(path: Path) -> Iterator[Path]:
    """Yields a temporary path, whose content goes into a device or a FIFO if the block succeeds."""
    with tempfile.TemporaryDirectory(prefix="alignlens-") as folder:
        temporary = Path(folder, "output")
        yield temporary
        with temporary.open("rb") as content, path.open("wb", buffering=0) as out:
            shutil.copyfileobj(content, out)


def check_replaceable(path: Path | str, kind: str) -> Path:
    """Returns the folder that a name stands for, symlinks followed; raises unless we may replace it.

    It must be absent, empty, or of the same kind, sealed by us, with nothing else in it.
    """
    path = Path(path)
    folder = Path(os.path.realpath(path))
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise InputError("is a file, but the output is a folder.", path, advice=_NEW_FOLDER)
    if Path.cwd().is_relative_to(folder):
        raise InputError("is the working directory or a parent of it, and would be replaced.", path, advice=_NEW_FOLDER)
    if not any(folder.iterdir()):
        return folder
    seal = read_seal(folder)
    if seal is None:
        raise InputError("exists with other content, which would be replaced.", path, advice=_NEW_FOLDER)
    if seal.kind != kind:
        raise InputError(f"is a {seal.kind}, and would be replaced by a {kind}.", path, advice=_NEW_FOLDER)
    if foreign := seal.foreign():
        raise InputError(f"would be lost when {path} is replaced.", foreign[0], advice="Move it elsewhere.")
    return folder


@contextmanager
def atomic_directory(
    path: Path | str, kind: str, own_check: Callable[[str], bool] = lambda name: False, sealed: bool = True
) -> Iterator[Path]:
    """Yields a temporary folder; seals it and puts it in the place of ``path`` if the block succeeds.

    ``kind`` is what is written: only a folder of the same kind is replaced. ``own_check`` picks large files that their
    reader verifies piece by piece, so that the seal need not. A folder that others will change later is not ``sealed``.
    """
    final = check_replaceable(path, kind)
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(final)
    _remove(temporary)
    temporary.mkdir()
    _open_folders.add(temporary)
    with _named(Path(path), temporary):
        try:
            yield temporary
            if sealed:
                seal_folder(temporary, kind, own_check)
            for file in temporary.rglob("*"):
                if file.is_file():
                    _sync(file)
            _exchange(temporary, check_replaceable(path, kind))
        finally:
            _open_folders.discard(temporary)
            _remove(temporary)
        _sync(final.parent)


def _exchange(new: Path, old: Path) -> None:
    """Puts ``new`` in the place of ``old``, which ends up under the name of ``new`` if it existed."""
    if not old.exists() or not any(old.iterdir()):
        new.replace(old)
        return
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None and rename(_HERE, os.fsencode(new), _HERE, os.fsencode(old), _EXCHANGE) == 0:
        return
    if rename is not None and ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(old))
    # The file system cannot exchange names: for a moment, nothing has the final name.
    aside = new.with_name(f"{new.name.removesuffix('.tmp')}.old-{os.getpid()}.tmp")
    old.replace(aside)
    new.replace(old)
    aside.replace(new)


def write_text(path: Path | str, text: str, seal: bool = True) -> None:
    """Writes ``text`` as UTF-8."""
    with atomic_path(path, seal) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_lines(path: Path | str, lines: Iterable[str], seal: bool = True) -> None:
    """Writes one line per item; an item may not contain a line break."""
    with atomic_path(path, seal) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines:
            if "\n" in line:
                raise ValueError(f"line break inside a line: {line!r}")
            out.write(line)
            out.write("\n")


def write_json(path: Path | str, value: Any) -> None:
    """Writes indented JSON with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
