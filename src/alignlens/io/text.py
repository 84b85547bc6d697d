"""Readers of plain and gzip text that name file and line when something is wrong."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io.seals import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP_MAGIC = b"\x1f\x8b"


def stream_lines(path: Path | str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, plain or gzip, without their line ends, one at a time.

    Only LF (or CR LF) ends a line: other characters that Unicode calls line breaks occur inside
    corpora and must not shift one side of a bitext against the other. Gzip is known by its first bytes.
    """
    path = Path(path)
    verify(path)
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            if path.suffix == ".gz" and not is_gzip and file.peek(1):
                raise InputError("is named .gz but is not gzip.", path, advice="Rename it or fetch it again.")
            stream = gzip.GzipFile(fileobj=file) if is_gzip else file
            if stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
                stream.read(len(BOM_UTF8))
            for number, raw in enumerate(stream, start=1):
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    problem = f"not UTF-8 (byte 0x{raw[error.start]:02x})."
                    raise InputError(problem, path, number, "Convert it, e.g. iconv -f latin1 -t utf-8.") from None
                yield line.removesuffix("\n").removesuffix("\r")
    except FileNotFoundError:
        raise InputError("no such file.", path, advice="Check the path.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"truncated or damaged gzip ({error}).", path, advice="Fetch it again.") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", path, advice="Check the path.") from None


def read_lines(path: Path | str, allow_empty_file: bool = False) -> list[str]:
    """Returns all lines of ``stream_lines``; raises for an empty file unless that is allowed."""
    lines = list(stream_lines(path))
    if not lines and not allow_empty_file:
        raise InputError("the file is empty.", path, advice="Expected one sentence per line.")
    return lines


def check_equal_counts(paths: list[Path | str], counts: list[int]) -> None:
    """Raises unless all files have as many lines as the first one."""
    for path, count in zip(paths[1:], counts[1:], strict=True):
        if count != counts[0]:
            raise InputError(
                f"{count} lines, but {paths[0]} has {counts[0]}.",
                path,
                min(count, counts[0]) + 1,
                "Line n of every file of a set must belong together; find where they drift apart.",
            )


def read_parallel(*paths: Path | str) -> list[list[str]]:
    """Returns the lines of several files, which must have the same number of lines."""
    columns = [read_lines(path) for path in paths]
    check_equal_counts(list(paths), [len(column) for column in columns])
    return columns


def words(line: str) -> list[str]:
    """Returns the words of a tokenised line: what is between spaces (or tabs), and nothing else.

    ``str.split()`` would also split at no-break and ideographic spaces, which gold alignments count as
    part of a word.
    """
    return [word for word in line.replace("\t", " ").split(" ") if word]
