"""Folders with the links of many methods: ``METHOD.EXTRACTION[.SYMMETRISATION].pharaoh``, and nothing else knows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.alignment.symmetrizations import SYMMETRIZATIONS
from alignlens.errors import InputError
from alignlens.io.arrays import read_arrays, write_arrays
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import read_seal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.metrics.entropy import Entropy

KIND = "folder of links"
SUFFIX = ".pharaoh"
ENTROPY = "entropy.json"
ENTROPIES = "entropies.npz"
LENGTHS = "lengths.json"
_AGAIN = "Recreate the folder with: alignlens extract."

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
        if rest.rpartition(".")[2] in SYMMETRIZATIONS:
            rest, _, symmetrization = rest.rpartition(".")
        method, _, extraction = rest.rpartition(".")
        if extraction not in EXTRACTIONS or not method:
            raise InputError(
                "its name is not one of a method's links.",
                path,
                advice="Expected METHOD.EXTRACTION[.SYMMETRISATION].pharaoh.",
            )
        return cls(method, extraction, symmetrization)


def links_files(folder: Path) -> list[Path]:
    """Returns the links files of a folder in the order of their names; none is an error."""
    if not folder.is_dir():
        raise InputError("no such folder of links.", folder, advice="Check the path.")
    if (seal := read_seal(folder)) is not None:
        seal.check_names()
    # A name with a dot in front is a file that is being written, or was when a process died.
    paths = sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))
    if not paths:
        raise InputError(f"no *{SUFFIX} file.", folder, advice="Make it with: alignlens extract.")
    return paths


def write_entropies(folder: Path, entropies: Mapping[str, Entropy]) -> None:
    """Writes how spread out the scores of every method are: of the corpus, and of every sentence."""
    means = {method: _plain(entropy.means()) for method, entropy in entropies.items()}
    write_json(folder / ENTROPY, means)
    methods = sorted(entropies)
    by_sentence = np.array([entropies[method].by_sentence for method in methods], dtype=np.float32)
    write_arrays(folder / ENTROPIES, {"methods": np.array(methods, "U"), "by_sentence": by_sentence})


def _plain(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {key: None if math.isnan(value) else value for key, value in numbers.items()}


def sentence_entropies(folder: Path, methods: Sequence[str | None]) -> list[NDArray[np.float32] | None]:
    """Returns the mean entropy of every sentence for each of some methods; None has none."""
    path = folder / ENTROPIES
    if all(method is None for method in methods):
        return [None] * len(methods)
    arrays = read_arrays(path, _AGAIN)
    with taking(path, _AGAIN):
        names, by_sentence = arrays["methods"], arrays["by_sentence"]
        if names.dtype.kind != "U" or by_sentence.dtype.kind != "f" or by_sentence.ndim != 2:
            raise ValueError("not the entropies of sentences")
        by_method = dict(zip(map(str, names), by_sentence, strict=True))
        return [None if method is None else by_method[method] for method in methods]


def write_lengths(folder: Path, source: list[int], target: list[int]) -> None:
    """Writes how many words the sentences have that the links of a folder connect."""
    write_json(folder / LENGTHS, {"source": source, "target": target})


def read_lengths(folder: Path) -> Lengths | None:
    """Returns how many words the sentences have, or None if the folder was made by hand and does not say."""
    path = folder / LENGTHS
    if not path.is_file():
        return None
    content = read_json(path, _AGAIN)
    with taking(path, _AGAIN):
        source, target = ([int(length) for length in content[side]] for side in ("source", "target"))
    return source, target
