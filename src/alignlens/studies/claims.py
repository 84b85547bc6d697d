"""Claims of a paper, how they are tested, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from alignlens.io.tables import read_table
from alignlens.studies.registry import study_of
from alignlens.studies.tally import FAILED, HELD, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not reproduced", "undecided"
NOT_TESTABLE = "not testable here"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, UNDECIDED, NOT_TESTABLE)
COLUMNS = (
    "id", "claim", "verdict", "held", "failed", "within_noise", "exact", "by_dataset", "numbers", "details", "reason",
    "test", "pass_rule", "published", "priority", "where", "decided_by",
)  # fmt: skip
COMPARISON_COLUMNS = ("claim", "dataset", "column", "what", "claimed", "margin", "low", "high", "outcome")

PassRule = Callable[[int, int], bool]
"""Whether a claim holds if ``held`` of ``total`` cases do. One more case that holds never counts against it."""


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
    where: str
    """Where the paper makes it."""
    decided_by: str
    """The figures and tables whose numbers decide it, as ``studies.exhibits`` reads it."""


@cache
def claims_of(study: str) -> tuple[Claim, ...]:
    """Returns the statements of a paper."""
    names = [field.name for field in fields(Claim)]
    rows = published_rows(study, "claims.csv", names)
    return tuple(Claim(**{name: row[name] for name in names}) for row in rows)


def published_rows(study: str, name: str, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Returns the rows of a file of published numbers."""
    return read_table(study_of(study).folder / "printed" / name, "Install alignlens again.", columns)


def every(held: int, total: int) -> bool:
    """The rule that all cases must hold."""
    return held == total


def more_than(share: float) -> PassRule:
    """Returns the rule that more than a share of the cases must hold."""
    return lambda held, total: held > share * total


def at_least(number: int) -> PassRule:
    """Returns the rule that some cases must hold."""
    return lambda held, total: held >= number


def verdict(rule: PassRule, outcomes: Iterable[str]) -> str:
    """Returns what a rule says to the outcomes of cases, if noise cannot change it.

    All cases within noise are taken to hold, then to fail. Every rule is such that a case that holds never counts
    against the claim, so that all other ways lie between these two. What is no such rule ("between 8 and 22") is
    written as comparisons that must all hold.
    """
    cases = list(outcomes)
    if not cases:
        return NOT_TESTABLE
    sure, possible = cases.count(HELD), len(cases) - cases.count(FAILED)
    worst, best = rule(sure, len(cases)), rule(possible, len(cases))
    return UNDECIDED if worst != best else REPRODUCED if worst else NOT_REPRODUCED


def all_of(verdicts: Iterable[str]) -> str:
    """Returns the verdict on a claim all of whose parts must be reproduced; untestable ones do not count."""
    known = set(verdicts) - {NOT_TESTABLE}
    return next((name for name in (NOT_REPRODUCED, UNDECIDED, REPRODUCED) if name in known), NOT_TESTABLE)


def any_of(verdicts: Iterable[str]) -> str:
    """Returns the verdict on a claim one of whose parts must be reproduced, in the same way."""
    known = set(verdicts) - {NOT_TESTABLE}
    return next((name for name in (REPRODUCED, UNDECIDED, NOT_REPRODUCED) if name in known), NOT_TESTABLE)


@dataclass(frozen=True)
class Finding:
    """What a test found; not testable where the numbers for it are missing."""

    verdict: str = NOT_TESTABLE
    tally: Tally = field(default_factory=Tally)
    numbers: str = ""
    details: str = ""
    """Numbers of each dataset."""
    remark: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim, its verdict here, and why."""

    claim: Claim
    verdict: str
    tally: Tally = field(default_factory=Tally)
    numbers: str = ""
    details: str = ""
    reason: str = ""

    @property
    def by_dataset(self) -> str:
        """How many comparisons held, failed and are within noise in each dataset."""
        return self.tally.by_dataset()

    def record(self) -> dict[str, Any]:
        """Returns the verdict as a row of claims.csv."""
        counts = {outcome.replace(" ", "_"): count for outcome, count in self.tally.counts().items()}
        record = {**vars(self.claim), **vars(self), **counts, "claim": self.claim.claim}
        return {name: {**record, "exact": self.tally.exact, "by_dataset": self.by_dataset}[name] for name in COLUMNS}

    def comparisons(self) -> list[dict[str, Any]]:
        """Returns rows of comparisons.csv: positive margins are on the side of the claim."""
        return [
            {
                "claim": self.claim.id,
                **vars(case.place),
                "claimed": comparison.claimed,
                **{name: _rounded(getattr(comparison, name)) for name in ("margin", "low", "high")},
                "outcome": f"{comparison.outcome}, exact" if comparison.exact else comparison.outcome,
            }
            for case in self.tally.cases
            for comparison in case.comparisons
        ]


def verdict_of(claim: Claim, finding: Finding, missing: str = "") -> Verdict:
    """Returns the verdict on a claim; ``missing`` says why there may be no finding."""
    if finding.verdict == NOT_TESTABLE:
        reason = missing or finding.remark or "no cell has all the numbers that the test compares"
        return Verdict(claim, NOT_TESTABLE, reason=reason)
    reason = "; ".join(part for part in (_not_in_print(claim, finding), finding.remark) if part)
    return Verdict(claim, finding.verdict, finding.tally, finding.numbers, finding.details, reason)


def counted_cases(tally: Tally, rule: PassRule = every, unit: str = "cells", **more: str) -> Finding:
    """Returns the finding of a claim about how many cases hold."""
    return Finding(verdict(rule, outcomes(tally)), tally, **{"numbers": tally.text(unit), **more})


def outcomes(tally: Tally) -> list[str]:
    """Returns the outcome of every case."""
    return [case.outcome for case in tally.cases]


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Returns how many claims got each verdict."""
    return {name: sum(item.verdict == name for item in verdicts) for name in VERDICTS}


def records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Returns the rows of claims.csv."""
    return [verdict.record() for verdict in verdicts]


def comparison_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Returns the rows of comparisons.csv."""
    return [row for verdict in verdicts for row in verdict.comparisons()]


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _not_in_print(claim: Claim, finding: Finding) -> str:
    if finding.verdict != NOT_REPRODUCED or claim.print_passes != "no":
        return ""
    return "the printed numbers do not pass this rule either"
