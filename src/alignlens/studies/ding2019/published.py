"""The numbers in print, and the statements made of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alignlens.io.text import read_lines
from alignlens.studies.ding2019.layout import FORCED

_FOLDER = Path(__file__).parents[1] / "published" / "ding2019"


@dataclass(frozen=True)
class Printed:
    """A number in print; ``tuned``: the noise was chosen on sentences of this very cell."""

    value: float
    tuned: bool
    provenance: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper in our words, how it is tested, and what the printed numbers say to it."""

    id: str
    claim: str
    test: str
    pass_rule: str
    published: str
    print_passes: str
    priority: str


@cache
def error_rates(decoding: str) -> dict[tuple[str, str, str, str], Printed]:
    """Returns Table 1 (forced) or 2 (free) by architecture, method, language pair and column."""
    return {
        (row["architecture"], row["method"], row["pair"], row["column"]): Printed(
            float(row["aer"]), row["tuned"] == "yes", row["provenance"]
        )
        for row in _rows("table1.csv" if decoding == FORCED else "table2.csv")
    }


@cache
def entropies() -> dict[tuple[str, str, str], float]:
    """Returns Table 3 by architecture, decoding and setting: ``attention`` or a noise level."""
    return {
        (row["architecture"], row["decoding"], row["setting"]): float(row["entropy"]) for row in _rows("table3.csv")
    }


@cache
def claims() -> tuple[Claim, ...]:
    """Returns the statements D01 to D23."""
    return tuple(Claim(**row) for row in _rows("claims.csv"))


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(read_lines(_FOLDER / name)))
