"""The verdicts: every claim of the paper against the numbers of a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignlens.metrics.sampled import Sampled
from alignlens.results.paths import FORCED, FREE
from alignlens.results.protocol import ARCHITECTURES
from alignlens.studies.claims import (
    Claim,
    Finding,
    Verdict,
    all_of,
    at_least,
    claims_of,
    every,
    more_than,
    outcomes,
    verdict,
    verdict_of,
)
from alignlens.studies.ding2019 import claim_tests, entropy_claim_tests, published
from alignlens.studies.ding2019.claim_tests import architecture_order, better
from alignlens.studies.ding2019.evidence import Evidence
from alignlens.studies.ding2019.labels import ATTENTION
from alignlens.studies.ding2019.layout import METHODS, SIGMAS
from alignlens.studies.tally import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.ding2019.labels import LabelChange


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim and what it cannot do without; no architecture named means any of them."""

    test: Callable[[Evidence], Finding]
    architectures: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    decodings: tuple[str, ...] = (FORCED,)
    aligners: tuple[str, ...] = ()
    sigmas: tuple[float, ...] = ()
    entropy: bool = False


_ALL = tuple(ARCHITECTURES)
_BOTH = (FORCED, FREE)
_SALIENCY = ("attention", "ding_grad")
_SMOOTHED = ("attention", "ding_smoothgrad")
_UNSIGNED = ("li_grad", "li_smoothgrad", "ding_smoothgrad")

TESTS: dict[str, ClaimTest] = {
    "D01": ClaimTest(better("ding_smoothgrad", "attention"), methods=_SMOOTHED),
    "D02": ClaimTest(better("ding_smoothgrad", "attention", decoding=FREE), methods=_SMOOTHED, decodings=(FREE,)),
    "D03": ClaimTest(better("ding_grad", "attention", ("fconv",), rule=more_than(1 / 2)), ("fconv",), _SALIENCY),
    "D04": ClaimTest(better("attention", "ding_grad", ("lstm", "transformer")), ("lstm", "transformer"), _SALIENCY),
    "D05": ClaimTest(claim_tests.penalty_by_architecture, _ALL, _SALIENCY),
    "D06": ClaimTest(better("ding_smoothgrad", "ding_grad"), methods=("ding_grad", "ding_smoothgrad")),
    "D07": ClaimTest(
        better("ding_smoothgrad", "ding_grad", decoding=FREE),
        methods=("ding_grad", "ding_smoothgrad"),
        decodings=(FREE,),
    ),
    "D08": ClaimTest(claim_tests.gain_over_attention, methods=_SMOOTHED),
    "D09": ClaimTest(claim_tests.no_better_with_noise, methods=("attention", "smoothed_attention")),
    "D10": ClaimTest(claim_tests.signed_beats_unsigned, ("fconv", "lstm"), _UNSIGNED),
    "D11": ClaimTest(claim_tests.nearly_equal_on_transformer, ("transformer",), ("li_smoothgrad", "ding_smoothgrad")),
    "D12": ClaimTest(claim_tests.giza_is_best, methods=("attention",), aligners=("ibm4 offline", "fast_align offline")),
    "D13": ClaimTest(
        claim_tests.ahead_of_fast_align, ("fconv",), ("ding_smoothgrad",), aligners=("fast_align online",)
    ),
    "D14": ClaimTest(claim_tests.largest_lead, ("fconv",), ("ding_smoothgrad",), aligners=("fast_align online",)),
    "D15": ClaimTest(architecture_order(("attention",)), _ALL, ("attention",)),
    "D16": ClaimTest(architecture_order(tuple(METHODS), more_than(2 / 3)), _ALL, tuple(METHODS)),
    "D17": ClaimTest(entropy_claim_tests.fewer_errors_when_free, methods=("attention",), decodings=_BOTH),
    "D18": ClaimTest(entropy_claim_tests.flatter_with_noise, sigmas=SIGMAS, entropy=True),
    "D19": ClaimTest(
        entropy_claim_tests.sharper_when_free, methods=("attention",), decodings=_BOTH, sigmas=SIGMAS, entropy=True
    ),
    "D20": ClaimTest(entropy_claim_tests.transformer_attention_is_sharpest, _ALL, ("attention",), _BOTH, entropy=True),
    "D21": ClaimTest(claim_tests.middle_noise_is_best, ("transformer",), sigmas=(0.0, 0.15, 0.3)),
    "D22": ClaimTest(claim_tests.sign_matters, methods=("ding_grad", "ding_smoothgrad", "li_grad,reading=abs_dot")),
}


