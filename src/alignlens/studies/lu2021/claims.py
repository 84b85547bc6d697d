"""The verdicts: every claim of the paper against the numbers of a results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.claims import claims_of, verdict_of
from alignlens.studies.lu2021 import attention_claim_tests, bleu_claim_tests

if TYPE_CHECKING:
    from alignlens.studies.claims import Verdict
    from alignlens.studies.lu2021.evidence import Evidence

TESTS = {**bleu_claim_tests.TESTS, **attention_claim_tests.TESTS}


def judge(evidence: Evidence) -> list[Verdict]:
    """Returns the verdict on every claim."""
    return [verdict_of(claim, TESTS[claim.id](evidence)) for claim in claims_of("lu2021")]
