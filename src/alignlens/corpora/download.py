"""Downloads that resume, retry, verify, and appear under their name only when complete."""

from __future__ import annotations

import fcntl
import http.client
import logging
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alignlens import __version__
from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Seconds between attempts; an attempt that received bytes starts the count again.
PAUSES = (1.0, 2.0, 4.0)
_TIMEOUT = 60.0
_BLOCK = 1 << 18
_ADVICE = "Check the network and run it again (it resumes), or give a copy with --mirror DIR or ALIGNLENS_MIRROR."

_TAG = re.compile(rb'"[\x21\x23-\x7e]*"')
_LENGTH = re.compile("[0-9]{1,18}")

_log = logging.getLogger(__name__)


class _Interrupted(Exception):  # noqa: N818 - says what happened; never leaves this module
    """A transfer ended early; trying again may help."""


def download(url: str, target: Path, sha256: str | None, size: int | None = None) -> None:
    """Downloads ``url`` to ``target``, resuming an earlier attempt; verifies the checksum at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with _one_at_a_time(target.parent):
        if target.is_file():
            return
        _transfer_with_retries(url, part, size)
        checksum = sha256_of(part)
        if sha256 is not None and checksum != sha256:
            _forget(part)
            raise InputError(
                f"sha256 is {checksum}, expected {sha256}.",
                url,
                advice="The download was removed; try again later, or give a copy with --mirror DIR.",
            )
        part.replace(target)
        _forget(part)


@contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    """Holds the cache's lock, so that two jobs never write the same partial download."""
    with (cache / ".download.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _transfer_with_retries(url: str, part: Path, size: int | None) -> None:
    failures = 0
    while True:
        before = _size(part)
        try:
            _transfer(url, part, size)
            return
        except _Interrupted as error:
            failures = 0 if _size(part) > before else failures + 1
            if failures > len(PAUSES):
                raise InputError(f"cannot be downloaded ({error}).", url, advice=_ADVICE) from None
            _log.info("%s: %s; trying again", url, error)
            time.sleep(PAUSES[max(failures - 1, 0)] if PAUSES else 0)


def _transfer(url: str, part: Path, size: int | None) -> None:
    """Appends what is missing of ``url`` to ``part``."""
    headers = {"User-Agent": f"alignlens/{__version__}", "Accept-Encoding": "identity"}
    validator = _validator(part)
    tag = validator.read_bytes() if validator.is_file() else b""
    if tag and not _TAG.fullmatch(tag):
        _forget(part)  # It is not known which version the part belongs to.
    have = _size(part)
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag:
            headers["If-Range"] = tag.decode("ascii")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
            if response.status != 206 or not _starts_at(response, have):
                have = 0  # The server does not support ranges, or the file has changed: start from the beginning.
            tag = response.headers.get("ETag", "").encode("utf-8")
            if _TAG.fullmatch(tag):
                validator.write_bytes(tag)
            else:
                validator.unlink(missing_ok=True)
            _receive(response, url, part, have, size)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            if (error.headers.get("Content-Range") or "").endswith(f"*/{have}"):
                return  # Nothing is missing: the last attempt ended between the last byte and the rename.
            _forget(part)
            raise _Interrupted("the partial file on disk does not match") from None
        if error.code >= 500 or error.code == 429:
            raise _Interrupted(f"HTTP {error.code} {error.reason}") from None
        raise InputError(
            f"HTTP {error.code} {error.reason}.",
            url,
            advice="The address may have moved; give a copy with --mirror DIR or ALIGNLENS_MIRROR.",
        ) from None
    except urllib.error.URLError as error:
        raise _Interrupted(str(error.reason)) from None
    except (ValueError, UnicodeError) as error:
        raise InputError(f"not an address that can be downloaded ({error}).", url, advice="Check url.") from None
    except (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException) as error:
        raise _Interrupted(str(error) or type(error).__name__) from None


def _receive(response: http.client.HTTPResponse, url: str, part: Path, have: int, size: int | None) -> None:
    length = response.headers.get("Content-Length")
    total = have + int(length) if length is not None and _LENGTH.fullmatch(length) else size
    name = url.rsplit("/", 1)[-1]
    _log.info("fetching %s from %s (%s)%s", name, url, _human(total), f", {_human(have)} here" if have else "")
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - have > free:
        raise InputError(
            f"{_human(total - have)} to fetch, {_human(free)} free in {part.parent}.",
            url,
            advice="Make room or choose another place with --cache DIR.",
        )
    with part.open("r+b" if have else "wb") as out, Progress(name, total, "bytes") as progress:
        out.seek(have)
        progress.advance(have)
        done = have
        while block := response.read(_BLOCK):
            out.write(block)
            done += len(block)
            progress.advance(len(block))
    if total is not None and length is not None and done != total:
        raise _Interrupted(f"the connection ended at {done:,} of {total:,} bytes")


def _starts_at(response: http.client.HTTPResponse, have: int) -> bool:
    return (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-")


def _validator(part: Path) -> Path:
    """Returns the file that keeps the server's tag of the version a part belongs to."""
    return part.with_name(part.name + ".etag")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _human(count: int | None) -> str:
    if count is None:
        return "size unknown"
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
