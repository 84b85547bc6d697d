"""Archives and marked-up corpora to plain text: one UTF-8 sentence per line."""

from __future__ import annotations

import gzip
import html
import re
import tarfile
import zipfile
import zlib
from fnmatch import fnmatchcase
from typing import IO, TYPE_CHECKING, cast

from alignlens.errors import InputError, nearest
from alignlens.io.atomic import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from alignlens.corpora.registry import DataFile

_SNUM = re.compile(r"^<s[^>]*>|</s>\s*$")
_SEG = re.compile(r"^\s*<seg[^>]*>(.*?)</seg>\s*$")
_TED_TEXT = re.compile(r"</?(?:title|description)>")
_TED_HEADER = re.compile(r"^\s*</?(?:url|talkid|keywords|speaker|reviewer|translator|doc)\b")


def unpack(path: Path, file: DataFile, target: Path) -> None:
    """Writes the text that ``file`` describes, found in the archive or marked-up file ``path``, to ``target``."""
    with atomic_path(target) as temporary, temporary.open("wb") as out:
        try:
            for stream in _streams(path, _members(path, file)):
                _copy(stream, out, file)
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError) as error:
            raise InputError(
                f"truncated or damaged archive ({error}).", path, advice="Remove it and fetch it again."
            ) from None


def _members(path: Path, file: DataFile) -> list[str]:
    """Returns the members to read: those declared, or those that the declared one lists."""
    if file.list_column is None:
        return list(file.member)
    names = []
    for stream in _streams(path, file.member):
        for number, line in enumerate(stream.read().decode(file.encoding).splitlines(), start=1):
            cells = line.split()
            if cells and len(cells) < file.list_column:
                raise InputError(f"no column {file.list_column}.", file.member[0], number, "Check list_column.")
            names += [f"{file.list_folder}/{cells[file.list_column - 1]}".lstrip("/")] if cells else []
    return names


def _streams(path: Path, members: Sequence[str]) -> Iterator[IO[bytes]]:
    """Yields the members of an archive in the order asked for, or the file itself if none is asked for."""
    if not members:
        with path.open("rb") as stream:
            yield stream
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in _matching(archive.namelist(), members, path):
                with archive.open(name) as stream:
                    yield stream
    else:
        with tarfile.open(path, "r:*") as tar:
            names = {member.name.removeprefix("./"): member for member in tar if member.isfile()}
            for name in _matching(names, members, path):
                extracted = tar.extractfile(names[name])
                if extracted is not None:
                    with extracted:
                        yield extracted


def _matching(names: Iterable[str], patterns: Sequence[str], path: Path) -> Iterator[str]:
    names = sorted(names)
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise InputError(f"no member {pattern!r}{nearest(pattern, names)}.", path, advice="Check member.")
        yield from found


def _copy(stream: IO[bytes], out: IO[bytes], file: DataFile) -> None:
    """Appends the text of one stream; what needs no conversion is copied in blocks, for it may be large."""
    if stream.read(2) == b"\x1f\x8b":
        stream.seek(0)
        with gzip.open(stream) as text:
            _append(cast("IO[bytes]", text), out, file)
    else:
        stream.seek(0)
        _append(stream, out, file)


def _append(stream: IO[bytes], out: IO[bytes], file: DataFile) -> None:
    if (file.encoding, file.markup, file.skip_blank) == ("utf-8", "none", False):
        last = b"\n"
        while block := stream.read(1 << 20):
            out.write(block)
            last = block[-1:]
        if last != b"\n":
            out.write(b"\n")
        return
    for raw in stream:
        try:
            line = raw.decode(file.encoding)
        except UnicodeDecodeError as error:
            raise InputError(f"not {file.encoding} ({error.reason}).", file.name, advice="Check encoding.") from None
        text = _text(line.rstrip("\r\n"), file.markup)
        if text is not None and not (file.skip_blank and not text.strip()):
            out.write(text.encode("utf-8") + b"\n")


def _text(line: str, markup: str) -> str | None:
    """Returns the sentence of a marked-up line, or None if it holds none."""
    if markup == "snum":
        return _SNUM.sub("", line.strip()).strip()
    if markup == "seg":
        match = _SEG.match(line)
        return html.unescape(match[1]).strip() if match else None
    if markup == "ted":
        return None if _TED_HEADER.match(line) else _TED_TEXT.sub("", line).strip()
    return line
