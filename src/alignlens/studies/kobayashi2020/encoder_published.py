"""The numbers in print about BERT (Kobayashi et al. 2020, section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from alignlens.studies.claims import published_rows
from alignlens.studies.kobayashi2020.published import STUDY

_FIGURES = ("mean", "deviation", "cv", "max", "min")


@dataclass(frozen=True)
class Spread:
    """How norms spread; nan where there is no such number."""

    mean: float
    deviation: float
    cv: float
    max: float = math.nan
    min: float = math.nan


@dataclass(frozen=True)
class PlacedSpread:
    """The spread of one head (or of the inputs of one layer), counted from 1; of none for the average."""

    layer: int | None
    head: int | None
    spread: Spread


@dataclass(frozen=True)
class Correlation:
    """A rank correlation and the number of triples that it is over."""

    rho: float
    triples: int


@cache
def transformed_spreads() -> dict[str, PlacedSpread]:
    """Returns Table 1: the heads of ``largest`` and ``smallest`` coefficient of variation, and the ``average``."""
    return _spreads("table1.csv")


@cache
def input_spreads() -> dict[str, PlacedSpread]:
    """Returns Table 4, the same for the inputs of layers."""
    return _spreads("table4.csv")


@cache
def correlations() -> dict[str, Correlation]:
    """Returns Table 2 by category of token."""
    return {
        row["category"]: Correlation(float(row["rho"]), int(row["triples"]))
        for row in published_rows(STUDY, "table2.csv")
    }


@cache
def stated() -> dict[str, float]:
    """Returns the numbers that only the text states, by name."""
    return {row["name"]: float(row["value"]) for row in published_rows(STUDY, "text.csv")}


def _spreads(name: str) -> dict[str, PlacedSpread]:
    return {
        row["row"]: PlacedSpread(
            _integer(row["layer"]),
            _integer(row.get("head", "")),
            Spread(*(float(row[figure]) if row[figure] else math.nan for figure in _FIGURES)),
        )
        for row in published_rows(STUDY, name)
    }


def _integer(text: str) -> int | None:
    return int(text) if text else None
