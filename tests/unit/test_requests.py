"""What a study may ask for: models of its own, snapshots, other texts; and who else is asked for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from alignlens.errors import ConfigError
from alignlens.studies.registry import studies
from alignlens.studies.requests import AttributionRequest, ModelRequest, Requests, TextRequest
from alignlens.workflow.attribution_plan import Attribution
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.studies.requests import Offer

CONFIG = {"preset": "mine", "datasets": ["demo"], "models": {"shared": {"preset": "demo_lstm"}}, "seeds": [1, 2]}
ROOT = "results/mine"
SMALL = {"max_updates": 9, "snapshots": [3, 6]}


@pytest.fixture
def plan_of(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Plans of configurations with studies that ask for what a test wants."""

    def made(*asked: Requests, **changes: Any) -> Plan:
        known = studies()
        names = list(known)[: len(asked)]

        def study_of(name: str) -> Any:
            mine = asked[names.index(name)]
            return replace(known[name], requests=lambda offer, settings: mine)

        monkeypatch.setattr("alignlens.workflow.requested.study_of", study_of)
        return Plan.of(load_settings({**CONFIG, "studies": {name: {} for name in names}, **changes}, project))

    return made


def own(name: str = "own", **changes: Any) -> ModelRequest:
    return ModelRequest(name, "demo_lstm", **changes)


def test_a_study_is_shown_what_the_configuration_has(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Offer] = []
    known = studies()
    name = next(iter(known))
    asking = replace(known[name], requests=lambda offer, settings: shown.append(offer) or Requests())
    monkeypatch.setattr("alignlens.workflow.requested.study_of", lambda name: asking)
    changes = {"datasets": ["demo", "deen", "multi30k"], "aligners": [{"name": "hmm", "max_pairs": 50}]}
    Plan.of(load_settings({**CONFIG, **changes, "studies": {name: {}}}, project))
    (offer,) = shown
    assert [tuple(dataset) for dataset in offer.datasets] == [
        ("demo", True, True), ("deen", True, False), ("multi30k", False, False),
    ]  # fmt: skip
    assert [dataset.name for dataset in offer.scored] == ["demo", "deen"]
    assert [(model.name, model.architecture) for model in offer.models] == [("shared", "lstm")]
    assert [tuple(aligner) for aligner in offer.aligners] == [("hmm", "offline", "50")]
    assert (offer.seeds, offer.directions, offer.decodings) == ((1, 2), "both", ("forced", "free"))


def test_a_model_of_its_own_is_trained_as_asked(plan_of: Callable[..., Plan]) -> None:
    training = {**SMALL, "objective": {"name": "source_word_dropout", "share": 0.2}}
    request = own(
        model={"dim": 24}, training=training, pairs=500, start_from="shared", seeds=(2,), directions="forward"
    )
    plan = plan_of(Requests(models=[request]))
    model = plan.planned("own")
    assert (model.pairs, model.start_from, model.seeds, model.directions) == (500, "shared", (2,), "forward")
    assert plan.model("own").training.snapshots == (3, 6)
    assert plan.model("own").training.objective.name == "source_word_dropout"
    trained = [path for path in plan.models() if "/own/" in path]
    assert trained == [f"{ROOT}/models/demo/xa-xb/own/2/model"]
    assert plan.start_of("demo", "xa-xb", "own", "2") == [f"{ROOT}/models/demo/xa-xb/shared/2/model"]
    assert plan.start_of("demo", "xa-xb", "shared", "2") == []
    assert plan.summary()["models"][-1]["name"] == "own"


def test_nobody_else_asks_it_anything(plan_of: Callable[..., Plan]) -> None:
    """The methods that every model of the configuration is compared by are not for it, nor is their cost."""
    asked = AttributionRequest("demo", "own", ("attention",))
    others = AttributionRequest("demo", "shared", ("ding_grad",))
    plan = plan_of(Requests(models=[own()], attributions=[asked]), Requests(attributions=[others]))
    runs = [run for run in plan.attribution.runs() if run.model == "own"]
    assert runs == [Attribution("demo", "own", seed, "final", "test", "forced") for seed in (1, 2)]
    assert plan.attribution.methods(runs[0]) == ["attention"]
    assert not any("/own/" in path for path in plan.attribution.costs())
    first, second = plan.settings.studies
    assert plan.attribution.studies_of(runs[0]) == [first]
    assert plan.attribution.studies_of(runs[0]._replace(model="shared")) == [second]
    assert any("/own/" in path for path in plan.studies.inputs(first))
    assert not any("/shared/" in path for path in plan.studies.inputs(first))
    assert not any("/own/" in path for path in plan.studies.inputs(second))


