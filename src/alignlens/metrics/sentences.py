"""What was counted sentence by sentence, kept beside a table of scores so that its rows can be compared in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.errors import InputError
from alignlens.io.arrays import read_arrays, write_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.metrics.aer import Counts

FILE = "sentences.npz"
_ADVICE = "Delete it and recreate it with: alignlens score or alignlens score-methods, or run the pipeline again."
_ARRAYS = {"names": "U", "counts": "i", "entropies": "f"}


@dataclass(frozen=True)
class SentenceCounts:
    """The rows of a table by name, each with the counts and the entropy of every sentence pair."""

    names: tuple[str, ...]
    counts: NDArray[np.int32]
    """Rows x sentences x 4, as in ``Counts``."""
    entropies: NDArray[np.float32]
    """Rows x sentences: mean over the target pieces of a sentence; nan where there is none."""

    @classmethod
    def of(
        cls, names: Sequence[str], systems: Sequence[Counts], entropies: Sequence[NDArray[Any] | None], sentences: int
    ) -> SentenceCounts:
        """Returns the rows of a table; None stands for entropies that a row does not have."""
        counts = np.zeros((len(names), sentences, 4), dtype=np.int32)
        means = np.full((len(names), sentences), np.nan, dtype=np.float32)
        for row, (system, entropy) in enumerate(zip(systems, entropies, strict=True)):
            counts[row] = system.per_sentence
            if entropy is not None:
                means[row] = entropy
        return cls(tuple(names), counts, means)

    def write(self, path: Path) -> None:
        """Writes one file."""
        write_arrays(path, {"names": np.array(self.names, "U"), "counts": self.counts, "entropies": self.entropies})


def row_name(row: dict[str, Any]) -> str:
    """Returns the name of a row of scores: its links, and for a method also its name and procedure."""
    return ".".join(str(row[key]) for key in ("method", "extraction", "links") if key in row)


def read_sentences(path: Path) -> SentenceCounts:
    """Reads what ``write`` wrote; raises ``InputError`` if anything is wrong with it."""
    arrays = read_arrays(path, _ADVICE)
    if arrays.keys() != _ARRAYS.keys() or any(arrays[key].dtype.kind != kind for key, kind in _ARRAYS.items()):
        raise InputError("does not hold counts of sentences.", path, advice=_ADVICE)
    names, counts, entropies = (arrays[key] for key in _ARRAYS)
    if names.ndim != 1 or counts.shape != (*entropies.shape, 4) or len(counts) != len(names):
        raise InputError("damaged: its arrays do not fit together.", path, advice=_ADVICE)
    if (counts < 0).any() or np.isinf(entropies).any() or (entropies < 0).any():
        raise InputError("damaged: it has counts that no sentence can have.", path, advice=_ADVICE)
    return SentenceCounts(tuple(map(str, names)), counts, entropies)


def gathered_sentences(paths: Sequence[Path], names: Sequence[str]) -> SentenceCounts:
    """Returns the rows of all parts of a table in the order of ``names``."""
    parts = [read_sentences(path) for path in paths]
    for part, path in zip(parts, paths, strict=True):
        if part.counts.shape[1] != parts[0].counts.shape[1]:
            raise InputError(f"covers other sentences than {paths[0]}.", path, advice="Give the parts of one table.")
    places = {name: place for place, name in enumerate(name for part in parts for name in part.names)}
    if sorted(places) != sorted(names):
        raise InputError(
            "together with the others: these are not the rows of the parts.", paths[0], advice="Give every part once."
        )
    order = [places[name] for name in names]
    counts, entropies = (np.concatenate([getattr(part, key) for part in parts]) for key in ("counts", "entropies"))
    return SentenceCounts(tuple(names), counts[order], entropies[order])
