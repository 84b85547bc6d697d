"""The study of Voita et al. 2020: what it asks for, and what its tests say of numbers that were made to fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from voita2020_evidence import (
    GIVEN,
    MINIMUM_RISK,
    OTHERS,
    OWN,
    SOURCE_DROPOUT,
    TARGET_DROPOUT,
    curves,
    evidence,
    falling,
    peaked,
    snapshots,
)

from alignlens.errors import ConfigError
from alignlens.metrics.sampled_ranks import spearman_of_rows
from alignlens.results.protocol import Protocol
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, claims_of
from alignlens.studies.requests import Offer, OfferedDataset
from alignlens.studies.voita2020.claims import TESTS, judge
from alignlens.studies.voita2020.evidence import Evidence, Snapshot
from alignlens.studies.voita2020.runs import RANDOM, REFERENCE, requests
from alignlens.studies.voita2020.study import Voita2020Settings, check

OFFER = Offer((OfferedDataset("demo", True, True),), (), (), (1,), "both", ("forced",), Protocol())


def verdict(name: str, found: Evidence) -> str:
    return TESTS[name](found).verdict


def test_models_texts_and_questions() -> None:
    settings = Voita2020Settings(preset="p", pairs=(10, 30, 90), sentences=5, snapshots=(1, 2), minimum_risk=None)
    asked = requests(OFFER, settings)
    models = {model.name: model for model in asked.models}
    assert list(models) == ["voita_90", "voita_source_dropout", "voita_target_dropout", "voita_10", "voita_30"]
    assert models["voita_90"].training["snapshots"] == [1, 2]
    assert models["voita_source_dropout"].training["objective"] == {"name": "source_word_dropout"}
    assert (models["voita_10"].pairs, models["voita_source_dropout"].pairs) == (10, 90)
    assert {text.name: (text.exchanged, text.skip) for text in asked.texts} == {
        REFERENCE: (False, 90), RANDOM: (True, 90),
    }  # fmt: skip
    (along,) = asked.trajectories
    assert (along.model, along.split, along.methods) == (
        "voita_90", REFERENCE, ("lrp,label=top", "lrp,alpha=0.5,label=top"),
    )  # fmt: skip
    questions = {(each.model, each.split, each.decoding) for each in asked.attributions}
    assert questions == {
        ("voita_90", RANDOM, "forced"), ("voita_90", REFERENCE, "free"),
        ("voita_source_dropout", REFERENCE, "free"), ("voita_source_dropout", RANDOM, "forced"),
        ("voita_target_dropout", REFERENCE, "free"), ("voita_target_dropout", RANDOM, "forced"),
        ("voita_10", REFERENCE, "forced"), ("voita_30", REFERENCE, "forced"),
    }  # fmt: skip


def test_minimum_risk_goes_on_from_the_first_model() -> None:
    settings = Voita2020Settings(pairs=(90,), minimum_risk={"max_updates": 7, "objective": {"samples": 9}})
    (model,) = [each for each in requests(OFFER, settings).models if each.name == MINIMUM_RISK]
    assert model.start_from == "voita_90"
    assert model.training["objective"] == {"name": "minimum_risk", "samples": 9}
    assert (model.training["max_updates"], model.training["snapshots"]) == (7, [])


def test_the_first_model_may_have_less_text_than_others() -> None:
    more = {"90": {"max_updates": 9}}
    settings = Voita2020Settings(pairs=(10, 30, 90), base=30, training={"max_updates": 5}, trainings=more)
    asked = requests(OFFER, settings)
    models = {model.name: model for model in asked.models}
    assert [name for name, model in models.items() if model.pairs == 30] == [
        "voita_30", "voita_source_dropout", "voita_target_dropout", "voita_minimum_risk",
    ]  # fmt: skip
    assert models["voita_minimum_risk"].start_from == asked.trajectories[0].model == "voita_30"
    assert {models[name].training["max_updates"] for name in ("voita_10", "voita_30")} == {5}
    assert models["voita_90"].training["max_updates"] == 9
    assert {text.skip for text in asked.texts} == {90}
    assert {(each.model, each.split) for each in asked.attributions if each.decoding == "forced"} >= {
        ("voita_10", REFERENCE), ("voita_90", REFERENCE),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pairs": (9, 3)}, "pairs: numbers must be in ascending order"),
        ({"snapshots": (9, 3)}, "snapshots: numbers must be in ascending order"),
        ({"lengths": (9,)}, "lengths: give the lengths of source and target"),
        ({"pairs": (3, 9), "base": 5}, "base: 5 is not one of the amounts"),
        ({"pairs": (3, 9), "trainings": {"5": {}}}, "trainings: '5' must have training settings"),
        ({"pairs": (3, 9), "trainings": {"3": 7}}, "trainings: '3' must have training settings"),
    ],
)
def test_settings_that_cannot_be_are_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"studies.voita2020.{told}"):
        check(Voita2020Settings(**changes), (), "studies.voita2020")


def test_rank_correlation_is_scipys_with_ties_and_constants() -> None:
    generator = np.random.default_rng(2)
    x = generator.integers(0, 5, 9).astype(float)
    rows = generator.integers(0, 4, (20, 9)).astype(float)
    found = spearman_of_rows(x, rows)
    for row, value in zip(rows, found, strict=True):
        assert value == pytest.approx(spearmanr(x, row).statistic)
    assert np.isnan(spearman_of_rows(x, np.ones((1, 9)))[0])


HOLDS = {
    "V01": {"share": falling(0.8, 0.4)},
    "V02": {"share": np.append(falling(0.7, 0.6)[:-1], 0.2)},
    "V03": {"early": 0.5, "width": 0.9},
    "V04": {"width": peaked(0.7, 0.2, 0.8)},
    "V05": {"width": np.concatenate((np.full(14, 0.3), [0.9, 0.9]))},
    "V06": {"spread": 1.0},
}
FAILS = {
    "V01": {"share": falling(0.4, 0.8)},
    "V02": {"share": falling(0.4, 0.8)},
    "V03": {"early": -0.5, "width": 0.9},
    "V04": {"width": peaked(0.2, 0.2, 0.8)},
    "V05": {"width": np.concatenate((np.full(14, 0.9), [0.3, 0.3]))},
    "V06": {"spread": falling(1.0, 0.0)},
}


@pytest.mark.parametrize("name", HOLDS)
def test_claims_about_one_model(name: str) -> None:
    assert verdict(name, evidence({GIVEN: curves(**HOLDS[name])})) == REPRODUCED
    assert verdict(name, evidence({GIVEN: curves(**FAILS[name])})) == NOT_REPRODUCED
    assert verdict(name, Evidence()) == NOT_TESTABLE


@pytest.mark.parametrize(
    ("name", "prefix", "usual", "other"),
    [
        ("V07", OWN, {"share": 0.5}, {"share": 0.6}),
        ("V08", OWN, {"width": 0.6}, {"width": 0.4}),
        ("V09", OTHERS, {"share": falling(0.5, 0.5)}, {"share": falling(0.6, 0.6)}),
        ("V10", OTHERS, {"share": falling(0.5, 0.5)}, {"share": falling(0.5, 0.3)}),
        ("V11", OTHERS, {"width": falling(0.2, 0.6)}, {"width": falling(0.9, 0.91)}),
    ],
)
def test_claims_about_prefixes(name: str, prefix: str, usual: dict[str, Any], other: dict[str, Any]) -> None:
    assert verdict(name, evidence({GIVEN: curves(**usual), prefix: curves(**other, seed=2)})) == REPRODUCED
    assert verdict(name, evidence({GIVEN: curves(**other), prefix: curves(**usual, seed=2)})) == NOT_REPRODUCED
    assert verdict(name, evidence({GIVEN: curves(**usual)})) == NOT_TESTABLE


def objectives(plain: float, source: float, target: float, risk: float, key: str = "share") -> Evidence:
    """Returns four models with these numbers, with own and with random prefixes."""
    made = {SOURCE_DROPOUT: source, TARGET_DROPOUT: target, MINIMUM_RISK: risk}
    others = {name: dict.fromkeys((OWN, OTHERS), curves(**{key: value})) for name, value in made.items()}
    return evidence(dict.fromkeys((GIVEN, OWN, OTHERS), curves(**{key: plain})), **others)


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("V12", objectives(0.5, 0.52, 0.53, 0.7), objectives(0.5, 0.6, 0.53, 0.55)),
        ("V13", objectives(0.5, 0.5, 0.4, 0.5, "width"), objectives(0.5, 0.5, 0.6, 0.5, "width")),
        ("V14", objectives(0.5, 0.55, 0.6, 0.7), objectives(0.5, 0.55, 0.8, 0.7)),
        ("V15", objectives(0.5, 0.45, 0.4, 0.3, "width"), objectives(0.5, 0.2, 0.4, 0.3, "width")),
        ("V16", objectives(0.5, 0.55, 0.6, 0.7), objectives(0.5, 0.45, 0.6, 0.7)),
        ("V17", objectives(0.5, 0.55, 0.6, 0.7), objectives(0.5, 0.6, 0.55, 0.7)),
    ],
)
def test_claims_about_objectives(name: str, holds: Evidence, fails: Evidence) -> None:
    assert verdict(name, holds) == REPRODUCED
    assert verdict(name, fails) == NOT_REPRODUCED
    assert verdict(name, evidence({GIVEN: curves()})) == NOT_TESTABLE


def amounts(*values: dict[str, Any]) -> Evidence:
    """Returns models of 100, 1,000 and 4,000 pairs."""
    first, second, third = (curves(**each) for each in values)
    return evidence({GIVEN: third}, **{"voita_100": {GIVEN: first}, "voita_1000": {GIVEN: second}})


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("V18", "share", (0.4, 0.5, 0.6)),
        ("V19", "share", (0.6, 0.5, 0.4)),
        ("V20", "width", (0.6, 0.5, 0.4)),
        ("V21", "spread", (0.9, 0.6, 0.3)),
    ],
)
def test_claims_about_amounts_of_text(name: str, key: str, values: tuple[float, ...]) -> None:
    assert verdict(name, amounts(*({key: value} for value in values))) == REPRODUCED
    assert verdict(name, amounts(*({key: value} for value in reversed(values)))) == NOT_REPRODUCED
    assert verdict(name, evidence({GIVEN: curves()})) == NOT_TESTABLE


DOWN_AND_UP, UP = [0.7, 0.4, 0.45, 0.5, 0.55, 0.6], [0.3, 0.35, 0.4, 0.45, 0.5, 0.55]


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("V22", (DOWN_AND_UP, UP, [1, 0.8, 0.5, 0.1, 0.05, 0]), (DOWN_AND_UP, UP, [1, 0.9, 0.8, 0.7, 0.6, 0])),
        ("V23", (DOWN_AND_UP, UP, [1.0] * 6), (UP, UP, [1.0] * 6)),
        ("V24", (UP, DOWN_AND_UP, [1.0] * 6), (UP, UP, [1.0] * 6)),
    ],
)
def test_claims_about_training(name: str, holds: tuple[Any, ...], fails: tuple[Any, ...]) -> None:
    base = {GIVEN: curves()}
    assert verdict(name, evidence(base, timeline=snapshots(*holds, True))) == REPRODUCED
    assert verdict(name, evidence(base, timeline=snapshots(*fails, True))) == NOT_REPRODUCED
    assert verdict(name, evidence(base)) == NOT_TESTABLE


@pytest.mark.parametrize(("first", "last", "expected"), [(1.0, 0.1, REPRODUCED), (0.1, 1.0, NOT_REPRODUCED)])
def test_early_positions_move_most(first: float, last: float, expected: str) -> None:
    along = [
        Snapshot(update, curves(share=falling(0.6 + first * moved, 0.6 + last * moved)), np.ones(1), None)
        for update, moved in ((10, 0.0), (50, -0.2), (100, 0.1), (200, 0.3))
    ]
    assert verdict("V25", evidence({GIVEN: curves()}, timeline=along)) == expected


def test_early_positions_are_right_first() -> None:
    for early, expected in ((True, REPRODUCED), (False, NOT_REPRODUCED)):
        along = snapshots(DOWN_AND_UP, UP, [1.0] * 6, early)
        assert verdict("V26", evidence({GIVEN: curves()}, timeline=along)) == expected


def test_both_weighings_are_compared_and_relevance_must_be_conserved() -> None:
    one, other = (evidence({GIVEN: curves(share=falling(0.8, 0.4))}, alpha) for alpha in (1.0, 0.5))
    both = Evidence({**one.curves, **other.curves}, {}, one.base, one.draws)
    assert verdict("V27", both) == REPRODUCED
    assert verdict("V27", one) == NOT_TESTABLE
    assert verdict("V28", one) == REPRODUCED
    assert one.curves[next(iter(one.curves))].worst < 1e-12


def test_every_claim_has_a_test_and_a_verdict() -> None:
    assert set(TESTS) == {claim.id for claim in claims_of("voita2020")} == {f"V{n:02d}" for n in range(1, 29)}
    assert len(judge(Evidence())) == 28
