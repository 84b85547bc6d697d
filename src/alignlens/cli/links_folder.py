"""Folders with the links of many methods: ``METHOD.EXTRACTION[.SYMMETRISATION].pharaoh``, and nothing else knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alignlens.alignment.extraction import EXTRACTIONS
from alignlens.alignment.symmetrize import METHODS
from alignlens.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".pharaoh"
ENTROPY = "entropy.json"


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
    # A name with a dot in front is a file that is being written, or was when a process died.
    found = sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))
    if not found:
        raise InputError(f"no *{SUFFIX} file.", folder, advice="Make it with: alignlens extract.")
    return found


def check_replaceable(folder: Path) -> None:
    """Raises if a folder holds anything but links, since it will be replaced as a whole."""
    if not folder.exists():
        return
    foreign = [folder] if not folder.is_dir() else [path for path in folder.iterdir() if not _ours(path)]
    if foreign:
        raise InputError("is in the way: the folder will be replaced.", foreign[0], advice="Name a new folder.")


def _ours(path: Path) -> bool:
    return path.name.endswith(SUFFIX) or path.name == ENTROPY or path.name.startswith(".")
