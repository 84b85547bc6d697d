"""Folders with the links of many methods: ``METHOD.EXTRACTION[.SYMMETRISATION].pharaoh``, and nothing else knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alignlens.alignment.extraction import EXTRACTIONS
from alignlens.alignment.symmetrize import METHODS
from alignlens.errors import InputError
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import read_seal

if TYPE_CHECKING:
    from pathlib import Path

KIND = "folder of links"
SUFFIX = ".pharaoh"
ENTROPY = "entropy.json"
LENGTHS = "lengths.json"
_AGAIN = "Make the folder again with: alignlens extract."

Lengths = tuple[list[int], list[int]]


class LinksName(NamedTuple):
    """What a links file is called for: a method (canonical), a procedure and, if both directions made it, how."""

    method: str
    extraction: str
    symmetrization: str | None = None

    @property
    def file(self) -> str:
        """The name of the file."""
        return ".".join(filter(None, self)) + SUFFIX

    @classmethod
    def of(cls, path: Path) -> LinksName:
        """Returns what a file is called for; a method may have dots of its own."""
        rest, symmetrization = path.name.removesuffix(SUFFIX), None
        if rest.rpartition(".")[2] in METHODS:
            rest, _, symmetrization = rest.rpartition(".")
        method, _, extraction = rest.rpartition(".")
        if extraction not in EXTRACTIONS or not method:
            raise InputError(
                "not a name of links of a method.", path, advice="Expected METHOD.EXTRACTION[.SYMMETRISATION].pharaoh."
            )
        return cls(method, extraction, symmetrization)


def links_files(folder: Path) -> list[Path]:
    """Returns the links files of a folder in the order of their names; none is an error."""
    if not folder.is_dir():
        raise InputError("no such folder of links.", folder, advice="Check the path.")
    if (seal := read_seal(folder)) is not None:
        seal.check_names()
    # A name with a dot in front is a file that is being written, or was when a process died.
    found = sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))
    if not found:
        raise InputError(f"no *{SUFFIX} file.", folder, advice="Make it with: alignlens extract.")
    return found


def write_lengths(folder: Path, source: list[int], target: list[int]) -> None:
    """Writes how many words the sentences have that the links of a folder connect."""
    write_json(folder / LENGTHS, {"source": source, "target": target})


def read_lengths(folder: Path) -> Lengths | None:
    """Returns how many words the sentences have, or None if the folder was made by hand and does not say."""
    path = folder / LENGTHS
    if not path.is_file():
        return None
    found = read_json(path, _AGAIN)
    with taking(path, _AGAIN):
        source, target = ([int(length) for length in found[side]] for side in ("source", "target"))
    return source, target
