"""Comparisons, rules and verdicts: noise may never change a verdict, whichever way it turns."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest

from alignlens.metrics.sampled import Sampled
from alignlens.studies.claims import (
    COLUMNS,
    COMPARISON_COLUMNS,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
    VERDICTS,
    Finding,
    PassRule,
    all_of,
    any_of,
    at_least,
    claims_of,
    counted,
    counted_cases,
    every,
    more_than,
    verdict,
    verdict_of,
)
from alignlens.studies.tally import FAILED, HELD, NOISE, OUTCOMES, Comparison, Place, Tally

RULES = {
    "every": every,
    "half": more_than(1 / 2),
    "two thirds": more_than(2 / 3),
    "most": more_than(0.8),
    "one": at_least(1),
    "two": at_least(2),
}


# ---- comparisons -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparison", "outcome"),
    [
        (Comparison(2, 1, 3), HELD),
        (Comparison(-2, -3, -1), FAILED),
        (Comparison(2, -1, 3), NOISE),
        (Comparison(-2, -3, 1), NOISE),
        (Comparison(2, 0, 3), NOISE),
        (Comparison(-2, -3, 0), NOISE),
        (Comparison(0, 0, 0), NOISE),
        (Comparison(0, 0, 0, strict=False), NOISE),
        (Comparison(2, -math.inf, math.inf), NOISE),
        # A number and its samples that disagree settle nothing.
        (Comparison(2, -3, -1), NOISE),
        (Comparison(2), HELD),
        (Comparison(-2), FAILED),
        (Comparison(0), FAILED),
        (Comparison(0, strict=False), HELD),
    ],
)
def test_what_became_of_a_comparison(comparison: Comparison, outcome: str) -> None:
    assert comparison.outcome == outcome


def test_the_four_ways_to_compare() -> None:
    tally, three = Tally(), Sampled(3.0, np.array([2.0, 4.0] * 50))
    for compared, margin in (
        (tally.below(three, 4), 1), (tally.above(three, 4), -1), (tally.at_most(three, 3), 0),
        (tally.at_least(three, Sampled(1.0)), 2),
    ):  # fmt: skip
        assert compared is not None
        assert (compared.margin, compared.high - compared.low) == (margin, 2)
    at_most, below = tally.at_most(Sampled(3.0), 3), tally.below(Sampled(3.0), 3)
    assert at_most is not None
    assert below is not None
    assert (at_most.outcome, below.outcome) == (HELD, FAILED)


def test_what_is_missing_is_counted_apart() -> None:
    tally = Tally()
    tally.add(Place("demo"), tally.below(None, Sampled(1.0)))
    tally.add(Place("demo"), tally.below(Sampled(1.0), None))
    tally.add(Place("demo"), tally.below(Sampled(math.nan), 1))
    tally.add(Place("demo"), tally.below(Sampled(0.0), 1), None)
    tally.add(Place("demo"), tally.below(Sampled(0.0), 1))
    assert (tally.total, tally.missing, tally.text()) == (1, 4, "1 of 1 cells; 4 without numbers")


@pytest.mark.parametrize("several", list(product(OUTCOMES, repeat=3)))
def test_a_case_of_several_comparisons_needs_all(several: tuple[str, ...]) -> None:
    made = {HELD: Comparison(1, 1, 1), FAILED: Comparison(-1, -1, -1), NOISE: Comparison(1, -1, 1)}
    tally = Tally()
    tally.add(Place("demo"), *(made[outcome] for outcome in several))
    expected = FAILED if FAILED in several else NOISE if NOISE in several else HELD
    assert tally.cases[0].outcome == expected


def test_a_chain_compares_neighbours() -> None:
    found = Tally().rising({"a": Sampled(1.0), "b": Sampled(2.0), "c": None, "d": Sampled(4.0)})
    assert [None if each is None else (each.claimed, each.margin) for each in found] == [("a below b", 1), None, None]


def outcome_tally(*outcomes: str, dataset: str = "demo") -> Tally:
    made = {HELD: Comparison(1, 1, 1), FAILED: Comparison(-1, -1, -1), NOISE: Comparison(1, -1, 1)}
    tally = Tally()
    for number, outcome in enumerate(outcomes):
        tally.add(Place(dataset, f"column {number}"), made[outcome])
    return tally


def test_counts_by_dataset_in_words() -> None:
    tally = outcome_tally(HELD, NOISE, FAILED, HELD) + outcome_tally(HELD, dataset="a")
    tally.add(Place("a"), Comparison(1))
    assert tally.counts() == {HELD: 4, FAILED: 1, NOISE: 1}
    assert tally.by_dataset() == "a: 2 held (1 exact); demo: 2 held, 1 failed, 1 within noise"
    assert tally.text("rows") == "4 of 6 rows, 1 within noise (not: demo column 2; within noise: demo column 1)"
    exact = Tally()
    exact.add(Place("a"), Comparison(-1))
    assert (exact.by_dataset(), exact.text()) == ("a: 1 failed (exact)", "0 of 1 cells")
    assert "and 2 more" in (outcome_tally(*[FAILED] * 6) + outcome_tally(HELD)).text()


# ---- verdicts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_a_verdict_is_what_every_turn_of_the_noise_says(name: str) -> None:
    """All ways in which the cases within noise may go, one by one."""
    rule: PassRule = RULES[name]
    seen = set()
    for size in range(1, 6):
        for outcomes in product(OUTCOMES, repeat=size):
            turns = product(*({HELD: [True], FAILED: [False], NOISE: [True, False]}[outcome] for outcome in outcomes))
            said = {rule(sum(turn), size) for turn in turns}
            expected = UNDECIDED if len(said) == 2 else REPRODUCED if said == {True} else NOT_REPRODUCED
            assert verdict(rule, outcomes) == expected, outcomes
            seen.add(expected)
    assert seen == {REPRODUCED, NOT_REPRODUCED, UNDECIDED}


def test_one_case_within_noise_does_not_fell_a_claim_of_nine() -> None:
    assert verdict(every, [HELD] * 8 + [NOISE]) == UNDECIDED
    assert verdict(every, [HELD] * 8 + [FAILED]) == NOT_REPRODUCED
    assert verdict(every, [HELD] * 7 + [FAILED, NOISE]) == NOT_REPRODUCED
    assert verdict(more_than(1 / 2), [HELD] * 5 + [NOISE] * 4) == REPRODUCED
    assert verdict(more_than(1 / 2), [HELD] * 4 + [NOISE] * 5) == UNDECIDED
    assert verdict(at_least(1), [FAILED, FAILED, NOISE]) == UNDECIDED
    assert verdict(every, []) == NOT_TESTABLE


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_cases_does_not_matter(name: str) -> None:
    outcomes = (HELD, HELD, NOISE, FAILED)
    assert len({verdict(RULES[name], order) for order in permutations(outcomes)}) == 1
    tallies = [outcome_tally(*order) for order in permutations(outcomes)]
    assert len({(tally.by_dataset(), tuple(tally.counts().items())) for tally in tallies}) == 1


@pytest.mark.parametrize("parts", list(product(VERDICTS, repeat=2)))
def test_a_claim_of_two_parts(parts: tuple[str, str]) -> None:
    known = [part for part in parts if part != NOT_TESTABLE]
    both = NOT_REPRODUCED if NOT_REPRODUCED in known else UNDECIDED if UNDECIDED in known else REPRODUCED
    either = REPRODUCED if REPRODUCED in known else UNDECIDED if UNDECIDED in known else NOT_REPRODUCED
    assert all_of(parts) == (both if known else NOT_TESTABLE)
    assert any_of(parts) == (either if known else NOT_TESTABLE)


# ---- what is written -------------------------------------------------------------------------------------------


def test_the_row_of_a_claim_has_all_counts() -> None:
    claim = claims_of("ding2019")[0]
    tally = outcome_tally(HELD, NOISE)
    tally.add(Place("demo", "bidir"), Comparison(1, claimed="a below b"))
    tally.add(Place("one"), Comparison(1, -math.inf, math.inf))
    found = verdict_of(claim, counted_cases(tally, remark="so it is"))
    row = found.record()
    assert tuple(row) == COLUMNS
    assert (row["id"], row["claim"], row["verdict"], row["reason"]) == ("D01", claim.claim, UNDECIDED, "so it is")
    assert [row[name] for name in ("held", "failed", "within_noise", "exact")] == [2, 0, 2, 1]
    assert row["by_dataset"] == "demo: 2 held, 1 within noise (1 exact); one: 1 within noise"
    rows = found.comparisons()
    assert tuple(rows[0]) == COMPARISON_COLUMNS
    assert [entry["outcome"] for entry in rows] == ["held", "within noise", "held, exact", "within noise"]
    assert (rows[2]["claimed"], rows[2]["low"], rows[3]["high"]) == ("a below b", None, None)


def test_a_claim_without_numbers_says_why() -> None:
    claim = claims_of("ding2019")[0]
    assert verdict_of(claim, Finding(), "no model").reason == "no model"
    assert verdict_of(claim, Finding(remark="no text")).reason == "no text"
    assert verdict_of(claim, counted_cases(Tally())).verdict == NOT_TESTABLE
    assert counted([verdict_of(claim, Finding())]) == {**dict.fromkeys(VERDICTS, 0), NOT_TESTABLE: 1}
