"""The tests of the claims about heads and keywords: S12 to S14, S16 and S17."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.studies.claims import Finding, at_least, counted_cases, outcomes, verdict
from alignlens.studies.snell2021.copy_claim_tests import TOYS, not_run
from alignlens.studies.snell2021.toys import (
    ALL_BAD,
    EVIDENCE,
    HEADS,
    KEYWORD,
    LEARNED,
    ONE_DIRECTION,
    ONE_GOOD,
    RANDOM_HEADS,
    changes,
)
from alignlens.studies.tally import HELD, Place, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.snell2021.evidence import Evidence
    from alignlens.studies.snell2021.toys import Heads, Keyword

SCENARIO_NAMES = {ALL_BAD: "all bad", ONE_GOOD: "one good", RANDOM_HEADS: "random"}
_CLOSE = 1 / 4


def bad_heads_fail(evidence: Evidence) -> Finding:
    """S12: fewer than half of the runs with bad heads succeed."""
    tally = evidence.tally()
    for toy in evidence.toys.heads:
        tally.add(_place(toy), tally.below(success(evidence, toy, ALL_BAD), 0.5))
    return _heads_finding(evidence, tally, ALL_BAD)


def one_good_head_is_enough(evidence: Evidence) -> Finding:
    """S13: with one good head more than four of five runs succeed, and more than with none."""
    tally = evidence.tally()
    for toy in evidence.toys.heads:
        good, bad = (success(evidence, toy, name) for name in (ONE_GOOD, ALL_BAD))
        tally.add(_place(toy), tally.above(good, 0.8, "above 0.8"), tally.above(good, bad, "above all bad"))
    return _heads_finding(evidence, tally, ONE_GOOD, ALL_BAD)


def many_heads_help(evidence: Evidence) -> Finding:
    """S14: eight random heads succeed more often than one."""
    tally = evidence.tally()
    for toy in evidence.toys.heads:
        tally.add(_place(toy), tally.above(success(evidence, toy, RANDOM_HEADS), single_success(evidence, toy)))
    return _heads_finding(evidence, tally, RANDOM_HEADS)


def success(evidence: Evidence, toy: Heads, scenario: str) -> Sampled | None:
    """Returns the share of runs of a scenario that end above the threshold; None if there are no runs."""
    learned, runs = toy.learned(scenario)
    return evidence.share(f"{toy.name} {scenario}", learned, runs) if runs else None


def single_success(evidence: Evidence, toy: Heads) -> Sampled:
    """Returns the share of single random heads that learn."""
    return evidence.share(f"{toy.name} single", toy.successes, toy.trials)


def _heads_finding(evidence: Evidence, tally: Tally, *scenarios: str) -> Finding:
    if not evidence.toys.heads:
        return not_run(HEADS)
    details = []
    for toy in evidence.toys.heads:
        parts = ["{} {} of {}".format(SCENARIO_NAMES[name], *toy.learned(name)) for name in scenarios]
        details.append(f"{toy.variant}: {', '.join(parts)}, single {toy.successes} of {toy.trials}")
    if not tally.total:
        return Finding(remark="too few good or bad heads were found")
    remark = "; ".join(dict.fromkeys(new for toy in evidence.toys.heads if (new := changes(HEADS, toy.settings))))
    return counted_cases(tally, numbers="; ".join(details), remark=remark)


def _place(toy: Heads) -> Place:
    return Place(TOYS, toy.name, toy.variant)


def keyword_has_the_evidence(evidence: Evidence) -> Finding:
    """S16: at some early step the keyword has the most evidence, the next position less, the last one hardly any."""
    tally = evidence.tally()
    for toy in _keywords(evidence):
        for place in early(toy):
            keyword, after, mean, last = (_evidence(evidence, toy, name, place) for name in EVIDENCE)
            lead = _at(toy, "keyword", place) - _at(toy, "mean", place)
            tally.add(
                Place(TOYS, f"step {toy.steps[place]}", toy.name),
                tally.above(keyword, after, "keyword above next"),
                tally.above(after, mean, "next above mean"),
                tally.below(abs(last - mean), evidence.mean(toy.name, _CLOSE * lead), "last close to mean"),
            )
    if not tally.total:
        return _no_keyword(evidence)
    held = [case.place.column for case in tally.cases if case.outcome == HELD]
    numbers = f"{len(held)} of {tally.total} early steps" + (f", first {held[0]}" if held else "")
    details = _evidence_at(evidence, lambda toy: early(toy)[-1])
    return Finding(verdict(at_least(1), outcomes(tally)), tally, numbers, details, _changed(evidence))


def evidence_moves_to_the_end(evidence: Evidence) -> Finding:
    """S17: at the last step the last position has more evidence than the one after the keyword."""
    tally = evidence.tally()
    for toy in _keywords(evidence):
        after, mean, last = (_evidence(evidence, toy, name, -1) for name in ("next", "mean", "last"))
        tally.add(
            Place(TOYS, f"step {toy.steps[-1]}", toy.name),
            tally.above(last, after, "last above next"),
            tally.above(after, mean, "next above mean"),
        )
    if not tally.total:
        return _no_keyword(evidence)
    return counted_cases(tally, numbers=_evidence_at(evidence, lambda _: -1), remark=_changed(evidence))


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "S12": bad_heads_fail,
    "S13": one_good_head_is_enough,
    "S14": many_heads_help,
    "S16": keyword_has_the_evidence,
    "S17": evidence_moves_to_the_end,
}


def early(toy: Keyword) -> list[int]:
    """Returns the places of the early steps: after the start, until the task is learned, in the first half."""
    accuracy = toy.variants[ONE_DIRECTION]["accuracy"].mean(axis=0)
    half = [place for place, step in enumerate(toy.steps) if 0 < step <= toy.steps[-1] / 2]
    learned = [place for place in half if accuracy[place] > LEARNED]
    return [place for place in half if not learned or place <= learned[0]]


def _keywords(evidence: Evidence) -> list[Keyword]:
    return [toy for toy in evidence.toys.keywords if ONE_DIRECTION in toy.variants]


def _at(toy: Keyword, name: str, place: int, variant: str = ONE_DIRECTION) -> np.ndarray:
    numbers: np.ndarray = toy.variants[variant][name][:, place]
    return numbers


def _evidence(evidence: Evidence, toy: Keyword, name: str, place: int) -> Sampled:
    return evidence.mean(toy.name, _at(toy, name, place).tolist())


def _evidence_at(evidence: Evidence, place_of: Callable[[Keyword], int]) -> str:
    """Returns the evidence of all positions at one step, of both variants."""
    parts = []
    for toy in _keywords(evidence):
        place = place_of(toy)
        for variant in toy.variants:
            means = ", ".join(f"{name} {_at(toy, name, place, variant).mean():.2f}" for name in EVIDENCE)
            parts.append(f"{variant.replace('_', ' ')}, step {toy.steps[place]}: {means}")
    return "; ".join(parts)


def _changed(evidence: Evidence) -> str:
    return "; ".join(change for toy in _keywords(evidence) if (change := changes(KEYWORD, toy.settings)))


def _no_keyword(evidence: Evidence) -> Finding:
    if not evidence.toys.keywords:
        return not_run(KEYWORD)
    return Finding(remark="no step of the one-directional keyword task to look at")
