"""The verdicts: every claim of the paper against the numbers of a results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.claims import claims_of, verdict_of
from alignlens.studies.kobayashi2020.claim_tests import TESTS, LayerEvidence
from alignlens.studies.kobayashi2020.encoders import judge_encoders
from alignlens.studies.kobayashi2020.published import STUDY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.claims import Verdict
    from alignlens.studies.kobayashi2020.encoders import EncoderResult
    from alignlens.studies.kobayashi2020.layers import Curve
    from alignlens.studies.kobayashi2020.shares import Share


def judge(
    results: Results, curves: Sequence[Curve], shares: Sequence[Share], encoders: Sequence[EncoderResult]
) -> list[Verdict]:
    """Returns the verdict on every claim."""
    evidence = LayerEvidence.of(results, curves, shares)
    findings = judge_encoders(encoders) | {claim: rule(evidence) for claim, rule in TESTS.items()}
    missing = "" if curves else "no layers of a Transformer were attributed"
    return [verdict_of(claim, findings[claim.id], missing if claim.id in TESTS else "") for claim in claims_of(STUDY)]
