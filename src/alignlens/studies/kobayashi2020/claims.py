"""The verdicts: every claim of the paper against the numbers of a results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.claims import Finding, claims_of, verdict_of
from alignlens.studies.kobayashi2020.published import STUDY
from alignlens.studies.kobayashi2020.rules import RULES, Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.claims import Verdict
    from alignlens.studies.kobayashi2020.layers import Curve
    from alignlens.studies.kobayashi2020.shares import Share
    from alignlens.studies.results import Results


def judge(results: Results, curves: Sequence[Curve], shares: Sequence[Share]) -> list[Verdict]:
    """Returns the verdict on every claim."""
    evidence = Evidence.of(results, curves, shares)
    missing = "" if curves else "no Transformer with layers attributed (study kobayashi2020 of the configuration)"
    return [
        verdict_of(claim, RULES[claim.id](evidence) if claim.id in RULES else Finding(None), missing)
        for claim in claims_of(STUDY)
    ]
