"""How often words occur together in a text, as the files of a results folder tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.results.paths import COUNTS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest

_ADVICE = "Delete it and make it again with: alignlens counts, or run the pipeline again."


@dataclass(frozen=True)
class Growth:
    """Correlation of the proxy's first gradient with centred counts at a width: mean, least and greatest over seeds."""

    d: int
    pearson: float
    least: float
    greatest: float


@dataclass(frozen=True, eq=False)
class Counts:
    """The most frequent words of both sides, how often they occur together, and what they translate to."""

    dataset: str
    direction: str
    pairs: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    table: NDArray[np.float64]
    """Source words x target words."""
    translation: NDArray[np.float64]
    growth: tuple[Growth, ...]


def read_counts(manifest: Manifest) -> list[Counts]:
    """Returns the counts of a manifest; what is damaged is an InputError."""
    return [_read(path, names["dataset"], names["direction"]) for path, names in manifest.find(COUNTS)]


def _read(path: Path, dataset: str, direction: str) -> Counts:
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        source, target = values.texts(content, "source_words"), values.texts(content, "target_words")
        if not source or not target:
            raise ValueError("no words")
        return Counts(
            dataset,
            direction,
            values.whole(content, "pairs", least=1),
            source,
            target,
            _table(content, "table", len(source), len(target)),
            _table(content, "translation", len(source), len(target)),
            tuple(sorted(map(_growth, values.mappings(content, "growth")), key=lambda entry: entry.d)),
        )


def _growth(content: dict[str, Any]) -> Growth:
    pearson, least, greatest = (values.number(content, name, -1, 1) for name in ("pearson", "least", "greatest"))
    return Growth(values.whole(content, "d", least=1), pearson, least, greatest)


def _table(content: dict[str, Any], key: str, rows: int, columns: int) -> NDArray[np.float64]:
    table = content[key]
    if not isinstance(table, list) or len(table) != rows or any(len(row) != columns for row in table):
        raise ValueError(f"{key} is not {rows} x {columns} numbers")
    return np.array([[values.number({key: value}, key, 0) for value in row] for row in table], dtype=float)
