"""Fetching: mirror, cache, real downloads from a local server."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from alignlens.corpora import download as downloading
from alignlens.corpora.download import download
from alignlens.corpora.fetch import Places, fetch, read_manifest, where
from alignlens.corpora.registry import DataFile, Dataset, TextPair
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = bytes(range(256)) * 4096  # 1 MiB, so that it arrives in several blocks


class Server(ThreadingHTTPServer):
    """Serves bytes by path; can break off, refuse ranges, or fail for a while."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.files: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.break_after: int | None = None
        self.failures_after_break = 0
        self.ranges = True
        self.failures = 0
        self.seen: list[tuple[str, str | None]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing about a client that went away: some tests do."""

    def url(self, name: str) -> str:
        """Returns the address of a file."""
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Requests(BaseHTTPRequestHandler):
    """GET with Range and If-Range."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name, wanted = self.path.lstrip("/"), self.headers.get("Range")
        self.server.seen.append((name, wanted))
        self.close_connection = True
        if self.server.failures:
            self.server.failures -= 1
            self._head(503, 0)
            return
        if name not in self.server.files:
            self._head(404, 0)
            return
        body, tag = self.server.files[name], self.server.tags.get(name)
        start = 0
        changed = self.headers.get("If-Range") not in (None, tag)
        extra = {"ETag": tag} if tag else {}
        if wanted and self.server.ranges and not changed:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self._head(416, 0, {"Content-Range": f"bytes */{len(body)}"})
                return
            extra["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self._head(206 if "Content-Range" in extra else 200, len(body) - start, extra)
        stop = len(body)
        if self.server.break_after is not None:
            stop, self.server.break_after = start + self.server.break_after, None
            self.server.failures = self.server.failures_after_break
        self.wfile.write(body[start:stop])

    def _head(self, status: int, length: int, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(length), "Connection": "close", **(extra or {})}.items():
            self.send_header(key, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "PAUSES", (0.0, 0.0))
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def sha(content: bytes) -> str:
    """Returns the checksum of bytes."""
    return hashlib.sha256(content).hexdigest()


def dataset(source: DataFile, target: DataFile | None = None, **changes: Any) -> Dataset:
    """Returns a dataset whose test source is the file of interest."""
    files = TextPair(source, target or source)
    return Dataset(**{"name": "mine", "kind": "download", "pair": ("de", "en"), "test": files, **changes})


def test_download_verifies_and_leaves_nothing_else(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    download(server.url("a.bin"), tmp_path / "cache/a.bin", sha(BODY), len(BODY))
    assert (tmp_path / "cache/a.bin").read_bytes() == BODY
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".download.lock", "a.bin"]


def test_interrupted_download_resumes_within_a_run(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"], server.break_after = BODY, 300_000
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert server.seen == [("a.bin", None), ("a.bin", "bytes=300000-")]
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_interrupted_download_resumes_in_the_next_run(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"], server.tags["a.bin"] = BODY, '"v1"'
    server.break_after, server.failures_after_break = 300_000, 9
    with pytest.raises(InputError, match=r"cannot be downloaded \(HTTP 503"):
        download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert (tmp_path / "a.bin.part").stat().st_size == 300_000
    server.failures, server.seen = 0, []
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert server.seen == [("a.bin", "bytes=300000-")]
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert not list(tmp_path.glob("*.part*"))


def test_a_part_of_another_version_is_not_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"old" * 100)
    (tmp_path / "a.bin.part.etag").write_text('"v1"')
    server.files["a.bin"], server.tags["a.bin"] = BODY, '"v2"'
    download(server.url("a.bin"), tmp_path / "a.bin", None)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_complete_part_needs_no_bytes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    server.files["a.bin"] = BODY
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert len(server.seen) == 1


def test_a_part_longer_than_the_file_starts_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    server.files["a.bin"] = BODY
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"], server.break_after, server.ranges = BODY, 300_000, False
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_server_that_fails_for_a_while_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"], server.failures = BODY, 2
    download(server.url("a.bin"), tmp_path / "a.bin", sha(BODY))
    assert len(server.seen) == 3


def test_wrong_checksum_removes_the_part(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    with pytest.raises(InputError, match=f"a.bin: sha256 is {sha(BODY)}, expected {'0' * 64}") as caught:
        download(server.url("a.bin"), tmp_path / "a.bin", "0" * 64)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [".download.lock"]


def test_missing_page_is_not_asked_for_twice(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.bin: HTTP 404 .*--mirror"):
        download(server.url("none.bin"), tmp_path / "a.bin", None)
    assert len(server.seen) == 1


def test_refused_connection_advises_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "PAUSES", (0.0,))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match=r"Connection refused\).*--mirror DIR or ALIGNLENS_MIRROR"):
        download(f"http://127.0.0.1:{port}/a.bin", tmp_path / "a.bin", None)


def test_too_large_for_the_disk_is_said_before(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["a.bin"] = BODY
    monkeypatch.setattr(downloading.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(InputError, match=r"1\.0 MB to fetch, 10 B free.*--cache"):
        download(server.url("a.bin"), tmp_path / "a.bin", None)


def test_what_from_where_and_how_large_is_said(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.files["a.bin"] = BODY
    with caplog.at_level(logging.INFO):
        download(server.url("a.bin"), tmp_path / "a.bin", None)
    assert caplog.messages == [f"fetching a.bin from {server.url('a.bin')} (1.0 MB)"]


def test_mirror_is_used_in_place_and_before_the_url(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mirror/sub").mkdir(parents=True)
    (tmp_path / "mirror/sub/a.txt").write_bytes(b"a b\n")
    places = Places(tmp_path / "mirror", tmp_path / "cache")
    file = DataFile(mirror="sub/a.txt", mirror_sha256=sha(b"a b\n"), url=server.url("a.txt"), sha256="0" * 64)
    assert where(file, places) == "mirror"
    assert fetch(dataset(file), places)["test.source"] == str(tmp_path / "mirror/sub/a.txt")
    assert not server.seen
    assert not (tmp_path / "cache").exists()


def test_damaged_mirror_is_an_error_not_a_download(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a c\n")
    server.files["a.txt"] = b"a b\n"
    file = DataFile(mirror="a.txt", url=server.url("a.txt"), sha256=sha(b"a b\n"))
    with pytest.raises(InputError, match=r"a\.txt: sha256 is .*Restore it in the mirror"):
        fetch(dataset(file), Places(tmp_path, tmp_path / "cache"))
    assert not server.seen


def test_cache_is_named_by_content_and_shared(server: Server, tmp_path: Path) -> None:
    server.files["a.txt"] = b"a b\n"
    file = DataFile(url=server.url("a.txt"), sha256=sha(b"a b\n"))
    places = Places(None, tmp_path)
    assert where(file, places) == "missing"
    path = fetch(dataset(file), places)["test.source"]
    assert path == str(tmp_path / f"{sha(b'a b' + bytes([10]))[:16]}-a.txt")
    assert where(file, places) == "cache"
    fetch(dataset(file, name="other"), places)
    assert len(server.seen) == 1
    Path(path).write_bytes(b"damaged\n")
    with pytest.raises(InputError, match="Remove it and fetch again"):
        fetch(dataset(file), places)


def test_unknown_checksum_is_printed_with_a_warning(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.files["a.txt"] = b"a b\n"
    path = fetch(dataset(DataFile(url=server.url("a.txt"))), Places(None, tmp_path))["test.source"]
    assert Path(path).name.startswith("url-")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings
    assert f"sha256 {sha(b'a b' + bytes([10]))}, not verified" in warnings[0]


def test_file_without_address_says_where_to_ask(tmp_path: Path) -> None:
    file = DataFile(mirror="gold.tgz", member=("g",))
    asked = dataset(file, available="Ask at http://example.org and put gold.tgz into the mirror.")
    with pytest.raises(InputError, match=r"gold\.tgz: cannot be downloaded\. .*--mirror.* Ask at http://example\.org"):
        fetch(asked, Places(None, tmp_path))
    with pytest.raises(InputError, match=r"not in the mirror\. Ask at"):
        fetch(asked, Places(tmp_path, tmp_path))


def test_files_kind_must_exist(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("a\n")
    here, missing = DataFile(path=str(tmp_path / "a.de")), DataFile(path=str(tmp_path / "a.en"))
    with pytest.raises(InputError, match=r"a\.en: no such file"):
        fetch(dataset(here, missing, kind="files"), Places(None, tmp_path))
    assert fetch(dataset(here, kind="files"), Places(None, tmp_path))["test.target"] == str(tmp_path / "a.de")


def test_mirror_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIGNLENS_MIRROR", str(tmp_path))
    assert Places.of().mirror == tmp_path
    assert Places.of(str(tmp_path.parent)).mirror == tmp_path.parent
    with pytest.raises(ConfigError, match="--mirror: /none is not a directory"):
        Places.of("/none")
    monkeypatch.setenv("ALIGNLENS_MIRROR", "/none")
    with pytest.raises(ConfigError, match="ALIGNLENS_MIRROR: /none is not a directory"):
        Places.of()


def test_manifest_must_fit_the_dataset(tmp_path: Path) -> None:
    here = str(tmp_path / "a")
    Path(here).write_text("text\n")
    wanted = dataset(DataFile(path=here))
    write_json(tmp_path / "m.json", {"test.source": here, "test.target": here})
    assert read_manifest(tmp_path / "m.json", wanted)["test.source"] == here
    for wrong in ({"test.source": here, "test.target": 3}, {"test.source": f"{here}x", "test.target": here}):
        write_json(tmp_path / "m.json", wrong)
        with pytest.raises(InputError, match=r"which is not a file\. Recreate it with: alignlens data fetch"):
            read_manifest(tmp_path / "m.json", wanted)
    write_json(tmp_path / "m.json", {"test.source": "a"})
    with pytest.raises(InputError, match="not the manifest of mine"):
        read_manifest(tmp_path / "m.json", wanted)
    (tmp_path / "m.json").write_text("{")
    with pytest.raises(InputError, match=r"m\.json:1: not JSON"):
        read_manifest(tmp_path / "m.json", wanted)
    with pytest.raises(InputError, match="no such file"):
        read_manifest(tmp_path / "none.json", wanted)
