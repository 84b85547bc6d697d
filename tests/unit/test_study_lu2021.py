"""The study of Lu et al. 2021: what it asks for, and what its tests say of numbers that were made to fit."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import pytest
from lu2021_evidence import BINS, DATASET, DIRECTION, looked, plain, run, sums, translated

from alignlens.errors import ConfigError
from alignlens.io.names import is_name
from alignlens.results.protocol import Protocol
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, UNDECIDED, claims_of
from alignlens.studies.lu2021 import published
from alignlens.studies.lu2021.claims import TESTS, judge
from alignlens.studies.lu2021.evidence import Evidence
from alignlens.studies.lu2021.readings import Bitext, Card, Text
from alignlens.studies.lu2021.runs import SAMPLE, alpha_of, on_less, pairs_of, requests, swept
from alignlens.studies.lu2021.study import ALPHAS, Lu2021Settings, PresetSettings, check
from alignlens.studies.requests import Offer, OfferedDataset, OfferedModel

OFFER = Offer((OfferedDataset("demo", True, True),), (), (), (1,), "both", ("forced",), Protocol())
SYSTEMS = ("lu_baseline", "lu_fixed", "lu_anneal", "lu_gate")


def verdict(name: str, found: Evidence) -> str:
    return TESTS[name](found).verdict


def test_models_with_their_changes() -> None:
    settings = Lu2021Settings(
        PresetSettings("plain", "masked"),
        model={"dropout": 0.3},
        calibration={"rows": "renorm"},
        training={"max_updates": 900},
        alpha=0.1,
        penalty="length",
        seeds=(4, 5),
        alphas=(0.01, 0.1, 1.0),
        pairs=(50,),
        trainings={"50": {"max_updates": 300}},
    )
    asked = requests(OFFER, settings)
    models = {model.name: model for model in asked.models}
    others = ("lu_gate_alpha_0_01", "lu_gate_alpha_1", "lu_baseline_50", "lu_gate_50")
    assert list(models) == [*SYSTEMS, *others]
    assert models["lu_baseline"].preset == "plain"
    assert (models["lu_baseline"].model, models["lu_baseline"].training) == ({"dropout": 0.3}, {"max_updates": 900})
    game = {"name": "mask_game", "alpha": 0.1, "penalty": "length"}
    assert models["lu_gate"].training == models["lu_fixed"].training == {"max_updates": 900, "objective": game}
    masked = {"dropout": 0.3, "rows": "renorm"}
    assert models["lu_gate"].model == models["lu_gate_50"].model == {**masked, "fusion": "gate"}
    # As in print, where 100,000 of 150,000 updates take the share to 1/e.
    assert models["lu_anneal"].model == {**masked, "fusion": "anneal", "anneal_updates": 600}
    assert [models[name].training["objective"]["alpha"] for name in others[:2]] == [0.01, 1.0]
    assert {(models[name].seeds, models[name].directions) for name in others[:2]} == {((4,), "forward")}
    assert {(models[name].seeds, models[name].directions) for name in (*SYSTEMS, *others[2:])} == {((4, 5), "both")}
    assert models["lu_gate_50"].training == {"max_updates": 300, "objective": game}
    assert [model.pairs for model in asked.models] == [None] * 6 + [50] * 2
    assert all(model.translates for model in asked.models)


def test_what_is_analysed_and_compared() -> None:
    asked = requests(OFFER, Lu2021Settings(alphas=(0.01, 0.03), pairs=(50,)))
    assert [(each.dataset, each.model, each.split) for each in asked.calibrations] == [
        ("demo", model, "test") for model in (*SYSTEMS, "lu_gate_alpha_0_01")
    ]
    assert [(each.name, each.models, each.baseline) for each in asked.comparisons] == [
        ("lu_fusions", SYSTEMS[1:], "lu_baseline"),
        ("lu_alphas", ("lu_gate_alpha_0_01",), "lu_baseline"),
        ("lu_50", ("lu_gate_50",), "lu_baseline_50"),
    ]
    assert asked.texts == []
    some = requests(OFFER, Lu2021Settings(alphas=(), split="dev", sentences=30))
    assert {each.split for each in some.calibrations} == {SAMPLE}
    (text,) = some.texts
    assert (text.name, text.of, text.pairs) == (SAMPLE, "dev", 30)
    assert [each.name for each in some.comparisons] == ["lu_fusions"]


def test_masks_and_attention_are_asked_for_as_alignments() -> None:
    sizes = {"decoder_layers": 2, "heads": 4}
    models = (OfferedModel("wide", "transformer", sizes), OfferedModel("lstm", "lstm", {}))
    datasets = (OfferedDataset("demo", True, True), OfferedDataset("plain", False, False))
    offer = Offer(datasets, models, (), (1,), "both", ("forced", "free"), Protocol())
    asked = requests(offer, Lu2021Settings(seeds=(4, 5), alphas=())).attributions
    by_layer = ("attention,layer=0", "attention,layer=1", "mask,layer=0", "mask,layer=1")
    assert [(each.dataset, each.model, each.methods, each.seeds) for each in asked] == [
        ("demo", "lu_baseline", ("attention",), (4,)),
        ("demo", "lu_gate", ("attention", "mask,layer=-1"), (4,)),
        ("plain", "lu_baseline", ("attention",), (4,)),
        ("plain", "lu_gate", ("attention", "mask,layer=-1"), (4,)),
        ("demo", "wide", by_layer, None),
    ]
    free = Offer(datasets, models, (), (1,), "both", ("free",), Protocol())
    assert requests(free, Lu2021Settings(fusions=("fixed",), alphas=())).attributions == []


def test_a_sweep_that_trains_otherwise_has_all_its_models() -> None:
    usual, other = (Lu2021Settings(sweep_training=changes) for changes in ({}, {"max_updates": 9}))
    assert usual.swept == (0.003, 0.01, 0.1, 0.3)
    assert other.swept == ALPHAS
    trained = {model.name: model.training for model in requests(OFFER, other).models}
    assert (trained["lu_gate_alpha_0_03"]["max_updates"], "max_updates" in trained["lu_gate"]) == (9, False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"training": {"max_updates": 150_000}}, 100_000),
        ({"training": {"max_updates": 1}}, 1),
        ({"training": {"max_updates": 900}, "anneal_updates": 7}, 7),
        ({"anneal_updates": 7}, 7),
    ],
)
def test_annealing_goes_with_the_length_of_training(changes: dict[str, Any], expected: int | None) -> None:
    assert Lu2021Settings(**changes).annealed == expected


def test_names_say_alpha_and_pairs_and_are_names() -> None:
    for alpha in (*ALPHAS, 1.0, 10.0, 1e-5, 0.123456):
        assert is_name("model-name", swept(alpha))
        assert alpha_of(swept(alpha)) == alpha
    assert len({swept(alpha) for alpha in (1.0, 10.0, 100.0, 0.1)}) == 4
    assert pairs_of(on_less("lu_gate", 2000)) == pairs_of(on_less("lu_baseline", 2000)) == 2000
    assert [pairs_of(name) for name in ("lu_gate", "lu_baseline", swept(0.3), swept(3.0))] == [None] * 4
    assert [alpha_of(name) for name in ("lu_gate", "lu_gate_2000")] == [None] * 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pairs": (9, 3)}, "pairs: numbers must be in ascending order"),
        ({"alphas": (0.3, 0.1)}, "alphas: numbers must be in ascending order"),
        ({"pairs": (3,), "trainings": {"5": {}}}, "trainings: '5' must have training settings"),
        ({"pairs": (3,), "trainings": {"3": 7}}, "trainings: '3' must have training settings"),
        ({"training": {"objective": {}}}, "training.objective: is set by alpha and penalty"),
        ({"sweep_training": {"objective": {}}}, "sweep_training.objective: is set by alpha"),
        ({"pairs": (3,), "trainings": {"3": {"objective": {}}}}, "trainings.3.objective: is set by alpha"),
        ({"model": {"fusion": "gate"}}, "model.fusion: name all that are to be trained"),
        ({"calibration": {"fusion": "gate"}}, "calibration.fusion: name all that are to be trained"),
        ({"fusions": ("fixed",)}, "alphas: are for the gate"),
        ({"fusions": ("fixed",), "alphas": (), "pairs": (3,)}, "pairs: are for the gate"),
    ],
)
def test_settings_that_cannot_be_are_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"studies.lu2021.{told}") as raised:
        check(Lu2021Settings(**changes), (), "studies.lu2021")
    assert "\n" not in str(raised.value)


def test_settings_that_can_be() -> None:
    check(Lu2021Settings(), (), "studies.lu2021")
    check(Lu2021Settings(fusions=("fixed",), alphas=()), (), "studies.lu2021")


TAU = {
    "holds": {"tau_original": [0.1, 0.3, 0.4]},
    "fails": {"tau_original": [0.1, 0.3, 0.7]},
    "noise": {"tau_original": [0.1, 0.3, 0.5]},
}


@pytest.mark.parametrize(("kind", "expected"), [("holds", REPRODUCED), ("fails", NOT_REPRODUCED), ("noise", UNDECIDED)])
def test_attention_of_the_baseline(kind: str, expected: str) -> None:
    finding = TESTS["L01"](looked({"lu_baseline": plain(**TAU[kind])}))  # type: ignore[arg-type]
    assert (finding.verdict, finding.tally.total) == (expected, 3)
    assert [case.place.what for case in finding.tally.cases] == ["layer 1", "layer 2", "layer 3"]
    assert verdict("L01", looked({"lu_gate": sums(**TAU[kind])})) == NOT_TESTABLE  # type: ignore[arg-type]


def test_attention_against_importance_is_not_agreement() -> None:
    assert verdict("L01", looked({"lu_baseline": plain(tau_original=[-0.1, 0.2, 0.2])})) == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("name", "holds", "fails", "noise"),
    [
        ("L07", {"tau_mask": 0.6}, {"tau_mask": 0.4}, {"tau_mask": 0.5}),
        ("L07", {"tau_mask": [0.4, 0.7, 0.7]}, {"tau_mask": [0.4, 0.4, 0.9]}, {"tau_mask": [0.5, 0.5, 0.9]}),
        ("L08", {"loss_perturbed": 0.9}, {"loss_perturbed": 0.3}, {}),
        ("L09", {"loss_perturbed": 0.9}, {"loss_perturbed": 0.3}, {}),
        (
            "L10",
            {"jsd_entropy_rank": [0.5, 0.5, -0.5], "bins": [0.1, 0.1, 0.2, 0.3, np.nan]},
            {"jsd_entropy_rank": [-0.5, 0.5, -0.5], "bins": [0.1, 0.1, 0.2, 0.3, np.nan]},
            {"jsd_entropy_rank": [0.0, 0.5, -0.5], "bins": [0.1, 0.1, 0.2, 0.3, np.nan]},
        ),
        (
            "L10",
            {"bins": [0.2, 0, 0, 0, 0.4]},
            {"bins": [0.3, 0, 0, 0, 0.4]},
            {"bins": [0.2, 0, 0, 0, 0.3]},
        ),
        (
            "L11",
            {"entropy_change_of_mean": -0.1, "entropy_change_of_rows": 0.3},
            {"entropy_change_of_mean": 0.1, "entropy_change_of_rows": -0.3},
            {"entropy_change_of_mean": 0.0},
        ),
        (
            "L12",
            {"entropy_change": [0.1, -0.9, 0.0]},
            {"entropy_change": [0.0, 0.9, 0.1]},
            {"entropy_change": [0.1, 0.5, 0.1]},
        ),
    ],
)
def test_claims_about_the_gate(name: str, holds: Any, fails: Any, noise: Any) -> None:
    assert verdict(name, looked({"lu_gate": sums(**holds)})) == REPRODUCED
    assert verdict(name, looked({"lu_gate": sums(**fails)})) == NOT_REPRODUCED
    assert verdict(name, looked({"lu_gate": sums(**noise)})) == UNDECIDED
    assert verdict(name, looked({"lu_baseline": plain()})) == NOT_TESTABLE
    assert verdict(name, Evidence()) == NOT_TESTABLE


def test_half_of_the_layers_are_not_most_of_them() -> None:
    two = {"layers": 2, "tau_original": 0.5}
    assert verdict("L07", looked({"lu_gate": sums(**two, tau_mask=[0.9, 0.4])})) == NOT_REPRODUCED  # type: ignore[arg-type]
    assert verdict("L07", looked({"lu_gate": sums(**two, tau_mask=[0.9, 0.6])})) == REPRODUCED  # type: ignore[arg-type]


def test_the_ends_are_bins_with_enough_sentences() -> None:
    gate = sums(bins=[0.1, 0.1, 0.1, 0.1, 0.9], noise=0.005)
    assert verdict("L10", looked({"lu_gate": gate})) == REPRODUCED
    # Nine sentences with such rows are too few to say anything of them.
    gate.counts["jsd_by_entropy"][9:, :, -1] = 0
    gate.totals["jsd_by_entropy"][9:, :, -1] = 0
    assert verdict("L10", looked({"lu_gate": gate})) == NOT_REPRODUCED
    only = sums(bins=[0.1, *[np.nan] * (BINS - 1)])
    assert verdict("L10", looked({"lu_gate": only})) == NOT_TESTABLE


def test_every_fusion_must_hurt() -> None:
    hurts, does_not = sums(loss_perturbed=0.9), sums(loss_perturbed=0.4)
    for name in ("L08", "L09"):
        assert TESTS[name](looked({"lu_gate": hurts, "lu_fixed": hurts})).tally.total == 2
        assert verdict(name, looked({"lu_gate": hurts, "lu_fixed": does_not})) == NOT_REPRODUCED
    by_luck = looked({"lu_gate": sums(loss_clean=0.1, loss_perturbed=0.5, loss_shuffled=0.9)})
    assert (verdict("L08", by_luck), verdict("L09", by_luck)) == (REPRODUCED, NOT_REPRODUCED)


def sweep(*masks: float, alpha: float | None = 0.3, noise: float = 0.02) -> Evidence:
    """Returns gates with alpha 0.01, 0.1 (and so on), and the gate of the tables, which has the last mask."""
    made = {
        swept(10.0 ** (place - 2)): sums(mask=mask, noise=noise, seed=place) for place, mask in enumerate(masks[:-1])
    }
    made["lu_gate"] = sums(mask=masks[-1], noise=noise, seed=9)
    return looked(made, {"lu_gate": Card(10, 9, (5, 5), alpha)})


def test_masks_close_as_the_penalty_grows() -> None:
    assert verdict("L06", sweep(0.2, 0.5, 0.8)) == REPRODUCED
    assert verdict("L06", sweep(0.8, 0.5, 0.2)) == NOT_REPRODUCED
    assert verdict("L06", sweep(0.5, 0.5, 0.5)) == UNDECIDED
    assert verdict("L06", sweep(0.2, 0.8)) == NOT_TESTABLE
    # Without its card nobody knows the alpha of the gate.
    assert verdict("L06", sweep(0.2, 0.5, 0.8, alpha=None)) == NOT_TESTABLE


def test_the_gate_of_the_tables_is_part_of_the_sweep_unless_it_has_a_twin() -> None:
    found = sweep(0.2, 0.5, 0.8).sweep(Bitext(DATASET, DIRECTION))
    assert [point.alpha for point in found] == [0.01, 0.1, 0.3]
    assert [point.mask.value for point in found] == pytest.approx([0.2, 0.5, 0.8], abs=0.02)
    twin = sweep(0.2, 0.5, 0.8, alpha=0.1).sweep(Bitext(DATASET, DIRECTION))
    assert [point.mask.value for point in twin] == pytest.approx([0.2, 0.5], abs=0.02)


def systems(baseline: float, fixed: float, anneal: float, gate: float) -> dict[str, float]:
    return dict(zip(SYSTEMS, (baseline, fixed, anneal, gate), strict=True))


APART = {name: place for place, name in enumerate(SYSTEMS)}


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("L02", systems(0.5, 0.5, 0.5, 0.6), systems(0.6, 0.5, 0.5, 0.5)),
        ("L03", systems(0.4, 0.5, 0.6, 0.6), systems(0.4, 0.6, 0.5, 0.5)),
        ("L04", systems(0.9, 0.5, 0.4, 0.6), systems(0.3, 0.5, 0.6, 0.55)),
    ],
)
def test_claims_about_bleu(name: str, holds: dict[str, float], fails: dict[str, float]) -> None:
    assert verdict(name, translated({DIRECTION: holds})) == REPRODUCED
    assert verdict(name, translated({DIRECTION: fails})) == NOT_REPRODUCED
    assert verdict(name, translated({DIRECTION: systems(0.5, 0.5, 0.5, 0.5)}, APART)) == UNDECIDED
    assert verdict(name, translated({DIRECTION: {"lu_gate": 0.5}})) == NOT_TESTABLE
    assert verdict(name, Evidence()) == NOT_TESTABLE


def test_one_test_set_that_fails_is_enough_against_every_one_but_not_against_most() -> None:
    up, down = systems(0.4, 0.4, 0.4, 0.6), systems(0.6, 0.6, 0.6, 0.4)
    mixed = {"xa-xb": up, "xb-xa": up, "xa-xc": down}
    assert verdict("L02", translated(mixed)) == NOT_REPRODUCED
    assert verdict("L04", translated(mixed)) == REPRODUCED
    assert verdict("L04", translated({"xa-xb": up, "xb-xa": down})) == NOT_REPRODUCED


def amounts(less: tuple[float, float], all_text: tuple[float, float]) -> dict[str, float]:
    """Returns baseline and gate on 500 pairs and on all text."""
    few = dict(zip(("lu_baseline_500", "lu_gate_500"), less, strict=True))
    return {**few, **dict(zip(("lu_baseline", "lu_gate"), all_text, strict=True))}


def test_less_text_gains_more() -> None:
    large, small = amounts((0.3, 0.5), (0.5, 0.55)), amounts((0.3, 0.32), (0.5, 0.7))
    assert verdict("L05", translated({DIRECTION: large})) == REPRODUCED
    assert verdict("L05", translated({DIRECTION: small})) == NOT_REPRODUCED
    apart = {"lu_gate": 2, "lu_gate_500": 3, "lu_baseline_500": 4}
    assert verdict("L05", translated({DIRECTION: amounts((0.5, 0.5), (0.5, 0.5))}, apart)) == UNDECIDED
    assert verdict("L05", translated({DIRECTION: systems(0.4, 0.4, 0.4, 0.6)})) == NOT_TESTABLE
    found = translated({DIRECTION: large, "xb-xa": large}).gains_by_amount(DATASET)
    assert list(found) == [500, 9000]
    # Another weight of the penalty is no other amount of text.
    swept_too = translated({DIRECTION: {**large, swept(0.1): 0.9}}).gains_by_amount(DATASET)
    assert swept_too[9000].value == pytest.approx(found[9000].value)


def test_without_amounts_the_smallest_dataset_counts() -> None:
    gains = {"few": (0.3, 0.5), "some": (0.5, 0.55), "many": (0.5, 0.55)}
    sizes = {"few": 10, "some": 1000, "many": 9000}

    def of(sizes: dict[str, int]) -> Evidence:
        found = translated({DIRECTION: {}})
        made = translated(
            {DIRECTION: {f"{name} {side}": pair[side] for name, pair in gains.items() for side in (0, 1)}}
        )
        named = {
            run(("lu_baseline", "lu_gate")[int(each.model[-1])], dataset=each.model[:-2]): counts
            for each, counts in made.translations.items()
        }
        texts = {name: Text(("xa", "xb"), size, 1, 1) for name, size in sizes.items()}
        return Evidence(translations=named, texts=texts, draws=found.draws)

    assert verdict("L05", of(sizes)) == REPRODUCED
    assert verdict("L05", of({**sizes, "few": 90_000})) == NOT_REPRODUCED


def test_seeds_are_drawn_again() -> None:
    one, other = sums(entropy_change_of_mean=-0.3, seed=1), sums(entropy_change_of_mean=0.2, seed=2)
    gate = {run("lu_gate"): {"1": one, "2": other}}
    found = Evidence(gate, draws=looked({}).draws).measured(run("lu_gate"), "entropy_change_of_mean")
    assert found is not None
    assert found.value == pytest.approx(-0.05, abs=0.01)
    low, high = found.interval(95) or (0, 0)
    assert (low, high) == pytest.approx((-0.3, 0.2), abs=0.02)
    assert TESTS["L11"](Evidence(gate, draws=looked({}).draws)).verdict == UNDECIDED


def test_printed_numbers_say_what_the_claims_file_says() -> None:
    cells: dict[str, dict[str, float]] = {}
    for number in (2, 3, 4):
        for (system, test_set), each in published.bleu(number).items():
            if test_set != "AVE" and not each.quoted:
                cells.setdefault(test_set, {})[system] = each.value
    assert len(cells) == 12
    assert all(each["gate"] > each["baseline"] for each in cells.values())
    best = [each["gate"] >= max(each["fixed"], each["anneal"]) for each in cells.values()]
    assert best.count(True) == 10
    gains = {name: fmean(each[name] - each["baseline"] for each in cells.values()) for name in cells["en-de"]}
    assert {name: round(gain, 2) for name, gain in gains.items()} == {
        "baseline": 0, "fixed": 0.27, "anneal": 0.39, "gate": 0.78,
    }  # fmt: skip
    changes = published.entropy_changes()
    for direction, lower, upper in (("zh-en", 0.0023, -0.0203), ("en-de", 0.0938, -0.0344)):
        halves = [fmean(changes[str(layer), direction] for layer in part) for part in ((1, 2, 3), (4, 5, 6))]
        assert halves == pytest.approx([lower, upper], abs=6e-5)
    exchanged = changes["4", "en-de"], changes["4", "zh-en"]
    assert (changes["all", "zh-en"], changes["all", "en-de"]) == exchanged
    assert published.stated()["jsd_layer6_entropy_above_3.2"] / 0.0084 == pytest.approx(3.857, abs=1e-3)


def test_every_claim_has_a_test_and_a_verdict() -> None:
    assert set(TESTS) == {claim.id for claim in claims_of("lu2021")} == {f"L{n:02d}" for n in range(1, 13)}
    assert [each.verdict for each in judge(Evidence())] == [NOT_TESTABLE] * 12
    assert all(each.reason for each in judge(Evidence()))
