"""Archives and marked-up files: text, or one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignlens.corpora.fetch import Places, fetch
from alignlens.corpora.registry import DataFile, Dataset, TextPair
from alignlens.errors import InputError
from alignlens.io.text import read_lines

PACKERS = ("gz", "bz2", "xz")  # a plain tar has no checksum


def dataset(source: DataFile, target: DataFile | None = None, **changes: Any) -> Dataset:
    """Returns a dataset whose test source is the file of interest."""
    files = TextPair(source, target or source)
    return Dataset(**{"name": "mine", "kind": "download", "pair": ("de", "en"), "test": files, **changes})


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    """Returns an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def text_of(tmp_path: Path, content: bytes, **changes: Any) -> str:
    """Returns the text that a file with these bytes and this description becomes."""
    (tmp_path / "packed").write_bytes(content)
    file = DataFile(mirror="packed", **changes)
    return Path(fetch(dataset(file), Places(tmp_path, tmp_path / "cache"))["test.source"]).read_text(encoding="utf-8")


def test_members_of_archives(tmp_path: Path) -> None:
    files = {"d/2.e": b"two", "d/1.e": b"one\n", "d/1.f": b"un\n", "list": b"1.f 2.e\n\n2.e 1.e\n"}
    tgz = tar_of(files)
    assert text_of(tmp_path, tgz, member=("d/1.f",)) == "un\n"
    assert text_of(tmp_path, tgz, member=("d/*.e",)) == "one\ntwo\n"
    assert text_of(tmp_path, tgz, member=("d/2.e", "d/1.e")) == "two\none\n"
    assert text_of(tmp_path, tgz, member=("list",), list_column=1, list_folder="d") == "un\ntwo\n"
    assert text_of(tmp_path, tar_of({"./a.gz": gzip.compress(b"x\n")}, "w"), member=("a.gz",)) == "x\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("d/a.txt", "zip\n")
    assert text_of(tmp_path, out.getvalue(), member=("d/a.txt",)) == "zip\n"


def test_broken_archives(tmp_path: Path) -> None:
    tgz = tar_of({"a.txt": bytes(range(256)) * 200})
    with pytest.raises(InputError, match=r"packed: no member 'b\.txt' \(did you mean a\.txt\?\)"):
        text_of(tmp_path, tgz, member=("b.txt",))
    for broken in (tgz[: len(tgz) // 2], b"no archive at all"):
        with pytest.raises(InputError, match="packed: truncated or damaged, or not an archive"):
            text_of(tmp_path, broken, member=("a.txt",))
    assert not list((tmp_path / "cache").glob("text-*"))
    with pytest.raises(InputError, match="no column 3"):
        text_of(tmp_path, tar_of({"list": b"a b\n"}), member=("list",), list_column=3)


def zip_of(entries: list[tuple[str | zipfile.ZipInfo, bytes]]) -> bytes:
    """Returns an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


def changed(content: bytes, offset: int, value: int) -> bytes:
    """Returns a zip of one member with a field of both its headers changed; offset counts in the local one."""
    data, central = bytearray(content), content.index(b"PK\x01\x02")
    data[offset : offset + 2] = data[central + offset + 2 : central + offset + 4] = value.to_bytes(2, "little")
    return bytes(data)


def link_in_zip() -> zipfile.ZipInfo:
    """Returns the entry of a symlink, whose content is where it leads."""
    info = zipfile.ZipInfo("a")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    return info


def link_in_tar() -> bytes:
    """Returns an archive with a symlink."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    return out.getvalue()


PLAIN_ZIP = zip_of([("a", b"text\n" * 1000)])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (changed(PLAIN_ZIP, 6, 1), "is encrypted"),
        (changed(PLAIN_ZIP, 8, 97), "compression"),
        (PLAIN_ZIP[: len(PLAIN_ZIP) // 2], "truncated or damaged, or not an archive"),
        (b"PK\x03\x04 no archive", "truncated or damaged, or not an archive"),
        (b"text\n" * 100, "truncated or damaged, or not an archive"),
        (b"", "the file is empty"),
        (bz2.compress(b"x" * 10_000)[:-20], "truncated or damaged, or not an archive"),
        (bz2.compress(tar_of({"a": b"x" * 10_000}, "w"))[:60], "truncated or damaged, or not an archive"),
        (lzma.compress(tar_of({"a": b"x" * 10_000}, "w"))[:60], "truncated or damaged, or not an archive"),
        (zip_of([(link_in_zip(), b"/etc/passwd")]), "'a' is a link or a device"),
        (link_in_tar(), "'a' is a link or a device"),
        (zip_of([("a", b"one\n"), ("b", b"two\n")]).replace(b"b", b"a"), "member 'a' appears 2 times"),
        (zip_of([("a", bytes(1 << 27))]), "holds more than 67,108,864 bytes"),
        (gzip.compress(tar_of({"a": bytes(1 << 27)}, "w"), 1), "holds more than 67,108,864 bytes"),
        (zip_of([("a", gzip.compress(bytes(1 << 27)))]), "holds more than 67,108,864 bytes"),
    ],
)
def test_archives_that_cannot_be_used_are_one_line(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        text_of(tmp_path, content, member=("a",))
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'packed'}: ")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").glob("text-*"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_archives_give_the_text_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    text = "eins zwei drei\n" * 50
    packed = data.draw(
        st.sampled_from([zip_of([("a", text.encode())]), *(tar_of({"a": text.encode()}, f"w:{m}") for m in PACKERS)])
    )
    damaged = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(packed)))
    with suppress(InputError):
        assert text_of(tmp_path, bytes(damaged[:cut]), member=("a",)) == text


def test_unpacked_text_is_sealed(tmp_path: Path) -> None:
    text_of(tmp_path, tar_of({"a": b"eins\n"}), member=("a",))
    (text,) = (tmp_path / "cache").glob("text-*")
    text.write_text("zwei\n")
    with pytest.raises(InputError, match="damaged or edited"):
        read_lines(text)


def test_encoding_that_nobody_knows(tmp_path: Path) -> None:
    for name in ("klingon", "hex", "undefined", "a\0b"):
        with pytest.raises(InputError, match="unknown encoding"):
            text_of(tmp_path, b"a\n", encoding=name)
    assert text_of(tmp_path, "ab\ncd\n".encode("utf-16"), encoding="utf-16") == "ab\ncd\n"


def test_encoding_and_markup(tmp_path: Path) -> None:
    assert text_of(tmp_path, "daß\n\nä\n".encode("latin-1"), encoding="iso-8859-1", skip_blank=True) == "daß\nä\n"
    snum = b"<s snum=0001> ms. h <b> </s>\n<s snum=0002> two </s>\n"
    assert text_of(tmp_path, snum, markup="snum") == "ms. h <b>\ntwo\n"
    seg = b'<doc x="1">\n<seg id="1">A &amp; B</seg>\n  <seg id="2"> c </seg>\n</doc>\n'
    assert text_of(tmp_path, seg, markup="seg") == "A & B\nc\n"
    ted = b"<url>http://x</url>\n<title>My talk</title>\n<talkid>3</talkid>\n Hello <x> .\n"
    assert text_of(tmp_path, ted, markup="ted") == "My talk\nHello <x> .\n"
    with pytest.raises(InputError, match="not utf-8"):
        text_of(tmp_path, b"\xff\n", markup="snum")
