"""Text files: what is a line, and what is said about files that cannot be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.errors import InputError
from alignlens.io.text import read_lines

raw_text = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", "ä".encode(), b"\xe4", "\u2028".encode(), b"\x0c"]),
    max_size=12,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(raw_text, st.booleans())
def test_only_line_feeds_end_lines(tmp_path_factory: pytest.TempPathFactory, raw: bytes, zipped: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        with pytest.raises(InputError, match=f":{line}: not UTF-8"):
            read_lines(path, allow_empty_file=True)
        return
    lines = text.split("\n")
    expected = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    assert read_lines(path, allow_empty_file=True) == expected


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"der hund\n" * 99)[:-9])
    (tmp_path / "plain.gz").write_bytes(b"der hund\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    for name, problem in {
        "cut.gz": "damaged gzip",
        "plain.gz": "not gzip",
        "folder": "cannot be",
        "no": "no such",
        "empty": "the file is empty",
    }.items():
        with pytest.raises(InputError, match=problem):
            read_lines(tmp_path / name)
