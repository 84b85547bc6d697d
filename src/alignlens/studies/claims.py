"""Claims of a paper, how they are tested, and the verdicts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from alignlens.io.tables import read_table
from alignlens.studies.registry import study_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.tally import Tally

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
COLUMNS = ("id", "claim", "verdict", "numbers", "reason", "test", "pass_rule", "published", "priority", "by_dataset")


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
def claims_of(study: str) -> tuple[Claim, ...]:
    """Returns the statements of a paper."""
    names = [field.name for field in fields(Claim)]
    rows = published_rows(study, "claims.csv", names)
    return tuple(Claim(**{name: row[name] for name in names}) for row in rows)


def published_rows(study: str, name: str, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Returns the rows of a file of published numbers."""
    return read_table(study_of(study).folder / "printed" / name, "Install alignlens again.", columns)


@dataclass(frozen=True)
class Finding:
    """What a test found; ``passed`` is None where the numbers for it are missing."""

    passed: bool | None
    numbers: str = ""
    by_dataset: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim, what became of it here, and why."""

    claim: Claim
    verdict: str
    numbers: str
    reason: str
    by_dataset: str

    def record(self) -> dict[str, str]:
        """Returns the verdict as a row of claims.csv."""
        values = {name: getattr(self.claim, name) for name in COLUMNS if hasattr(self.claim, name)}
        mine = {name: getattr(self, name) for name in ("verdict", "numbers", "reason", "by_dataset")}
        return {name: {**values, **mine}[name] for name in COLUMNS}


def verdict_of(claim: Claim, finding: Finding, missing: str = "") -> Verdict:
    """Returns the verdict on a claim; ``missing`` says why there may be no finding."""
    if finding.passed is None:
        reason = missing or finding.remark or "no cell has all the numbers that the test compares"
        return Verdict(claim, NOT_TESTABLE, "", reason, "")
    reason = "; ".join(part for part in (_not_in_print(claim, finding), finding.remark) if part)
    verdict = REPRODUCED if finding.passed else NOT_REPRODUCED
    return Verdict(claim, verdict, finding.numbers, reason, finding.by_dataset)


def share(tally: Tally, more_than: float | None = None, unit: str = "cells", remark: str = "") -> Finding:
    """Returns the finding of a count: all must hold, or more than a share."""
    if not tally.total:
        return Finding(None)
    passed = tally.hits == tally.total if more_than is None else tally.hits > more_than * tally.total
    return Finding(passed, tally.text(unit), tally.by_dataset(), remark)


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Returns how many claims got each verdict."""
    return {name: sum(item.verdict == name for item in verdicts) for name in (REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE)}


def records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Returns the rows of claims.csv."""
    return [verdict.record() for verdict in verdicts]


def _not_in_print(claim: Claim, finding: Finding) -> str:
    if finding.passed or claim.print_passes != "no":
        return ""
    return "the printed numbers do not pass this rule either"
