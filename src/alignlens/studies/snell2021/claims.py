"""The verdicts: every claim of the paper against the numbers of a results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.studies.claims import claims_of, verdict_of
from alignlens.studies.snell2021 import claim_tests, copy_claim_tests, network_claim_tests, theory_claim_tests
from alignlens.studies.snell2021.published import STUDY

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.studies.claims import Finding, Verdict
    from alignlens.studies.snell2021.evidence import Evidence

TESTS: dict[str, Callable[[Evidence], Finding]] = {
    **claim_tests.TESTS,
    **copy_claim_tests.TESTS,
    **network_claim_tests.TESTS,
    **theory_claim_tests.TESTS,
}


def judge(evidence: Evidence) -> list[Verdict]:
    """Returns the verdict on every claim."""
    return [verdict_of(claim, TESTS[claim.id](evidence)) for claim in claims_of(STUDY)]