def test_snapshots_and_the_dev_text_have_folders_of_their_own(plan_of: Callable[..., Plan]) -> None:
    asked = [
        AttributionRequest("demo", "own", ("attention",), weights="6", seeds=(1,)),
        AttributionRequest("demo", "own", ("norms",), split="dev", seeds=(1,)),
    ]
    plan = plan_of(Requests(models=[own(training=SMALL)], attributions=asked))
    folder = f"{ROOT}/attributions/demo/own/1"
    (study,) = plan.settings.studies
    inputs = [path for path in plan.studies.inputs(study) if "attributions" in path and "sentences" not in path]
    assert inputs == [
        f"{folder}/6/test/forced/metrics.json",
        f"{folder}/final/dev/forced/metrics.json",
        f"{folder}/6/test/forced/xa-xb/matrices",
        f"{folder}/6/test/forced/xb-xa/matrices",
    ]
    assert {cell.gold for run in plan.attribution.runs() for cell in plan.attribution.cells(run)} >= {
        f"{ROOT}/data/demo/dev.gold",
        f"{ROOT}/data/demo/test.gold",
    }


def test_equal_requests_are_made_once(plan_of: Callable[..., Plan]) -> None:
    """Of two studies that ask for the same model, each may want other seeds and methods."""
    first = Requests([own(seeds=(1,))], [AttributionRequest("demo", "own", ("attention", "norms"), seeds=(1,))])
    second = Requests([own(seeds=(1, 3))], [AttributionRequest("demo", "own", ("norms", "ding_grad"))])
    plan = plan_of(first, second)
    assert plan.planned("own").seeds == (1, 3)
    assert sum("/xa-xb/own/1/" in path for path in plan.models()) == 1
    methods = {run.seed: plan.attribution.methods(run) for run in plan.attribution.runs() if run.model == "own"}
    assert methods == {1: ["attention", "norms", "ding_grad"], 3: ["norms", "ding_grad"]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([Requests([own("shared", training=SMALL)])], "asks for a different model named shared. Rename one of them"),
        ([Requests([own()]), Requests([own(pairs=9)])], "asks for a different model named own"),
        (
            [Requests([ModelRequest("own", "demo_lsmt")])],
            "own.preset: unknown model preset 'demo_lsmt'",
        ),
        ([Requests([own(training={"max_update": 3})])], "own.training.max_update: unknown"),
        ([Requests([own(start_from="base")])], "own: unknown model 'base'"),
        ([Requests([], [AttributionRequest("demo", "none", ("norms",))])], "unknown model 'none'"),
        (
            [Requests([own(training=SMALL)], [AttributionRequest("demo", "own", ("norms",), weights="5")])],
            "asks for update 5 of own, which keeps no such snapshot",
        ),
    ],
)
def test_what_cannot_be_had_is_told_with_the_name_of_the_study(
    plan_of: Callable[..., Plan], asked: list[Requests], told: str
) -> None:
    name = list(studies())[len(asked) - 1]
    with pytest.raises(ConfigError, match=f"studies.{name}.*{told}"):
        plan_of(*asked)


def test_own_translations_are_of_selected_texts_or_of_the_test_text_and_the_final_weights(
    plan_of: Callable[..., Plan],
) -> None:
    for changes in ({"split": "dev"}, {"weights": "6"}):
        with pytest.raises(ValueError, match="translates selected texts, and the test text with the weights"):
            AttributionRequest("demo", "own", ("norms",), decoding="free", **changes)
    asked = AttributionRequest("demo", "own", ("lrp",), decoding="free", split="some", weights="6")
    text = TextRequest("some", of="train", lengths="common", pairs=9, skip=100)
    plan = plan_of(Requests([own(training=SMALL)], [asked], texts=[text]))
    (study,) = plan.settings.studies
    read = plan.studies.inputs(study)
    assert any("/own/1/6/some/free/" in path and path.endswith("matrices") for path in read)
    assert not any("bleu" in path and "/own/" in path for path in read)
    assert "--skip=100" in text.options()
