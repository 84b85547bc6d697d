"""A SQLite store as a file: whether it is sound, and how a new one takes its place without losing the old one."""

from __future__ import annotations

import errno
import re
import shutil
import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

from alignlens.errors import ToolError
from alignlens.tracking.reconcile import KEPT
from alignlens.tracking.records import FILES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alignlens.tracking.reconcile import SyncResult

ADVICE = "Close programs that use it, free disk space, or grant write permission."

_SIDES = ("-journal", "-wal", "-shm")  # what SQLite keeps beside a database that was not closed properly
_RUN_ID = re.compile("[0-9a-f]{32}")
_PATIENCE_SECONDS = 20.0
_OURS = "SELECT DISTINCT run_uuid FROM tags WHERE key = 'alignlens.key'"


def check_file(database: Path, thorough: bool) -> None:
    """Raises ``sqlite3.DatabaseError`` for a damaged file and other errors for one that cannot be written.

    ``thorough`` looks at every page; without it, damage only shows when it is hit, half way through a write.
    """
    if database.exists() and not database.is_file():
        raise OSError(errno.EINVAL, "not a regular file")
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database, timeout=_PATIENCE_SECONDS)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if thorough:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether only a new file can help; other errors go away when other programs release the file."""
    return not any(sign in str(error) for sign in ("locked", "readonly", "unable to open", "disk is full"))


def renew(database: Path, build: Callable[[Path], SyncResult]) -> SyncResult:
    """Replaces ``database`` by what ``build`` writes; a build that fails leaves nothing behind.

    The old store is kept as ``*.bak`` if it is sound. A damaged one becomes ``*.damaged``, so that it never takes the
    place of a good copy. Files of old runs go last.
    """
    backup = database.with_name(database.name + ".bak")
    _sweep(database)
    sound = _is_sound(database)
    old = _our_runs(database) | _our_runs(backup)
    # A new name each time: MLflow remembers in a process which files it has given a schema.
    fresh = database.with_name(f".{database.name}.{uuid.uuid4().hex}.new")
    try:
        result = build(fresh)
        if not result.reached:
            return result
        if database.exists():
            _keep(database, backup if sound else database.with_name(database.name + ".damaged"))
        for side in _SIDES:  # they would be read as those of the new file, and corrupt it
            database.with_name(database.name + side).unlink(missing_ok=True)
        fresh.replace(database)
    finally:
        _discard(fresh, old)
    _remove_files(database, old - _our_runs(database))
    return result


def _is_sound(database: Path) -> bool:
    """Returns whether it is a complete MLflow store; a missing or empty file is not."""
    if not database.exists():
        return False
    try:
        check_file(database, thorough=True)
        with closing(sqlite3.connect(database, timeout=_PATIENCE_SECONDS)) as connection:
            connection.execute("SELECT count(*) FROM runs").fetchone()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        if is_damage(error):
            return False
        raise ToolError(f"{database}: cannot be replaced ({error}). {ADVICE} {KEPT}") from None
    return True


def _our_runs(database: Path) -> set[str]:
    """Returns the ids of the runs that we have made, as far as the file can be read."""
    ids: set[str] = set()
    if not database.is_file():
        return ids
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as connection:
            for (run,) in connection.execute(_OURS):
                if isinstance(run, str) and _RUN_ID.fullmatch(run):
                    ids.add(run)
    except sqlite3.Error:
        pass  # keep what was read until then
    return ids


def _keep(database: Path, place: Path) -> None:
    """Gives the database a second name, so that its own name always exists."""
    link = database.with_name(f".{database.name}.{uuid.uuid4().hex}.old")
    try:
        try:
            link.hardlink_to(database)
        except OSError:  # not every file system has hard links
            shutil.copyfile(database, link)
        link.replace(place)
    finally:
        link.unlink(missing_ok=True)  # a rename onto the same file leaves both names
    for side in _SIDES:
        beside = database.with_name(database.name + side)
        copy = place.with_name(place.name + side)
        copy.unlink(missing_ok=True)
        if beside.is_file():
            shutil.copyfile(beside, copy)


def _discard(fresh: Path, known: set[str]) -> None:
    """Removes a new store that did not take its place, its side files and the files of its runs."""
    _remove_files(fresh, _our_runs(fresh) - known)
    for name in (fresh.name, *(fresh.name + side for side in _SIDES), fresh.with_suffix(".lock").name):
        fresh.with_name(name).unlink(missing_ok=True)


def _sweep(database: Path) -> None:
    """Removes what killed rebuilds have left; other files stay."""
    ours = re.compile(rf"(\.{re.escape(database.name)}\.[0-9a-f]{{32}})\.(new(-journal|-wal|-shm)?|lock|old)")
    known = _our_runs(database)
    for stale in sorted(database.parent.iterdir()):
        match = ours.fullmatch(stale.name)
        if match and (stale.is_file() or stale.is_symlink()):
            if match[2] == "old":
                stale.unlink(missing_ok=True)
            else:
                _discard(database.with_name(f"{match[1]}.new"), known)


def _remove_files(database: Path, runs: set[str]) -> None:
    """Removes the folders of ``runs`` beside ``database``, and nothing else."""
    if runs:
        for folder in (database.parent / FILES / "alignlens").glob("*/*"):
            if folder.name in runs:
                shutil.rmtree(folder, ignore_errors=True)