def judge(results: Results, changes: Sequence[LabelChange] = ()) -> list[Verdict]:
    """Returns the verdict on every claim; ``changes`` are those of labels.label_changes."""
    evidence = Evidence(results)
    return [_verdict(claim, evidence, changes) for claim in claims_of(published.STUDY)]


def _verdict(claim: Claim, evidence: Evidence, changes: Sequence[LabelChange]) -> Verdict:
    if claim.id == "D23":
        finding, missing = (
            depends_on_the_word(evidence, changes),
            _missing(evidence, ClaimTest(claim_tests.sign_matters)),
        )
        missing = missing or "no score matrices of the runner-up (label=runner_up) below attributions/"
    else:
        rule = TESTS[claim.id]
        missing = _missing(evidence, rule)
        finding = Finding() if missing else rule.test(evidence)
    return verdict_of(claim, finding, missing)


def _missing(evidence: Evidence, rule: ClaimTest) -> str:
    """Returns the most general thing that a test lacks, or nothing."""
    there = evidence.architectures()
    if not there:
        return "no attributed models"
    if absent := [ARCHITECTURES[name] for name in rule.architectures if name not in there]:
        return f"no {' and no '.join(absent)} model"
    protocol = evidence.results.protocol
    for decoding in rule.decodings:
        runs = evidence.runs(rule.architectures, decoding)
        if not runs:
            return f"no {decoding} decoding"
        measure = evidence.entropy if rule.entropy else evidence.rate
        wanted = [_method(evidence, name) for name in rule.methods] + [protocol.at_sigma(s) for s in rule.sigmas]
        for method in wanted:
            if all(measure(method, links)(run) is None for run in runs for links in _links(evidence, run.dataset)):
                return f"{'no entropy of ' if rule.entropy else ''}{method}{'' if rule.entropy else ' was not run'}"
    present = {f"{run.id.aligner} {run.id.text}" for run in evidence.results.aligners}
    if absent := [name for name in rule.aligners if name not in present]:
        return f"{' and '.join(absent)} {'was' if len(absent) == 1 else 'were'} not run"
    return ""


def _method(evidence: Evidence, name: str) -> str:
    name, _, changes = name.partition(",")
    return evidence.results.protocol.method(name, **dict(part.split("=") for part in changes.split(",") if part))


def _links(evidence: Evidence, dataset: str) -> tuple[str, ...]:
    return evidence.columns(dataset, FREE)


def depends_on_the_word(evidence: Evidence, changes: Sequence[LabelChange]) -> Finding:
    """D23: attention never changes with the word, saliency sometimes does."""
    attention, saliency = evidence.tally(), evidence.tally()
    for change in changes:
        place = Place(change.dataset, change.direction, f"{change.model} seed {change.seed} {change.method}")
        if change.pieces and change.method == ATTENTION:
            # A single change would refute it, so that there is nothing to draw again.
            attention.add(place, attention.at_most(Sampled(change.changed / change.pieces), 0))
        elif change.pieces:
            saliency.add(place, saliency.above(_share(evidence, change), 0))
    if not attention.total or not saliency.total:
        return Finding()
    names = list(dict.fromkeys(change.method for change in changes))
    rates = ", ".join(f"{name} {_rate(change for change in changes if change.method == name)}" for name in names)
    details = "; ".join(
        f"{dataset} "
        + ", ".join(
            f"{name} {_rate(change for change in changes if (change.dataset, change.method) == (dataset, name))}"
            for name in names
        )
        for dataset in sorted({change.dataset for change in changes})
    )
    both = all_of((verdict(every, outcomes(attention)), verdict(at_least(1), outcomes(saliency))))
    return Finding(both, attention + saliency, f"best source piece changes: {rates}", details)


def _share(evidence: Evidence, change: LabelChange) -> Sampled:
    samples = evidence.results.draws.ratio(change.by_sentence[:, 1], change.by_sentence[:, 0])
    return Sampled(change.changed / change.pieces, samples)


def _rate(changes: Iterable[LabelChange]) -> str:
    listed = list(changes)
    pieces = sum(change.pieces for change in listed)
    return f"{100 * sum(change.changed for change in listed) / pieces:.1f} %" if pieces else "not run"
