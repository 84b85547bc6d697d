"""Comparisons, the outcome of each, and how many of them held, failed, or are within noise."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alignlens.metrics.sampled import Sampled

HELD, FAILED, NOISE = "held", "failed", "within noise"
OUTCOMES = (HELD, FAILED, NOISE)
MOST_NAMED = 4


@dataclass(frozen=True)
class Place:
    """Where a comparison happens: a column of a dataset, for one model or method; seeds are averaged."""

    dataset: str
    column: str = ""
    what: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.dataset, self.column, self.what) if part)


@dataclass(frozen=True)
class Comparison:
    """How far a number lies on the side that is claimed, and the interval of that; nan limits if it is exact."""

    margin: float
    low: float = math.nan
    high: float = math.nan
    strict: bool = True
    """Whether a margin of zero is not enough."""
    claimed: str = ""
    """Which of several comparisons of a case it is."""

    @property
    def exact(self) -> bool:
        """Whether there is nothing that could be drawn again, so that it held or failed for good."""
        return math.isnan(self.low)

    @property
    def holds(self) -> bool:
        """Whether the margin itself is on the side that is claimed."""
        return self.margin > 0 or (self.margin == 0 and not self.strict)

    @property
    def outcome(self) -> str:
        """Whether it held, failed, or its interval includes zero."""
        if self.exact or (self.low > 0 if self.holds else self.high < 0):
            return HELD if self.holds else FAILED
        return NOISE


@dataclass(frozen=True)
class Case:
    """What a rule counts: a comparison, or several that must all hold."""

    place: Place
    comparisons: tuple[Comparison, ...]

    @property
    def outcome(self) -> str:
        """It failed if any comparison failed, and held if all held."""
        outcomes = {comparison.outcome for comparison in self.comparisons}
        return FAILED if FAILED in outcomes else NOISE if NOISE in outcomes else HELD

    @property
    def exact(self) -> bool:
        """Whether no comparison has an interval."""
        return all(comparison.exact for comparison in self.comparisons)


@dataclass
class Tally:
    """All cases of a claim, compared at one level; those without all numbers are counted apart."""

    level: float = 95
    cases: list[Case] = field(default_factory=list)
    missing: int = 0

    def below(self, left: Sampled | None, right: Sampled | float | None, claimed: str = "") -> Comparison | None:
        """Returns the comparison that claims left < right; None if a number for it is missing."""
        return None if left is None or right is None else self._compared(-left + right, claimed)

    def above(self, left: Sampled | None, right: Sampled | float | None, claimed: str = "") -> Comparison | None:
        """Returns the comparison that claims left > right."""
        return None if left is None or right is None else self._compared(left - right, claimed)

    def at_most(self, left: Sampled | None, right: Sampled | float | None, claimed: str = "") -> Comparison | None:
        """Returns the comparison that claims left <= right."""
        return None if left is None or right is None else self._compared(-left + right, claimed, strict=False)

    def at_least(self, left: Sampled | None, right: Sampled | float | None, claimed: str = "") -> Comparison | None:
        """Returns the comparison that claims left >= right."""
        return None if left is None or right is None else self._compared(left - right, claimed, strict=False)

    def rising(self, values: Mapping[str, Sampled | None]) -> list[Comparison | None]:
        """Returns the comparisons that claim that each number is below the next one."""
        return [
            self.below(value, other, f"{name} below {following}")
            for (name, value), (following, other) in pairwise(values.items())
        ]

    def _compared(self, margin: Sampled, claimed: str, strict: bool = True) -> Comparison | None:
        if math.isnan(margin.value):
            return None
        return Comparison(margin.value, *(margin.interval(self.level) or (math.nan, math.nan)), strict, claimed)

    def add(self, place: Place, *comparisons: Comparison | None) -> None:
        """Counts one case, whose comparisons must all hold."""
        known = tuple(comparison for comparison in comparisons if comparison is not None)
        if len(known) < len(comparisons):
            self.missing += 1
        else:
            self.cases.append(Case(place, known))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.level, [*self.cases, *other.cases], self.missing + other.missing)

    @property
    def total(self) -> int:
        """Cases with all numbers."""
        return len(self.cases)

    def counts(self) -> dict[str, int]:
        """Returns how many cases had each outcome."""
        counted = Counter(case.outcome for case in self.cases)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    @property
    def exact(self) -> int:
        """Cases without an interval."""
        return sum(case.exact for case in self.cases)

    def text(self, unit: str = "cells") -> str:
        """Returns the counts in words, with the first cases that did not hold by name."""
        counts = self.counts()
        noise = f", {counts[NOISE]} within noise" if counts[NOISE] else ""
        named = "; ".join(self._named())
        return (
            f"{counts[HELD]} of {self.total} {unit}{noise}"
            + (f" ({named})" if named else "")
            + (f"; {self.missing} without numbers" if self.missing else "")
        )

    def _named(self) -> Iterator[str]:
        """Yields the cases of an outcome, unless all have it."""
        for outcome, label in ((FAILED, "not"), (NOISE, "within noise")):
            places = [case.place for case in self.cases if case.outcome == outcome]
            if places and len(places) < self.total:
                more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
                yield f"{label}: {', '.join(map(str, places[:MOST_NAMED]))}{more}"

    def by_dataset(self) -> str:
        """Returns the outcomes of each dataset."""
        return "; ".join(
            f"{dataset}: {Tally(self.level, [case for case in self.cases if case.place.dataset == dataset]).outcomes()}"
            for dataset in sorted({case.place.dataset for case in self.cases})
        )

    def outcomes(self) -> str:
        """Returns the outcomes in words; exact ones are named as such."""
        counted = ", ".join(f"{count} {outcome}" for outcome, count in self.counts().items() if count)
        if not self.exact:
            return counted
        return f"{counted} ({'exact' if self.exact == self.total else f'{self.exact} exact'})"
