"""Finding the files of a dataset: the mirror first, then the cache, then the public address; all verified."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alignlens.corpora.download import download
from alignlens.corpora.unpack import unpack
from alignlens.errors import ConfigError, InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.documents import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alignlens.corpora.registry import DataFile

MIRROR_VARIABLE = "ALIGNLENS_MIRROR"
DEFAULT_CACHE = Path("results/cache")

_FETCH_AGAIN = "Recreate it with: alignlens data fetch."

_log = logging.getLogger(__name__)


class Declared(Protocol):
    """What fetching needs of a registry entry, be it a bitext or labelled texts."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def origin(self) -> str:
        """Its public origin."""

    @property
    def available(self) -> str:
        """How to get what cannot be downloaded."""

    def files(self) -> dict[str, DataFile]:
        """Returns every file by its role."""


@dataclass(frozen=True)
class Places:
    """Where files are looked for: a read-only mirror, and a cache shared by all presets."""

    mirror: Path | None
    cache: Path = DEFAULT_CACHE

    @classmethod
    def of(cls, mirror: str | None = None, cache: str | None = None) -> Places:
        """Returns the places of a command; without ``mirror`` that of the environment, if it names one."""
        name = mirror or os.environ.get(MIRROR_VARIABLE) or None
        if name is not None and not Path(name).is_dir():
            said = "--mirror" if mirror else MIRROR_VARIABLE
            raise ConfigError(f"{said}: {name} is not a directory; give the directory that holds the mirror, or none")
        return cls(Path(name) if name else None, Path(cache) if cache else DEFAULT_CACHE)


def where(file: DataFile, places: Places) -> str:
    """Returns ``local``, ``mirror``, ``cache`` or ``missing``, without verifying anything."""
    if file.path is not None:
        return "local" if Path(file.path).is_file() else "missing"
    if places.mirror is not None and file.mirror and (places.mirror / file.mirror).is_file():
        return "mirror"
    return "cache" if file.url and _cached(file, places).is_file() else "missing"


def fetch(dataset: Declared, places: Places) -> dict[str, str]:
    """Returns the path of every file of the dataset by role, all present, verified and plain text.

    A file of the mirror and a file of the user are used in place; archives and marked-up files leave their text
    in the cache.
    """
    files = Verified(dataset, places)
    return {role: str(files.text(file)) for role, file in dataset.files().items()}


class Verified:
    """The files of one dataset; each archive is looked for and verified once, however many texts it holds."""

    def __init__(self, dataset: Declared, places: Places, may_download: bool = True) -> None:
        self._dataset, self._places, self._may_download = dataset, places, may_download
        self._sums: dict[Path, str] = {}

    def text(self, file: DataFile) -> Path:
        """Returns the path of the plain text of a file."""
        path = self._find(file)
        if file.plain:
            return path
        recipe = [file.members, file.list_column, file.list_folder, file.encoding, file.markup, file.skip_blank]
        name = (file.members[0] if file.members else file.name).rsplit("/", 1)[-1].replace("*", "all")
        target = (
            self._places.cache / f"text-{_digest(json.dumps([self._sum(path), *recipe]))}-{name.removesuffix('.gz')}"
        )
        if not target.is_file():
            unpack(path, file, target)
        return target

    def _find(self, file: DataFile) -> Path:
        if file.path is not None:
            path = Path(file.path)
            if not path.is_file():
                raise InputError("no such file.", path, advice=f"Check the paths of {self._dataset.name}.")
            return self._verify(path, file.sha256, "Restore it, or correct sha256.")
        mirror = self._places.mirror
        if mirror is not None and file.mirror and (mirror / file.mirror).is_file():
            advice = "Restore it in the mirror, or remove it there."
            return self._verify(mirror / file.mirror, file.mirror_sha256 or file.sha256, advice)
        if file.url is None:
            raise self._unavailable(file)
        path = _cached(file, self._places)
        if not path.is_file():
            if not self._may_download:
                raise InputError("not here.", path, advice=f"Run: alignlens data fetch {self._dataset.name}")
            download(file.url, path, file.sha256, file.bytes)
        self._verify(path, file.sha256, "Remove it and fetch again.")
        if file.sha256 is None:
            _log.warning("%s: sha256 %s, not verified (no checksum is on record)", path, self._sum(path))
        return path

    def _verify(self, path: Path, expected: str | None, advice: str) -> Path:
        if path.stat().st_size == 0:
            raise InputError("the file is empty.", path, advice=advice)
        if expected is not None and self._sum(path) != expected:
            raise InputError(f"sha256 is {self._sum(path)}, expected {expected}.", path, advice=advice)
        return path

    def _sum(self, path: Path) -> str:
        if path not in self._sums:
            self._sums[path] = sha256_of(path)
        return self._sums[path]

    def _unavailable(self, file: DataFile) -> InputError:
        name = file.mirror or file.name
        advice = self._dataset.available or f"It has no public address. Origin: {self._dataset.origin}"
        if self._places.mirror is not None:
            return InputError("not in the mirror.", self._places.mirror / name, advice=advice)
        advice = f"Give the directory that holds it with --mirror DIR or {MIRROR_VARIABLE}. {advice}"
        return InputError("cannot be downloaded.", name, advice=advice)


def read_manifest(path: Path | str, dataset: Declared) -> Mapping[str, str]:
    """Returns a manifest written by ``alignlens data fetch``, checked for the roles of the dataset."""
    manifest = read_json(path, _FETCH_AGAIN)
    if set(manifest) != set(dataset.files()):
        raise InputError(f"not the manifest of {dataset.name}.", path, advice=_FETCH_AGAIN)
    for role, name in manifest.items():
        if not isinstance(name, str) or not _is_file(name):
            raise InputError(f"{role} is {str(name)[:200]!r}, which is not a file.", path, advice=_FETCH_AGAIN)
    return manifest


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:
        return False  # a name that no file can have


def _cached(file: DataFile, places: Places) -> Path:
    prefix = file.sha256[:16] if file.sha256 else f"url-{_digest(file.url or '')}"
    return places.cache / f"{prefix}-{(file.url or file.name).rsplit('/', 1)[-1]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
