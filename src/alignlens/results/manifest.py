"""Manifests: the files of one configuration that a study or report may read, and how they were made.

A results folder keeps what earlier configurations made. So nothing searches it: the plan writes a manifest, and files
that the manifest does not list do not exist.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from alignlens.errors import InputError
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.results.paths import (
    ALIGNER_LINKS,
    ALIGNER_METRICS,
    COMPARISON,
    OWN_PIECES,
    PIECES,
    TEST,
    TRAINED,
)
from alignlens.results.protocol import Protocol, interval_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alignlens.results.paths import PathPattern

FILE = "manifest.json"
_ADVICE = "Delete it and run the pipeline again, which rewrites it; without it, alignlens reads the whole folder."


@dataclass(frozen=True)
class Manifest:
    """The files of a results folder that count, as paths below it, the noise of the tables and their intervals."""

    root: Path
    files: tuple[str, ...]
    protocol: Protocol = field(default_factory=Protocol)
    interval: Mapping[str, Any] = field(default_factory=dict)
    """Level, samples and seed; empty for those that the files state."""
    everything: bool = False
    """Whether every file found counts; then nothing is known to be missing."""

    @classmethod
    def whole(cls, root: Path, protocol: Protocol | None = None) -> Manifest:
        """Returns a manifest of everything below a folder, for results that no configuration made."""
        files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
        return cls(root, tuple(files), protocol or Protocol(), everything=True)

    @classmethod
    def of(cls, root: Path, reader: str, file: Path | None = None) -> Manifest:
        """Returns the manifest of a study or the report: ``file``, or else the one that the pipeline wrote for it.

        Without either, everything below ``root`` counts.
        """
        if not root.is_dir():
            raise InputError("no such results folder.", root, advice="Run the pipeline first.")
        written = root / reader / FILE
        return cls.read(file or written, root) if file or written.is_file() else cls.whole(root)

    @classmethod
    def read(cls, path: Path, root: Path) -> Manifest:
        """Returns the manifest in a file, which is about ``root``."""
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            files = values.texts(content, "files")
            for file in files:
                if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                    raise ValueError(f"{file!r} is not below the results folder")
            protocol = Protocol.from_json(values.mapping(content, "protocol"))
            manifest = cls(root, files, protocol, interval_of(content))
            if manifest.as_json() != content:
                raise ValueError("its checksum does not match")
            return manifest

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``read`` reads back."""
        content = {"protocol": asdict(self.protocol), "interval": dict(self.interval), "files": list(self.files)}
        # Snakemake writes the file, so it has none of our checksums beside it.
        return {**content, "sha256": sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}

    def find(self, pattern: PathPattern) -> list[tuple[Path, dict[str, str]]]:
        """Returns the files at a place that are there, and the names in their paths."""
        named = ((self.root / file, pattern.names(file)) for file in self.files)
        return [(path, names) for path, names in named if names is not None and path.exists()]

    def path(self, pattern: PathPattern, **names: object) -> Path | None:
        """Returns one file, or None if it does not belong here or is missing."""
        file = pattern.of(**names)
        path = self.root / file
        return path if file in self._known and path.exists() else None

    def pieces(self, side: str, **model: object) -> Path | None:
        """Returns a side of the test text in the pieces that a model reads: its own, or those of its dataset.

        ``model`` are the names in the path of a model; one that has pieces of its own reads no others.
        """
        own = OWN_PIECES.of(split=TEST, side=side, **model) in self._known
        return self.path(OWN_PIECES if own else PIECES, split=TEST, side=side, **model)

    def expected(self, pattern: PathPattern) -> list[dict[str, str]]:
        """Returns the names of the files of a configuration at a place, whether they are there or not."""
        named = () if self.everything else map(pattern.names, self.files)
        return [names for names in named if names is not None]

    def has_job(self, name: PurePath) -> bool:
        """Returns whether a job is of this configuration, by the path of its journal or benchmark, ``stage/names``."""
        names = (*name.parts[1:-1], name.name.partition(".")[0])
        # With fewer names it is about a text, a study or an encoder.
        return self.everything or len(names) < 3 or bool({names[:3], names[:4]} & self._runs)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.files)

    @cached_property
    def _runs(self) -> set[tuple[str, ...]]:
        """The names of trained models, with and without their direction, of aligners, and of comparisons."""
        models = [tuple(names.values()) for names in self.expected(TRAINED)]
        links = [tuple(names.values())[:4] for names in self.expected(ALIGNER_LINKS)]
        scores = [tuple(names.values()) for names in self.expected(ALIGNER_METRICS)]
        compared = [tuple(names.values()) for names in self.expected(COMPARISON)]
        return {*models, *((dataset, model, seed) for dataset, _, model, seed in models), *links, *scores, *compared}
