"""The encoders of a results folder, and what their statistics say about the claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.encoders.files import read_encoder_files
from alignlens.results.paths import MODEL_STATISTICS, PRETRAINED_STATISTICS
from alignlens.studies.claims import NOT_TESTABLE, REPRODUCED, Finding, all_of
from alignlens.studies.kobayashi2020.encoder_claim_tests import TESTS
from alignlens.studies.kobayashi2020.encoder_tables import is_bert_base, is_pretrained
from alignlens.studies.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest
    from alignlens.studies.kobayashi2020.encoder_tables import Statistics


@dataclass(frozen=True)
class EncoderResult:
    """What ``alignlens encoder`` measured, and its samples for figures."""

    name: str
    statistics: Statistics
    points: dict[str, NDArray[Any]]


def read_encoders(manifest: Manifest) -> list[EncoderResult]:
    """Returns the encoders of a manifest: that of the paper first, then others of its kind, then ours."""
    files = [path for place in (PRETRAINED_STATISTICS, MODEL_STATISTICS) for path, _ in manifest.find(place)]
    results = [_read(path.parent) for path in files]
    return sorted(
        results, key=lambda each: (not is_bert_base(each.statistics), not is_pretrained(each.statistics), each.name)
    )


def _read(folder: Path) -> EncoderResult:
    statistics, points = read_encoder_files(folder)
    return EncoderResult(str(statistics["facts"]["encoder"]), statistics, points)


def judge_encoders(results: Sequence[EncoderResult]) -> dict[str, Finding]:
    """Returns the finding on every claim about encoders: that of the first one that can be asked, K15 of all.

    The verdicts of the others are beside it.
    """
    if not results:
        missing = Finding(remark="no encoder was measured (encoders of the configuration)")
        return dict.fromkeys(TESTS, missing)
    return {claim: _joined(claim, [(each.name, TESTS[claim](each.statistics)) for each in results]) for claim in TESTS}


def _joined(claim: str, findings: Sequence[tuple[str, Finding]]) -> Finding:
    asked = [(name, finding) for name, finding in findings if finding.verdict != NOT_TESTABLE]
    if not asked:
        return findings[0][1]
    name, first = asked[0]
    tally, judged = first.tally, first.verdict
    if claim == "K15":
        tally = sum((finding.tally for _, finding in asked), Tally())
        judged = all_of(finding.verdict for _, finding in asked)
    beside = (f"{other} {'holds' if each.verdict == REPRODUCED else 'fails'}: {each.numbers}" for other, each in asked)
    return Finding(judged, tally, f"{name}: {first.numbers}", "; ".join(beside), first.remark)
