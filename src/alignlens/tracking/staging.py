"""The files of a run as the tracker gets them: small ones complete, large ones as path and checksum.

Journals name files, and anybody may have written a journal. So a file is only copied if it lies in the folder that
the user named, links followed, and only as the bytes that were checked.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.tracking.confined import IrregularError, OutsideError, open_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.tracking.records import Artifact

_WHOLE_BYTES = 5_000_000
_NAME_BYTES = 200  # what file systems take, less what we add
_REFERENCE = ".reference.txt"
_ODD = re.compile(r"[%#?\\]")  # a server takes names in addresses, where these mean something


@contextmanager
def staged_artifacts(artifacts: Sequence[Artifact], root: Path, first: int = 0) -> Iterator[Path]:
    """Yields a temporary folder laid out as in the tracker, without the first ``first`` artifacts.

    ``root`` is the folder that files may come from; what lies elsewhere is only referred to.
    """
    with tempfile.TemporaryDirectory(prefix="alignlens-") as name:
        for number, (artifact, relative) in enumerate(zip(artifacts, _names(artifacts), strict=True)):
            if number >= first:
                _stage(artifact, root, Path(name, relative))
        yield Path(name)


def _names(artifacts: Sequence[Artifact]) -> list[Path]:
    """Returns a place of its own for each; only those before count, so that one sent later takes no name of these."""
    files: set[Path] = set()
    folders: set[Path] = set()
    names = []
    for artifact in artifacts:
        for relative in _choices(artifact):
            claimed = {relative, relative.with_name(relative.name + _REFERENCE)}
            if claimed.isdisjoint(files) and claimed.isdisjoint(folders) and files.isdisjoint(relative.parents):
                break
        files |= claimed
        folders |= set(relative.parents)
        names.append(relative)
    return names


def _choices(artifact: Artifact) -> Iterator[Path]:
    """Yields places for a file until one is free."""
    name = _short(artifact.path.name)
    yield Path(artifact.folder, name)
    yield Path(artifact.folder, _short(f"{artifact.path.parent.name}-{name}"))
    for number in count(2):
        yield Path(f"again-{number}", artifact.folder, name)


def _short(name: str) -> str:
    plain = _ODD.sub("_", name)
    if len(os.fsencode(plain)) <= _NAME_BYTES:
        return plain
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16] + Path(plain).suffix[:20]


def _stage(artifact: Artifact, root: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    content, reason = _content(artifact, root)
    if content is None:
        text = f"{artifact.path}\nsha256 {artifact.sha256}\n{artifact.size} bytes\n{reason}\n"
        place.with_name(place.name + _REFERENCE).write_text(text, encoding="utf-8")
    else:
        place.write_bytes(content)


def _content(artifact: Artifact, root: Path) -> tuple[bytes | None, str]:
    """Returns the bytes of a file to copy, or why it is only referred to."""
    try:
        with open_below(root, artifact.path) as file:
            if artifact.size > _WHOLE_BYTES:
                return None, "too large to copy"
            content = file.read(artifact.size + 1)
    except OutsideError:
        return None, f"lies outside the results folder {root}"
    except IrregularError:
        return None, "is not a regular file"
    except (FileNotFoundError, NotADirectoryError):
        return None, "is no longer there"
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    if len(content) != artifact.size or hashlib.sha256(content).hexdigest() != artifact.sha256:
        return None, "has changed since the run recorded it"
    return content, ""
