"""Archives and marked-up corpora to plain text: one UTF-8 sentence per line."""

from __future__ import annotations

import errno
import gzip
import html
import io
import lzma
import re
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from fnmatch import fnmatchcase
from stat import S_ISLNK
from typing import IO, TYPE_CHECKING, cast

from alignlens.errors import InputError, nearest
from alignlens.io.atomic import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from _typeshed import WriteableBuffer

    from alignlens.corpora.registry import DataFile

_SNUM = re.compile(r"^<s[^>]*>|</s>\s*$")
_SEG = re.compile(r"^\s*<seg[^>]*>(.*?)</seg>\s*$")
_TED_TEXT = re.compile(r"</?(?:title|description)>")
_TED_HEADER = re.compile(r"^\s*</?(?:url|talkid|keywords|speaker|reviewer|translator|doc)\b")
_TREE_LABEL = re.compile(r"\s*\(\s*(\d+)[\s(]")
_TREE_WORD = re.compile(r"\(\s*\d+\s+([^()\s]+)\s*\)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
_GZIP_MAGIC = b"\x1f\x8b"
_AGAIN = "Remove it and fetch it again."
# What the readers of archives raise for damage, besides errors without a number of the operating system.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)
# Compression takes text to a tenth, seldom to a fiftieth; anything that grows more is not text.
_MOST_GROWTH = 100
_ALWAYS_ALLOWED = 1 << 26
_TAR_HEADER = 512
_BLOCK = 1 << 20


def unpack(path: Path, file: DataFile, target: Path) -> None:
    """Writes the text that ``file`` describes, found in the archive or marked-up file ``path``, to ``target``."""
    _check_encoding(file, path)
    with atomic_path(target, seal="always") as temporary, temporary.open("wb") as out:
        try:
            room = _Room.of(path, temporary)
            for stream in _streams(path, _members(path, file, room), room):
                _copy(stream, out, file, path)
        except _DAMAGE as error:
            raise _damaged(error, path) from None
        except OSError as error:
            if error.errno not in (None, errno.EINVAL):
                raise
            raise _damaged(error, path) from None


def _damaged(error: Exception, path: Path) -> InputError:
    if isinstance(error, RuntimeError):  # how zipfile tells encryption and methods that it does not know
        return InputError(
            f"cannot be unpacked ({_short(error)}).",
            path,
            advice="Repack it without encryption, with a common compression method.",
        )
    return InputError(f"truncated or damaged, or not an archive ({_short(error)}).", path, advice=_AGAIN)


def _short(error: Exception) -> str:
    """Returns the first line of a message; tarfile lists all that it tried."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(":.")


class _Room:
    """How many bytes may still come out of an archive: a small one can hold terabytes."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most, self._left = path, most, most

    @classmethod
    def of(cls, path: Path, target: Path) -> _Room:
        growth = max(_MOST_GROWTH * path.stat().st_size, _ALWAYS_ALLOWED)
        return cls(path, min(growth, shutil.disk_usage(target.parent).free))

    def take(self, count: int) -> None:
        """Raises if more came out than there is room for."""
        self._left -= count
        if self._left < 0:
            raise InputError(
                f"holds more than {self._most:,} bytes: it would fill the disk, or is not text.",
                self._path,
                advice="Check where it comes from, or make room.",
            )

    def again(self) -> _Room:
        """Returns as much room as there was at the beginning."""
        return _Room(self._path, self._most)


class _Counted(io.RawIOBase):
    """A stream of which no more can be read than there is room for."""

    def __init__(self, stream: IO[bytes], room: _Room) -> None:
        self._stream, self._room = stream, room

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fills the buffer as far as there is something left to read."""
        space = memoryview(buffer)
        block = self._stream.read(len(space))
        self._room.take(len(block))
        space[: len(block)] = block
        return len(block)


def _members(path: Path, file: DataFile, room: _Room) -> list[str]:
    """Returns the members to read: those declared, or those that the declared one lists."""
    if file.list_column is None:
        return list(file.members)
    names = []
    for stream in _streams(path, file.members, room):
        for number, line in _lines(stream, file, file.members[0]):
            cells = line.split()
            if cells and len(cells) < file.list_column:
                raise InputError(f"no column {file.list_column}.", file.members[0], number, "Check list_column.")
            names += [f"{file.list_folder}/{cells[file.list_column - 1]}".lstrip("/")] if cells else []
    return names


def _streams(path: Path, members: Sequence[str], room: _Room) -> Iterator[io.BufferedReader]:
    """Yields the members of an archive in the order asked for, or the file itself if none is asked for."""
    if not members:
        with path.open("rb") as stream:
            yield _unzipped(stream, room)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            files = [entry for entry in archive.infolist() if not entry.is_dir()]
            others = {entry.filename for entry in files if S_ISLNK(entry.external_attr >> 16)}
            for name in _matching([entry.filename for entry in files], others, members, path):
                with archive.open(name) as stream:
                    yield _unzipped(stream, room)
    else:
        with tarfile.open(path, "r:*") as tar:
            entries = [(entry.name.removeprefix("./"), entry) for entry in _listed(tar, room.again())]
            others, by_name = {name for name, entry in entries if not entry.isfile()}, dict(entries)
            for name in _matching([name for name, _ in entries], others, members, path):
                extracted = tar.extractfile(by_name[name])
                if extracted is not None:
                    with extracted:
                        yield _unzipped(extracted, room)


def _listed(tar: tarfile.TarFile, room: _Room) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive, without folders; listing them means unpacking it."""
    for entry in tar:
        room.take(_TAR_HEADER + max(entry.size, 0))
        if not entry.isdir():
            yield entry
    # The checksum of what is packed stands behind the end of the archive.
    while tar.fileobj is not None and (block := tar.fileobj.read(_BLOCK)):
        room.take(len(block))


def _matching(names: Iterable[str], others: set[str], patterns: Sequence[str], path: Path) -> Iterator[str]:
    counts = Counter(names)
    for pattern in patterns:
        matches = [pattern] if pattern in counts else sorted(name for name in counts if fnmatchcase(name, pattern))
        if not matches:
            raise InputError(f"no member {pattern!r}{nearest(pattern, counts)}.", path, advice="Check member.")
        for name in matches:
            if name in others:
                raise InputError(f"member {name!r} is a link or a device, not a file.", path, advice="Check member.")
            if counts[name] > 1:
                raise InputError(f"member {name!r} appears {counts[name]} times.", path, advice="Pack it again.")
            yield name


def _unzipped(stream: IO[bytes], room: _Room) -> io.BufferedReader:
    """Returns the content of a stream, which may be gzip once more."""
    reader: io.BufferedReader = io.BufferedReader(_Counted(stream, room))
    if reader.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        content = cast("IO[bytes]", gzip.GzipFile(fileobj=reader))
        return io.BufferedReader(_Counted(content, room))
    return reader


def _copy(stream: io.BufferedReader, out: IO[bytes], file: DataFile, path: Path) -> None:
    """Appends the text of one stream; what needs no conversion is copied in blocks, for it may be large."""
    if (file.encoding, file.markup, file.skip_blank) == ("utf-8", "none", False):
        last = b"\n"
        while block := stream.read(_BLOCK):
            out.write(block)
            last = block[-1:]
        if last != b"\n":
            out.write(b"\n")
        return
    for _, line in _lines(stream, file, path):
        text = _text(line.rstrip("\r\n"), file.markup)
        if text is not None and not (file.skip_blank and not text.strip()):
            out.write(text.encode("utf-8") + b"\n")


def _check_encoding(file: DataFile, path: Path) -> None:
    try:
        io.TextIOWrapper(io.BytesIO(b""), encoding=file.encoding).read()
    except (LookupError, ValueError):
        raise InputError(f"unknown encoding {file.encoding!r}.", path, advice="Check encoding.") from None


def _lines(stream: io.BufferedReader, file: DataFile, path: Path | str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a stream with their numbers, decoded; only LF ends a line."""
    number = 0
    try:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding=file.encoding, newline="\n"), start=1):
            yield number, line
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        problem = f"not {file.encoding} ({reason}), in or after line {number + 1}."
        raise InputError(problem, path, advice="Check encoding.") from None


def _text(line: str, markup: str) -> str | None:
    """Returns the sentence of a marked-up line, or None if it holds none."""
    if markup == "snum":
        return _SNUM.sub("", line.strip()).strip()
    if markup == "seg":
        match = _SEG.match(line)
        return html.unescape(match[1]).strip() if match else None
    if markup == "ted":
        return None if _TED_HEADER.match(line) else _TED_TEXT.sub("", line).strip()
    if markup == "tree":
        root = _TREE_LABEL.match(line)
        return (
            f"{root[1]}\t{' '.join(_BRACKETS.get(word, word) for word in _TREE_WORD.findall(line))}" if root else line
        )
    return line
