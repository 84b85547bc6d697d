"""What the tables of all studies share: cells of measured numbers, and the table of claims."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, UNDECIDED
from alignlens.studies.exhibits import deciding, exhibits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.claims import Claim, Verdict
    from alignlens.studies.tables import Estimate

NONE = Cell("–", muted=True)


def measured(ours: Estimate, digits: int) -> Cell:
    """Returns a measured number with its spread, or why there is none."""
    if not ours.known:
        return Cell(ours.reason, muted=True)
    spread = "" if math.isnan(ours.spread) else f" ±{ours.spread:.{digits}f}"
    return Cell(
        f"{ours.mean:.{digits}f}{spread}", ours.mean, detail=f"{ours.seeds} runs" if ours.seeds > 1 else "one run"
    )


def interval(ours: Estimate, digits: int) -> Cell:
    """Returns the bounds of a measured number."""
    if math.isnan(ours.low) or math.isnan(ours.high):
        return NONE
    return Cell(f"{ours.low:.{digits}f}–{ours.high:.{digits}f}", ours.high - ours.low)


def difference(value: float, digits: int, strong: bool) -> Cell:
    """Returns ours minus print."""
    if math.isnan(value):
        return NONE
    # A difference that rounds to nothing has no sign.
    shown = round(value, digits) + 0.0
    text = f"{shown:+.{digits}f}" if shown else f"{0:.{digits}f}"
    return Cell(text, value, strong=strong)


def claims_table(study: str, verdicts: Sequence[Verdict]) -> Table:
    """Returns the verdicts, one row per claim, with the way to the figures and tables that decide it."""
    anchors = {exhibit.label: exhibit.anchor for exhibit in exhibits_of(study)}
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        labels, why_none = deciding(claim.decided_by)
        links = tuple((label, f"#{anchors[label]}") for label in labels)
        rows.append(
            [
                Cell(claim.id, detail=f"{claim.priority}; tested: {claim.test}; passes if: {claim.pass_rule}"),
                Cell(claim.claim),
                Cell(", ".join(labels) or "–", muted=not labels, links=links),
                Cell(
                    verdict.verdict,
                    strong=verdict.verdict == REPRODUCED,
                    muted=verdict.verdict in (NOT_TESTABLE, UNDECIDED),
                    detail=verdict.reason,
                ),
                Cell(verdict.by_dataset or "–", muted=not verdict.by_dataset),
                Cell(verdict.numbers or "–", muted=not verdict.numbers, detail=verdict.details),
                Cell(claim.published, detail=claim.where),
                Cell(claim.pass_rule),
                Cell(verdict.reason or why_none or "–", muted=not (verdict.reason or why_none)),
            ]
        )
    header = ("id", "claim", "decided by", "verdict", "comparisons", "ours", "in print", "passes if", "remark")
    notes = [
        "Cells are columns of the tables for every dataset and model; model seeds and noise seeds are averaged within "
        "a cell. A comparison is within noise if the bootstrap interval of its difference includes zero (or the "
        "number that it is compared with): sentences are resampled, and so are model seeds if there are several. Exact "
        "comparisons have no interval. claims.csv has the tests, comparisons.csv every difference with its interval.",
        f"{UNDECIDED.capitalize()}: the verdict would change if comparisons within noise went the other way.",
        f"{NOT_REPRODUCED.capitalize()} does not mean refuted: the models here may be far smaller than in the paper.",
    ]
    return Table(
        f"{study}-claims",
        "The claims of the paper, tested on the results here",
        header,
        rows,
        notes,
        labels=9,
        anchors=[claim_anchor(verdict.claim) for verdict in verdicts],
    )


def claim_anchor(claim: Claim) -> str:
    """Returns the name of the place of a claim on the page."""
    return f"claim-{claim.id}"
