"""Tables 1, 2 and 4 and the singular values of an encoder, beside the numbers in print, without any form.

``Statistics`` is the content of ``statistics.json`` as ``alignlens encoder`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from alignlens.studies.kobayashi2020 import encoder_published as published
from alignlens.studies.kobayashi2020.encoder_published import Correlation, PlacedSpread, Spread

Statistics = Mapping[str, Any]

_BERT_BASE = {"encoder": "bert-base-uncased", "layers": 12, "heads": 12, "dim": 768}


@dataclass(frozen=True)
class SpreadRow:
    """The ``largest`` or ``smallest`` coefficient of variation, or the ``average``: ours and the printed one."""

    name: str
    ours: PlacedSpread
    printed: PlacedSpread


@dataclass(frozen=True)
class CorrelationRow:
    """A category of tokens; ``rho`` is None where it cannot be computed, ``printed`` where print has no such row."""

    category: str
    rho: float | None
    triples: int
    used: int
    sequences: int
    sequences_used: int
    exact: bool
    printed: Correlation | None


@dataclass(frozen=True)
class SingularRow:
    """Extremes over the heads of a layer, counted from 1, or of all layers (None); the ratio is that of one head."""

    layer: int | None
    largest: float
    smallest: float
    smallest_ratio: float
    mean_ratio: float
    largest_ratio: float
    printed_smallest_ratio: float | None


def is_bert_base(statistics: Statistics) -> bool:
    """Returns whether the encoder is the one of the paper."""
    return all(statistics["facts"].get(name) == value for name, value in _BERT_BASE.items())


def is_pretrained(statistics: Statistics) -> bool:
    """Returns whether the encoder learned a language, as that of the paper did, and not to translate."""
    return bool(statistics["facts"]["model_type"] != "transformer")


def table1(statistics: Statistics) -> tuple[SpreadRow, ...]:
    """Returns the spread of transformed vectors: the two extreme heads and the average over heads."""
    spreads = statistics["dispersion"]["transformed"]
    heads = [
        PlacedSpread(layer, head, Spread(*figures))
        for layer, rows in enumerate(zip(*_figures(spreads), strict=True), start=1)
        for head, figures in enumerate(zip(*rows, strict=True), start=1)
    ]
    return _extremes(heads, spreads["average"], published.transformed_spreads())


def table4(statistics: Statistics) -> tuple[SpreadRow, ...]:
    """Returns the spread of input vectors: the two extreme layers and the average over layers."""
    spreads = statistics["dispersion"]["inputs"]
    layers = [
        PlacedSpread(layer, None, Spread(*figures))
        for layer, figures in enumerate(zip(*_figures(spreads), strict=True), start=1)
    ]
    return _extremes(layers, spreads["average"], published.input_spreads())


def _figures(spreads: Mapping[str, Any]) -> list[Any]:
    return [spreads[name] for name in ("mean", "deviation", "cv", "max", "min")]


def _extremes(
    rows: list[PlacedSpread], average: Mapping[str, float], printed: Mapping[str, PlacedSpread]
) -> tuple[SpreadRow, ...]:
    by_cv = sorted(rows, key=lambda row: row.spread.cv)
    mean = PlacedSpread(None, None, Spread(average["mean"], average["deviation"], average["cv"]))
    chosen = {"largest": by_cv[-1], "smallest": by_cv[0], "average": mean}
    return tuple(SpreadRow(name, ours, printed[name]) for name, ours in chosen.items())


def table2(statistics: Statistics) -> tuple[CorrelationRow, ...]:
    """Returns the rank correlation of weights and norms for every category of the encoder's tokens."""
    printed = published.correlations()
    by_category = statistics["correlations"]
    names = ("rho", "triples", "used", "sequences", "sequences_used", "exact")
    return tuple(
        CorrelationRow(category, **{name: by_category[category][name] for name in names}, printed=printed.get(category))
        for category in statistics["categories"]
    )


def singular_table(statistics: Statistics) -> tuple[SingularRow, ...]:
    """Returns the singular values of every layer, then of all."""
    numbers = statistics["singular_values"]
    printed = published.stated()["smallest_singular_ratio"]
    layers = range(len(numbers["ratio"]))
    rows = [_singular_row(numbers, [layer], layer + 1, None) for layer in layers]
    return (*rows, _singular_row(numbers, layers, None, printed))


def _singular_row(
    numbers: Mapping[str, Any], layers: Iterable[int], number: int | None, printed: float | None
) -> SingularRow:
    """Returns the row of some layers together."""
    places = list(layers)
    largest, smallest, ratio = (
        [value for layer in places for value in numbers[name][layer]] for name in ("largest", "smallest", "ratio")
    )
    return SingularRow(number, max(largest), min(smallest), min(ratio), fmean(ratio), max(ratio), printed)
