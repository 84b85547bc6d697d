"""The numbers in print."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from alignlens.studies.claims import published_rows

STUDY = "snell2021"


@dataclass(frozen=True)
class Printed:
    """A number in print; an asterisk says that a second run never agrees as much."""

    value: float
    starred: bool = False


class Size(NamedTuple):
    """How long the texts of a split are, in the middle, and how many there are; nan where there is no such number."""

    source: float
    target: float
    examples: float


@dataclass(frozen=True)
class CounterExample:
    """Logits of three words (the target first) if all attention sat on one position, and the optimal attention."""

    logits: tuple[tuple[float, ...], ...]
    optimum: tuple[float, ...]


@cache
def agreements(stem: str) -> dict[tuple[str, str, str], Printed]:
    """Returns a table of agreements by task, what a column has, and quantity."""
    return {
        (row["task"], row["what"], row["quantity"]): Printed(float(row["value"]), row["starred"] == "yes")
        for row in published_rows(STUDY, f"{stem}.csv")
    }


@cache
def sizes() -> dict[tuple[str, str], Size]:
    """Returns Table 9 by task and split."""
    return {
        (row["task"], row["split"]): Size(*(_number(row[name]) for name in Size._fields))
        for row in published_rows(STUDY, "table9a.csv")
    }


@cache
def vocabularies() -> dict[str, int]:
    """Returns the sizes of vocabularies by task."""
    return {row["task"]: int(row["vocabulary"]) for row in published_rows(STUDY, "table9b.csv")}


@cache
def stated() -> dict[str, float]:
    """Returns the numbers that only the text states, by name."""
    return {row["name"]: float(row["value"]) for row in published_rows(STUDY, "text.csv")}


@cache
def counter_example() -> CounterExample:
    """Returns the example of appendix A.1."""
    rows = published_rows(STUDY, "counterexample.csv")
    return CounterExample(
        tuple(tuple(float(row[name]) for name in ("target", "second", "third")) for row in rows),
        tuple(float(row["optimum"]) for row in rows),
    )


def _number(text: str) -> float:
    return float(text) if text else math.nan
