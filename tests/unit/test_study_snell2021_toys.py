"""The claims of Snell et al. 2021 about generated tasks: every one turns with the numbers."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from snell2021_results import curve_to, evidence, verdicts, write_copy, write_heads, write_keyword

from alignlens.io.atomic import write_json
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, UNDECIDED
from alignlens.studies.snell2021.network_claim_tests import early
from alignlens.studies.snell2021.shown.copying import independent

if TYPE_CHECKING:
    from pathlib import Path

LEARNED, FAILED = curve_to(1.0, at=100), curve_to(0.3)
LONG = range(0, 301, 10)
EARLY = {"keyword": [0, 4, 5, 5, 5, 4, 4], "next": [0, 2, 3, 3, 3, 3, 3], "mean": [0, 1, 1, 1, 1, 1, 1]}
LAST_LATE = [0, 1, 1.2, 3, 6, 8, 9]


def verdict(folder: Path, claim: str) -> str:
    return verdicts(folder)[claim].verdict


def test_permutations_may_fail(tmp_path: Path) -> None:
    assert verdict(tmp_path, "S07") == NOT_TESTABLE
    for failures, seeds, expected in (
        (1, 20, REPRODUCED),
        (1, 3, REPRODUCED),
        (0, 20, NOT_REPRODUCED),
        (0, 3, UNDECIDED),
    ):
        write_copy(tmp_path, "permutation", [FAILED] * failures + [LEARNED] * (seeds - failures))
        assert verdict(tmp_path, "S07") == expected, (failures, seeds)
    # Who was stopped early has not failed.
    write_copy(tmp_path, "permutation", [[0.0, 0.3]] * 20, steps=(0, 50))
    found = verdicts(tmp_path)["S07"]
    assert (found.verdict, found.reason) == (UNDECIDED, "50 of 200 steps")


def test_control_is_always_learned(tmp_path: Path) -> None:
    for failures, seeds, expected in (
        (0, 20, REPRODUCED),
        (1, 20, NOT_REPRODUCED),
        (0, 5, UNDECIDED),
        (1, 5, NOT_REPRODUCED),
    ):
        write_copy(tmp_path, "control", [FAILED] * failures + [LEARNED] * (seeds - failures))
        assert verdict(tmp_path, "S08") == expected, (failures, seeds)
    # A claim about reaching: one bad sample at the end is no failure.
    write_copy(tmp_path, "control", [[*LEARNED[:-1], 0.94]] * 20)
    found = verdicts(tmp_path)["S08"]
    assert (found.verdict, found.numbers) == (REPRODUCED, "20 of 20 seeds reach 0.95, 0 end above it")
    write_copy(tmp_path, "control", [[0.0, 0.3]] * 20, steps=(0, 50))
    assert verdict(tmp_path, "S08") == UNDECIDED


def test_permutations_take_longer(tmp_path: Path) -> None:
    late, early_on = curve_to(1.0, at=150), curve_to(1.0, at=60)
    write_copy(tmp_path, "control", [early_on] * 20)
    assert "permutation was not run" in verdicts(tmp_path)["S09"].reason
    for runs, expected in (
        ([late] * 20, REPRODUCED),
        ([FAILED] * 11 + [curve_to(1.0, at=10)] * 9, UNDECIDED),  # infinity, but a few other seeds would make it 10
        ([FAILED] * 18 + [curve_to(1.0, at=10)] * 2, REPRODUCED),
        ([curve_to(1.0, at=10)] * 20, NOT_REPRODUCED),
    ):
        write_copy(tmp_path, "permutation", runs)
        assert verdict(tmp_path, "S09") == expected
    write_copy(tmp_path, "permutation", [FAILED] * 18 + [curve_to(1.0, at=10)] * 2)
    found = verdicts(tmp_path)["S09"]
    assert found.numbers == "permutations: never, 20 seeds; control: step 60, 20 seeds"
    assert found.tally.cases[0].comparisons[0].margin == 2000 - 60
    write_copy(tmp_path, "control", [FAILED] * 20)
    write_copy(tmp_path, "permutation", [FAILED] * 20)
    found = verdicts(tmp_path)["S09"]
    assert (found.verdict, found.reason.startswith("neither is learned")) == (UNDECIDED, True)
    write_copy(tmp_path, "permutation", [late])
    assert verdict(tmp_path, "S09") == UNDECIDED  # of one seed nothing is known


def test_the_mixture_fails_too(tmp_path: Path) -> None:
    write_copy(tmp_path, "control", [LEARNED] * 20)
    assert "mixture was not run" in verdicts(tmp_path)["S10"].reason
    for learned, seeds, expected in ((4, 20, REPRODUCED), (19, 20, UNDECIDED), (20, 20, UNDECIDED)):
        write_copy(tmp_path, "mixture", [LEARNED] * learned + [FAILED] * (seeds - learned))
        assert verdict(tmp_path, "S10") == expected, learned
    write_copy(tmp_path, "control", [FAILED] * 20)
    write_copy(tmp_path, "mixture", [LEARNED] * 20)
    assert verdict(tmp_path, "S10") == NOT_REPRODUCED
    # Two seeds of each do not tell shares apart, whatever becomes of them.
    write_copy(tmp_path, "control", [LEARNED] * 2)
    write_copy(tmp_path, "mixture", [LEARNED, FAILED])
    assert verdict(tmp_path, "S10") == UNDECIDED


def test_the_order_of_positions_matters(tmp_path: Path) -> None:
    never, always = [curve_to(0.3, steps=LONG)] * 20, [curve_to(1.0, 100, LONG)] * 20
    write_copy(tmp_path, "permuted_copy", never, LONG)
    assert "control was not run" in verdicts(tmp_path)["S11"].reason
    write_copy(tmp_path, "control", always, LONG)
    assert verdict(tmp_path, "S11") == REPRODUCED
    # The shorter control will do if all seeds have learned by then, and it is said which one it was.
    write_copy(tmp_path, "control", [LEARNED] * 20)
    found = verdicts(tmp_path)["S11"]
    assert (found.verdict, found.reason) == (REPRODUCED, "plain copying: task control, 200 steps")
    write_copy(tmp_path, "control", [FAILED] * 20)
    assert "ended after 200 steps" in verdicts(tmp_path)["S11"].reason
    # The longest control counts, whatever it is called.
    write_copy(tmp_path, "control", always, LONG, name="control_long")
    assert verdicts(tmp_path)["S11"].reason == "plain copying: task control_long, 300 steps"
    # Learned after 300 steps is too late.
    longer = range(0, 401, 10)
    write_copy(tmp_path, "control", [curve_to(1.0, 350, longer)] * 20, longer, name="control_long")
    assert verdict(tmp_path, "S11") == NOT_REPRODUCED
    write_copy(tmp_path, "control", always, LONG, name="control_long")
    write_copy(tmp_path, "permuted_copy", [*never[1:], always[0]], LONG)
    assert verdict(tmp_path, "S11") == NOT_REPRODUCED
    write_copy(tmp_path, "permuted_copy", never[:3], LONG)
    assert verdict(tmp_path, "S11") == UNDECIDED
    write_copy(tmp_path, "permuted_copy", [FAILED] * 20)
    found = verdicts(tmp_path)["S11"]
    assert (found.verdict, "200 of 300 steps" in found.reason) == (UNDECIDED, True)


def test_heads(tmp_path: Path) -> None:
    claims = ("S12", "S13", "S14")
    assert {verdicts(tmp_path)[claim].reason for claim in claims} == {"the task heads was not run"}
    for numbers, expected in (
        ((2, 20, 18, (15, 60)), (REPRODUCED, REPRODUCED, REPRODUCED)),
        ((18, 10, 2, (55, 60)), (NOT_REPRODUCED, NOT_REPRODUCED, NOT_REPRODUCED)),
        ((9, 17, 8, (20, 60)), (UNDECIDED, UNDECIDED, UNDECIDED)),
        # Above 0.8, but no better than eight bad ones.
        ((20, 20, 20, (15, 60)), (NOT_REPRODUCED, UNDECIDED, REPRODUCED)),
    ):
        write_heads(tmp_path, *numbers)
        found = verdicts(tmp_path)
        assert tuple(found[claim].verdict for claim in claims) == expected, numbers
    write_heads(tmp_path, 2, 20, 18, (15, 60))
    assert verdicts(tmp_path)["S13"].numbers == "printed: one good 20 of 20, all bad 2 of 20, single 15 of 60"
    assert verdicts(tmp_path)["S13"].reason == ""
    path = tmp_path / "toys" / "heads.json"
    content = json.loads(path.read_text())
    content["settings"] = {"heads": 4, "draws": 3}
    content["scenarios"]["one_good"]["accuracy"] = []
    write_json(path, content)
    found = verdicts(tmp_path)
    assert (found["S13"].verdict, found["S13"].reason) == (NOT_TESTABLE, "too few good or bad heads were found")
    assert (found["S12"].verdict, found["S12"].reason) == (REPRODUCED, "not as in the paper: heads 4")
    assert independent(evidence(tmp_path).toys.heads[0]) == pytest.approx(1 - 0.75**4)
    write_heads(tmp_path, 2, 20, 18, (15, 60))
    assert independent(evidence(tmp_path).toys.heads[0]) == pytest.approx(1 - 0.75**8)


def test_early_evidence(tmp_path: Path) -> None:
    assert verdicts(tmp_path)["S16"].reason == "the task keyword was not run"
    write_keyword(tmp_path, {**EARLY, "last": LAST_LATE})
    found = verdicts(tmp_path)
    assert (found["S16"].verdict, found["S17"].verdict) == (REPRODUCED, REPRODUCED)
    assert found["S16"].numbers == "2 of 3 early steps, first step 10"  # at step 30 the end is far from the mean
    for changes, expected in (
        ({"keyword": [0, 1, 1, 1, 1, 1, 1]}, (NOT_REPRODUCED, REPRODUCED)),
        ({"next": [0, 0, 0, 0, 0, 0, 0]}, (NOT_REPRODUCED, NOT_REPRODUCED)),
        ({"last": [0, 3, 3, 3, 2, 2, 2]}, (NOT_REPRODUCED, NOT_REPRODUCED)),
    ):
        write_keyword(tmp_path, {**EARLY, "last": LAST_LATE, **changes})
        found = verdicts(tmp_path)
        assert (found["S16"].verdict, found["S17"].verdict) == expected, changes


def test_evidence_that_differs_from_seed_to_seed(tmp_path: Path) -> None:
    write_keyword(tmp_path, {**EARLY, "last": LAST_LATE}, spread=3.0)
    assert verdict(tmp_path, "S16") == UNDECIDED
    close = {"keyword": [1, 1], "next": [1, 2.5], "mean": [0, 1], "last": [0, 2.6]}
    write_keyword(tmp_path, {**close, "keyword": [1, 1]}, spread=0.0)
    assert verdict(tmp_path, "S17") == REPRODUCED
    write_keyword(tmp_path, {**EARLY, "last": LAST_LATE}, seeds=1)
    assert (verdict(tmp_path, "S16"), verdict(tmp_path, "S17")) == (UNDECIDED, UNDECIDED)


def test_early_ends_when_the_task_is_learned(tmp_path: Path) -> None:
    write_keyword(tmp_path, {**EARLY, "last": LAST_LATE}, accuracy=[0.5, 0.6, 0.97, 0.98, 0.99, 1.0, 1.0])
    (toy,) = evidence(tmp_path).toys.keywords
    assert [toy.steps[place] for place in early(toy)] == [10, 20]
    write_keyword(tmp_path, {**EARLY, "last": LAST_LATE})
    assert [toy.steps[place] for place in early(evidence(tmp_path).toys.keywords[0])] == [10, 20, 30]


def test_steps_and_shares(tmp_path: Path) -> None:
    write_copy(tmp_path, "control", [curve_to(1.0, at=60), FAILED])
    found = evidence(tmp_path)
    toy = found.toys.copy("control")
    assert toy is not None
    assert toy.first_steps() == [60, math.inf]
    assert toy.first_steps(most=50) == [math.inf, math.inf]
    share = found.share("x", 20, 20)
    low, high = share.interval(95) or (0, 0)
    assert (share.value, 0.85 < low < 0.95, high <= 1) == (1, True, True)
    assert found.share("x", 20, 20).interval(95) == (low, high)
