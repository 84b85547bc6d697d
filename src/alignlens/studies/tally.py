"""Comparisons counted over many cells."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_NAMED = 4


@dataclass(frozen=True)
class Place:
    """Where a comparison happens: a column of a dataset, for one seed of the models (or their mean)."""

    dataset: str
    column: str
    seed: str = ""
    what: str = ""

    def __str__(self) -> str:
        seed = f"seed {self.seed}" if self.seed else ""
        return " ".join(part for part in (self.dataset, self.column, self.what, seed) if part)


@dataclass
class Tally:
    """How many comparisons held, by dataset; those without both numbers are counted apart."""

    held: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    failed: list[Place] = field(default_factory=list)
    missing: int = 0

    def add(self, place: Place, holds: bool | None) -> None:
        """Counts one comparison; None if a number for it is missing."""
        if holds is None:
            self.missing += 1
            return
        self.made[place.dataset] = self.made.get(place.dataset, 0) + 1
        self.held[place.dataset] = self.held.get(place.dataset, 0) + holds
        if not holds:
            self.failed.append(place)

    @property
    def hits(self) -> int:
        """Comparisons that held."""
        return sum(self.held.values())

    @property
    def total(self) -> int:
        """Comparisons made."""
        return sum(self.made.values())

    def text(self, unit: str = "cells") -> str:
        """Returns the count in words, with the first failures by name."""
        told = f"{self.hits} of {self.total} {unit}"
        if self.failed and len(self.failed) < self.total:
            named = ", ".join(map(str, self.failed[:MOST_NAMED]))
            more = f" and {len(self.failed) - MOST_NAMED} more" if len(self.failed) > MOST_NAMED else ""
            told += f" (not: {named}{more})"
        return told + (f"; {self.missing} without numbers" if self.missing else "")

    def by_dataset(self) -> str:
        """Returns the counts of each dataset."""
        return "; ".join(f"{name} {self.held[name]} of {made}" for name, made in sorted(self.made.items()))
