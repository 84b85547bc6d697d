"""The numbers in print."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from alignlens.studies.claims import published_rows

STUDY = "lu2021"


class PrintedText(NamedTuple):
    """A row of Table 1: pairs for training, dev and test, and pieces of the vocabulary."""

    source: str
    direction: str
    train: int
    dev: int
    test: int
    vocabulary: int


class PrintedBleu(NamedTuple):
    """BLEU of a system, and whether the paper calls its difference from the baseline significant (p < 0.05)."""

    value: float
    significant: bool
    quoted: bool


@cache
def texts() -> tuple[PrintedText, ...]:
    """Returns Table 1."""
    return tuple(
        PrintedText(row["source"], row["direction"], *(int(row[name]) for name in PrintedText._fields[2:]))
        for row in published_rows(STUDY, "table1.csv")
    )


@cache
def bleu(number: int) -> dict[tuple[str, str], PrintedBleu]:
    """Returns Table 2, 3 or 4 by system and test set, both in the order of print."""
    return {
        (row["system"], row["test_set"]): PrintedBleu(
            float(row["bleu"]), row["significant"] == "yes", row["provenance"] == "quoted"
        )
        for row in published_rows(STUDY, f"table{number}.csv")
    }


@cache
def entropy_changes() -> dict[tuple[str, str], float]:
    """Returns Table 5 by layer (from 1, or ``all``) and direction."""
    return {(row["layer"], row["direction"]): float(row["change"]) for row in published_rows(STUDY, "table5.csv")}


@cache
def stated() -> dict[str, float]:
    """Returns the numbers that only the text states, by name."""
    return {row["name"]: float(row["value"]) for row in published_rows(STUDY, "text.csv")}
