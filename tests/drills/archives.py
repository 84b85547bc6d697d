"""Bad input: archives that are none, or not whole, or not what they should be."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

from bad_values import GROUP, writes
from harness import Drill, Outcome, refused, works

if TYPE_CHECKING:
    from collections.abc import Iterator


TEXT = b"".join(b"satz nummer %d\n" % number for number in range(40))


def drills() -> Iterator[Drill]:
    """Yields datasets whose files are archives of all kinds."""
    for what, content in _archive_contents(TEXT).items():
        expectation = works(_nothing_outside) if what.startswith("good") else refused_but_cache
        yield Drill(GROUP, f"archive: {what}", prepare("text"), expectation, writes("mirror/archive", content))


def prepare(member: str) -> list[str]:
    """Returns the command that prepares a dataset from a member of ``mirror/archive``."""
    entry = {"mirror": "archive", "member": member}
    definition = {"kind": "download", "pair": ["de", "en"], "train": [{"source": entry, "target": entry}]}
    definition |= {"dev": {"every": 5}, "test": {"last": 4}}
    places = ["--mirror", "mirror", "--cache", "cache", "--out", "new"]
    return ["data", "prepare", "odd", "--definition", json.dumps(definition), "--settings", "{}", *places]


def refused_but_cache(outcome: Outcome) -> list[str]:
    """Refused; what was fetched may stay in the cache."""
    kept = {name: what for name, what in outcome.after.items() if not name.startswith("cache")}
    return refused(replace(outcome, after=kept))


def _nothing_outside(outcome: Outcome) -> str | None:
    strange = [name for name in outcome.new if not name.startswith(("new", "cache"))]
    return f"written elsewhere: {strange[0]}" if strange else None


def _archive_contents(text: bytes) -> dict[str, bytes]:
    whole = tar_of({"text": text})
    found = {
        "good tar": whole,
        "good zip": zip_of({"text": text}),
        "no archive": b"this is no archive\n" * 9,
        "empty": b"",
        "zeros": bytes(20_480),
        "half a tar": whole[:700],
        "half a zip": zip_of({"text": text})[:40],
        "a zip with a password": _encrypted(zip_of({"text": text})),
        "a zip with a wrong checksum": zip_of({"text": text}).replace(b"satz", b"saft", 1),
        "a tar without the member": tar_of({"other": text}),
        "a member of bytes": tar_of({"text": b"\xff\xfe\x00" * 40}),
        "an empty member": zip_of({"text": b""}),
        "half a gzip": gzip.compress(text, mtime=0)[:25],
    }
    return {
        **found,
        **{f"a tar with a {kind}": _odd_tar(kind) for kind in ("symlink", "hard link", "fifo", "device", "folder")},
    }


def tar_of(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _odd_tar(kind: str) -> bytes:
    types = {
        "symlink": tarfile.SYMTYPE,
        "hard link": tarfile.LNKTYPE,
        "fifo": tarfile.FIFOTYPE,
        "device": tarfile.CHRTYPE,
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("text")
        entry.type, entry.linkname = types.get(kind, tarfile.DIRTYPE), "/etc/hostname"
        archive.addfile(entry)
    return made.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


def _encrypted(content: bytes) -> bytes:
    """Sets the bit that says that a member needs a password, in both of its headers."""
    made = bytearray(content)
    made[6] |= 1
    made[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(made)
