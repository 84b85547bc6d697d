"""Files go to the tracker only from the trusted folder, as the bytes that were checked, each under its own name."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING

import pytest

from alignlens.tracking import confined
from alignlens.tracking.confined import IrregularError, OutsideError, open_below
from alignlens.tracking.records import Artifact
from alignlens.tracking.staging import staged_artifacts

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"not for others\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    (results / "demo").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "results-old").mkdir()
    (tmp_path / "results-old" / "secret").write_bytes(SECRET)
    return results


def artifact(path: Path, content: bytes = SECRET, folder: str = "") -> Artifact:
    return Artifact(path, hashlib.sha256(content).hexdigest(), len(content), folder)


def staged(results: Path, *artifacts: Artifact, first: int = 0) -> dict[str, bytes]:
    with staged_artifacts(artifacts, results, first) as folder:
        assert not any(path.is_symlink() for path in folder.rglob("*"))
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_lies_outside_is_only_referred_to(results: Path) -> None:
    outside = results.parent / "secret"
    (results / "link").symlink_to(outside)
    (results / "linked").symlink_to(results.parent)
    (results / "chain").symlink_to("link")
    paths = [outside, results.parent / "results-old" / "secret", results / "link", results / "linked" / "secret"]
    for path in (*paths, results / "chain", results / "demo" / ".." / ".." / "secret"):
        found = staged(results, artifact(path, folder="tables"))
        (name,) = found
        assert name == f"tables/{path.name}.reference.txt"
        assert b"lies outside the results folder" in found[name]
        assert SECRET not in found[name]


def test_links_inside_are_followed(results: Path) -> None:
    (results / "demo" / "a").write_bytes(b"1")
    (results / "link").symlink_to(results / "demo" / "a")
    (results.parent / "alias").symlink_to(results)
    assert staged(results, artifact(results / "link", b"1")) == {"link": b"1"}
    assert staged(results.parent / "alias", artifact(results.parent / "alias" / "demo" / "a", b"1")) == {"a": b"1"}


def test_what_is_no_file_is_never_opened(results: Path) -> None:
    os.mkfifo(results / "fifo")
    (results / "loop").symlink_to("loop")
    (results / "null").symlink_to("/dev/null")
    begin = threading.Timer(20, os._exit, (1,))
    begin.start()
    try:
        for name in ("fifo", "demo", "loop", "null", "", "gone", "x" * 300):
            (found,) = staged(results, artifact(results / name if name else results, b""))
            assert found.endswith(".reference.txt")
    finally:
        begin.cancel()


@pytest.mark.parametrize(("place", "target"), [("demo/secret", "../../secret"), ("demo", "..")])
def test_a_link_put_there_meanwhile_is_not_followed(
    results: Path, monkeypatch: pytest.MonkeyPatch, place: str, target: str
) -> None:
    """Between the look and the opening somebody swaps the file, or a folder on the way, for a link."""
    path = results / "demo" / "secret"
    path.write_bytes(b"harmless")
    real = os.path.realpath

    def look(path: Path, *, strict: bool = False) -> str:
        found = real(path, strict=strict)
        if path != results:
            (results / place).rename(results / "away")
            (results / place).symlink_to(target)
        return found

    monkeypatch.setattr(confined.os.path, "realpath", look)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory|regular"):
        open_below(results, path)


def test_errors_have_names(results: Path) -> None:
    with pytest.raises(OutsideError):
        open_below(results, results)
    with pytest.raises(IrregularError):
        open_below(results, results / "demo")
    with pytest.raises(FileNotFoundError):
        open_below(results / "none", results / "none" / "a")


def test_the_bytes_sent_are_those_recorded(results: Path) -> None:
    path = results / "a.csv"
    path.write_bytes(b"12345")
    assert staged(results, artifact(path, b"12345")) == {"a.csv": b"12345"}
    for recorded in (b"1234", b"123456", b"54321", b""):
        (found,) = staged(results, artifact(path, recorded)).values()
        assert b"has changed since the run recorded it" in found
    (found,) = staged(results, Artifact(path, "0" * 64, 5_000_001, "")).values()
    assert b"too large to copy" in found


def test_every_file_has_a_name_of_its_own_that_later_ones_do_not_change(results: Path) -> None:
    artifacts = []
    for folder, name in (
        ("", "links"), ("links", "a.csv"), ("links/a.csv", "b"), ("links", "a.csv"), ("links", "a.csv"),
        ("", "x"), ("", "x.reference.txt"), ("", "odd#%?\\name"), ("", "é" * 120 + ".csv"),
    ):  # fmt: skip
        path = results / "demo" / name
        path.write_bytes(name.encode())
        artifacts.append(artifact(path, name.encode(), folder))
    whole = staged(results, *artifacts)
    assert len(whole) == len(artifacts)
    assert not any(
        name.endswith("x.reference.txt") and content != b"x.reference.txt" for name, content in whole.items()
    )
    assert {"links", "x", "odd____name", "demo-x.reference.txt"} <= set(whole)
    for count in range(len(artifacts) + 1):
        before, after = staged(results, *artifacts[:count]), staged(results, *artifacts, first=count)
        assert before | after == whole
        assert not before.keys() & after.keys()
