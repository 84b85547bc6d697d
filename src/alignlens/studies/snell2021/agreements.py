"""How far models agree on what matters, as the files of a results folder tell it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.errors import InputError
from alignlens.io import values
from alignlens.io.arrays import read_arrays
from alignlens.io.documents import read_json, taking
from alignlens.metrics.sampled import Sampled
from alignlens.results.paths import AGREEMENT as FILE
from alignlens.results.protocol import interval_of
from alignlens.studies.snell2021.layout import ACCURACY, AGREEMENT, KENDALL, split_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.metrics.sampled import Draws
    from alignlens.results.manifest import Manifest

ADVICE = "Delete it and make it again with: alignlens agreement, or run the pipeline again."
SENTENCES = "sentences.npz"
_ARRAYS = {"names": "U", "sums": "fiu", "counts": "fiu"}
# Files hold some digits of a percentage.
_ROUNDING = 0.01
#: A probe with fewer different values in a row agrees with everything.
LEAST_DISTINCT = 2.0


@dataclass(frozen=True)
class Row:
    """One agreement in percent (or tau x 100): its interval, where its maximum is, and what a second run does there."""

    quantity: str
    value: float
    low: float
    high: float
    at: str | None
    xi: float
    """Performance of a second run when it first agrees more; nan if it never does."""
    distinct: float

    @property
    def collapsed(self) -> bool:
        """Whether most rows of the probe have one value, so that it agrees with anything."""
        return self.distinct < LEAST_DISTINCT


@dataclass(frozen=True)
class Measure:
    """Agreements with the checkpoint that is best by one measure of performance."""

    star: float
    gold: str
    rows: Mapping[str, Mapping[str, Row]]
    """By kind (agreement or Kendall's tau) and quantity."""


@dataclass(frozen=True)
class Curve:
    """Numbers by checkpoint."""

    weights: tuple[str, ...]
    numbers: Mapping[str, tuple[float, ...]]
    """Agreement, Kendall's tau, and of comparison runs accuracy and BLEU."""

    def steps(self) -> list[tuple[int, int]]:
        """Returns place and update of every checkpoint that has one."""
        return [(place, int(name)) for place, name in enumerate(self.weights) if name.isdecimal()]


@dataclass(frozen=True)
class Agreement:
    """All agreements of a task on one text."""

    path: Path
    task: str
    split: str
    items: int
    rows: int
    interval: Mapping[str, Any]
    measures: Mapping[str, Measure]
    curves: Mapping[str, Curve]
    _known: dict[tuple[str, str, str], Sampled] = field(default_factory=dict, repr=False, compare=False)

    @property
    def classified(self) -> bool:
        """Whether texts were classified: these have one row each, a translation has one per target piece."""
        return self.rows == self.items

    def row(self, quantity: str, measure: str = ACCURACY, kind: str = AGREEMENT) -> Row | None:
        """Returns an agreement, or None where it was not measured."""
        measured = self.measures.get(measure)
        return None if measured is None else measured.rows[kind].get(quantity)

    def sampled(self, draws: Draws, quantity: str, kind: str = AGREEMENT) -> Sampled | None:
        """Returns an agreement with what it is on resampled texts; None where it was not measured.

        A probe that has collapsed is as good as none.
        """
        row = self.row(quantity, ACCURACY, kind)
        if row is None or row.collapsed or math.isnan(row.value):
            return None
        key = ACCURACY, kind, quantity
        if key not in self._known:
            self._known[key] = self._sampled(draws, row, ".".join(key))
        return self._known[key]

    def _sampled(self, draws: Draws, row: Row, name: str) -> Sampled:
        names, sums, counts = self._sentences
        if name not in names:
            raise self._refused(f"no {name}.")
        place = names.index(name)
        total = counts[place].sum()
        if not total or abs(100 * sums[place].sum() / total - row.value) > _ROUNDING:
            raise self._refused(f"another {name} than {self.path.name} beside it.")
        return Sampled(row.value, 100 * draws.ratio(sums[place], counts[place]))

    @cached_property
    def _sentences(self) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
        arrays = read_arrays(self.path.with_name(SENTENCES), ADVICE)
        if arrays.keys() != _ARRAYS.keys() or any(arrays[key].dtype.kind not in kind for key, kind in _ARRAYS.items()):
            raise self._refused("not the agreement of single texts.")
        names, sums, counts = (arrays[key] for key in _ARRAYS)
        if names.ndim != 1 or sums.shape != (len(names), self.items) or counts.shape != sums.shape:
            raise self._refused("damaged: its arrays do not fit together.")
        if not np.isfinite(sums).all() or not np.isfinite(counts).all() or (counts < 0).any():
            raise self._refused("damaged: a number that no text has.")
        return list(map(str, names)), sums.astype(np.float64), counts.astype(np.float64)

    def _refused(self, problem: str) -> InputError:
        return InputError(problem, self.path.with_name(SENTENCES), advice=ADVICE)


def read_agreements(manifest: Manifest) -> list[Agreement]:
    """Returns the agreements of a manifest on dev and training text; what is damaged is an InputError."""
    files = [(path, names, split_of(names["split"])) for path, names in manifest.find(FILE)]
    return [_read(path, names["task"], split) for path, names, split in files if split is not None]


def _read(path: Path, task: str, split: str) -> Agreement:
    content = read_json(path, ADVICE)
    with taking(path, ADVICE):
        measures, curves = values.mapping(content, "measures"), values.mapping(content, "curves")
        if ACCURACY not in measures:
            raise ValueError(f"no {ACCURACY} among its measures")
        items = values.whole(content, "items", least=1)
        return Agreement(
            path,
            task,
            split,
            items,
            values.whole(content, "rows", least=items),
            interval_of(content),
            {name: _measure(values.mapping(measures, name)) for name in measures},
            {name: _curve(values.mapping(curves, name)) for name in curves},
        )


def _measure(content: dict[str, Any]) -> Measure:
    limits = {AGREEMENT: (0.0, 100.0), KENDALL: (-100.0, 100.0)}
    rows = {kind: [_row(row, *limit) for row in values.mappings(content, kind)] for kind, limit in limits.items()}
    return Measure(
        values.number(content, "star", 0, 100),
        values.text(content, "gold"),
        {kind: {row.quantity: row for row in of_kind} for kind, of_kind in rows.items()},
    )


def _row(content: dict[str, Any], least: float, most: float) -> Row:
    value, low, high = (values.number_or_nan(content, name, least, most) for name in ("value", "low", "high"))
    return Row(
        values.text(content, "quantity"),
        value,
        low,
        high,
        None if content["at"] is None else values.text(content, "at"),
        values.number_or_nan(content, "xi", 0, 100),
        values.number(content, "distinct", 0) if content["distinct"] is not None else math.inf,
    )


def _curve(content: dict[str, Any]) -> Curve:
    weights = values.texts(content, "weights")
    numbers = {name: _numbers(content[name], name, len(weights)) for name in content if name != "weights"}
    return Curve(weights, numbers)


def _numbers(numbers: Any, name: str, size: int) -> tuple[float, ...]:
    if not isinstance(numbers, list) or len(numbers) != size:
        raise ValueError(f"{name} is not a list of {size} numbers")
    return tuple(values.number_or_nan({name: value}, name, -100, 100) for value in numbers)
