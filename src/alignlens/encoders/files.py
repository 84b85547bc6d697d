"""The files of a measured encoder: how they are written, and the checks before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.io import values
from alignlens.io.arrays import read_arrays
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import Seal, read_seal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

STATISTICS, POINTS = "statistics.json", "points.npz"
KIND = "folder of encoder statistics"
_ADVICE = "Delete its folder and recreate it with: alignlens encoder, or run the pipeline again."
_CATEGORIES = {"[CLS]", "[SEP]", "END", "BEGIN", "punctuation", "other"}
_SPREAD = ("mean", "deviation", "cv", "max", "min")
#: Columns of the sample of triples, and of token occurrences.
_TRIPLES = ("layer", "head", "weight", "norm", "category")
_OCCURRENCES = ("frequency_rank", "frequency_weight", "frequency_norm")


def write_encoder_files(folder: Path, statistics: Mapping[str, Any], points: Mapping[str, NDArray[Any]]) -> None:
    """Writes the folder that ``read_encoder_files`` reads."""
    with atomic_directory(folder, KIND) as temporary:
        write_json(temporary / STATISTICS, statistics)
        with (temporary / POINTS).open("wb") as file:
            np.savez(file, **points)  # type: ignore[arg-type]


def read_encoder_files(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the statistics of an encoder and its samples; raises ``InputError`` if anything is wrong."""
    if read_seal(folder) is not None:
        Seal.of(folder, KIND, _ADVICE).check_all()
    path = folder / STATISTICS
    statistics = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        _check_statistics(statistics)
    path = folder / POINTS
    points = read_arrays(path, _ADVICE)
    with taking(path, _ADVICE):
        _check_points(points, len(statistics["categories"]))
    return statistics, points


def _check_statistics(content: dict[str, Any]) -> None:
    """Raises unless everything that the tables, figures and claims need is there."""
    facts = values.mapping(content, "facts")
    if not values.text(facts, "encoder").isprintable() or "/" in facts["encoder"]:
        raise ValueError(f"encoder is {facts['encoder']!r}, not a name")
    values.text(facts, "model_type")
    layers, heads, *_ = (values.whole(facts, key, least=1) for key in ("layers", "heads", "dim", "sequences", "tokens"))
    if facts["frequency"] is not None:
        values.text(facts, "frequency")
    categories = values.texts(content, "categories")
    if not categories or len(set(categories)) < len(categories) or not set(categories) <= _CATEGORIES:
        raise ValueError(f"categories are {', '.join(categories)[:60]!r}")
    by_layer, by_head = (layers,), (layers, heads)
    correlations = values.mapping(content, "correlations")
    for name in categories:
        correlation = values.mapping(correlations, name)
        _check_array(correlation, "by_layer", by_layer)
        values.number_or_nan(correlation, "rho", -1, 1)
        for key in ("sequences", "sequences_used", "triples", "used"):
            values.whole(correlation, key)
        correlation["exact"]
    dispersion = values.mapping(content, "dispersion")
    for kind, shape in (("inputs", by_layer), ("transformed", by_head)):
        spread = values.mapping(dispersion, kind)
        for key in _SPREAD:
            _check_array(spread, key, shape, missing=False)
        for key in ("mean", "deviation", "cv"):
            values.number(values.mapping(spread, "average"), key)
    frequency = values.mapping(content, "frequency")
    values.number_or_nan(frequency, "rho_norms", -1, 1), values.number_or_nan(frequency, "rho_weights", -1, 1)
    values.number(values.mapping(content, "identity"), "largest_error", 0)
    singular = values.mapping(content, "singular_values")
    for key in ("largest", "smallest", "ratio"):
        _check_array(singular, key, by_head, missing=False)
    values.number(singular, "smallest_ratio"), values.number(singular, "mean_ratio")
    shares = values.mapping(content, "shares")
    for place, shape in (("by_layer", by_layer), ("by_head", by_head)):
        for kind in ("weights", "norms", "norm_totals"):
            _check_categories(values.mapping(shares, place), kind, categories, shape)
    _check_categories(shares, "tokens", categories, ())
    for kind in ("weights", "norms"):
        _check_categories(values.mapping(content, "means"), kind, categories, by_layer)


def _check_categories(content: Mapping[str, Any], key: str, categories: Sequence[str], shape: tuple[int, ...]) -> None:
    group = values.mapping(content, key)
    for name in categories:
        _check_array(group, name, shape)


def _check_array(content: Mapping[str, Any], key: str, shape: tuple[int, ...], missing: bool = True) -> None:
    """Raises unless there are numbers of this shape; null means not computable, where that is allowed."""
    if not shape:
        if content[key] is not None or not missing:
            values.number(content, key)
        return
    value = content[key]
    if not isinstance(value, list) or len(value) != shape[0]:
        raise ValueError(f"{key} is not a list of {shape[0]}")
    for place in range(shape[0]):
        _check_array({key: value[place]}, key, shape[1:], missing)


def _check_points(points: Mapping[str, NDArray[Any]], categories: int) -> None:
    for columns in (_TRIPLES, _OCCURRENCES):
        size = points[columns[0]].shape
        for name in columns:
            column = points[name]
            if column.ndim != 1 or column.shape != size:
                raise ValueError(f"{name} has shape {column.shape}, not one number per point")
            if column.dtype.kind not in "if" or not np.isfinite(column).all() or (column < 0).any():
                raise ValueError(f"{name} holds values other than numbers from 0 up")
    if points["category"].dtype.kind != "i" or (points["category"] >= categories).any():
        raise ValueError(f"category holds values other than numbers below {categories}")
    if not (points["weight"] > 0).any():
        raise ValueError("no point has a weight")
