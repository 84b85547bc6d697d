"""What studies ask about how models come to attend: trajectories, classifiers, agreement, toys, counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from alignlens.classification.settings import ClassifierRecipe
from alignlens.errors import ConfigError
from alignlens.studies.registry import studies
from alignlens.studies.requests import (
    AgreementRequest,
    ClassifierRequest,
    ModelRequest,
    Requests,
    TextRequest,
    ToyRequest,
    TrainedRun,
    TrajectoryRequest,
)
from alignlens.toys.settings import TASKS, toy_settings
from alignlens.workflow.learning_plan import AskedClassifier, AskedModel
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROOT = "results/mine"
OWN = ModelRequest("own", "demo_lstm", training={"max_updates": 9, "snapshots": [3]}, seeds=(1, 2), translates=False)


@pytest.fixture
def plan_of(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Plans of configurations with studies that ask for what a test wants."""

    def made(*asked: Requests, datasets: tuple[str, ...] = ("demo",), needs_gold: bool = True) -> Plan:
        known = studies()
        names = list(known)[: len(asked)]

        def study_of(name: str) -> Any:
            mine = asked[names.index(name)]
            return replace(known[name], requests=lambda offer, settings: mine, needs_gold=needs_gold)

        for module in ("requested", "study_plan"):
            monkeypatch.setattr(f"alignlens.workflow.{module}.study_of", study_of)
        config = {"preset": "mine", "datasets": list(datasets), "studies": {name: {} for name in names}}
        return Plan.of(load_settings(config, project))

    return made


def trajectory(**changes: Any) -> TrajectoryRequest:
    return TrajectoryRequest(**{"dataset": "demo", "model": "own", "methods": ("attention",), **changes})


def test_a_model_is_asked_once_for_all_that_studies_want(plan_of: Callable[..., Plan]) -> None:
    first = Requests(models=[OWN], trajectories=[trajectory(seeds=(1,)), trajectory(methods=("norms",), bleu=True)])
    second = Requests(models=[OWN], trajectories=[trajectory(methods=("attention", "ding_grad"))])
    plan = plan_of(first, second)
    found = plan.learning.trajectories
    assert list(found) == [AskedModel("demo", "xa-xb", "own", seed, "dev") for seed in (1, 2)]
    assert found[AskedModel("demo", "xa-xb", "own", 1, "dev")] == (("attention", "norms", "ding_grad"), True, True)
    assert found[AskedModel("demo", "xa-xb", "own", 2, "dev")] == (("norms", "attention", "ding_grad"), True, True)
    names = list(plan.settings.studies)
    folders = [f"{ROOT}/trajectories/demo/xa-xb/own/{seed}/dev" for seed in (1, 2)]
    for name in names:
        assert set(folders) <= set(plan.studies.inputs(name))
    assert [path for path in plan.targets() if "trajectories" in path] == folders


def test_a_model_may_be_asked_at_its_end_alone(plan_of: Callable[..., Plan]) -> None:
    end = trajectory(seeds=(1,), snapshots=False)
    of_end, of_all = (plan_of(Requests(models=[OWN], trajectories=asked)) for asked in ([end], [end, trajectory()]))
    asked = AskedModel("demo", "xa-xb", "own", 1, "dev")
    assert not of_end.learning.trajectories[asked].snapshots
    assert of_all.learning.trajectories[asked].snapshots


def test_a_model_that_only_learns_to_attend_translates_nothing(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(Requests(models=[OWN], trajectories=[trajectory()]))
    assert any("/own/" in path for path in plan.models())
    assert not any("/own/" in path for path in plan.translations())


def test_agreement_reads_the_folders_of_its_runs(plan_of: Callable[..., Plan]) -> None:
    a, b = TrainedRun("own", 1), TrainedRun("own", 2)
    of_models = AgreementRequest("demo", "some", a, (b,), b, b)
    frozen = TrainedRun("frozen", 1)
    of_classifiers = AgreementRequest("sst", "dev", a, (b, a), b, b, frozen, logistic=True, classified=True)
    asked = Requests(
        models=[OWN],
        texts=[TextRequest("some", of="train", pairs=10)],
        trajectories=[trajectory(split="some")],
        agreements=[of_models, of_classifiers],
    )
    learning = plan_of(asked).learning
    folder = f"{ROOT}/trajectories/demo/xa-xb/own"
    again = [f"{folder}/2/some"]
    assert learning.compared("demo", "some") == {
        "attention": [f"{folder}/1/some"], "again": again, "uniform": again, "proxy": again,
    }  # fmt: skip
    folder = f"{ROOT}/classification/sst"
    found = learning.compared("sst", "dev")
    assert found["again"] == [f"{folder}/own/2/dev", f"{folder}/own/1/dev"]
    assert found["frozen"] == [f"{folder}/frozen/1/dev"]
    assert found["logistic"] == [f"{folder}/logistic/dev"]
    assert learning.selections() == [("demo", "some")]
    assert learning.logistic() == [("sst", "dev")]


def test_classifiers_are_asked_what_agreements_read_of_them(plan_of: Callable[..., Plan]) -> None:
    first, second, frozen = TrainedRun("plain", 1), TrainedRun("plain", 2), TrainedRun("frozen", 1)
    asked = Requests(
        classifiers=[ClassifierRequest("sst", "plain", {}, (1, 2, 3), {"dev": 50, "train": 20})],
        agreements=[AgreementRequest("sst", "dev", first, (second,), second, second, frozen, classified=True)],
    )
    learning = plan_of(asked).learning

    def quantities(name: str, seed: int, split: str = "dev") -> list[str]:
        return learning.quantities(AskedClassifier("sst", name, seed, split))

    assert quantities("plain", 1) == ["attention", "grad_input"]
    assert quantities("plain", 2) == ["attention", "probe"]
    assert quantities("frozen", 1) == ["attention"]
    # What no agreement reads was asked for by itself.
    assert quantities("plain", 3) == quantities("plain", 1, "train") == ["attention", "probe", "grad_input"]


def test_classifiers_toys_and_counts_are_targets(plan_of: Callable[..., Plan]) -> None:
    asked = Requests(
        classifiers=[ClassifierRequest("sst", "plain", {}, (1, 2), {"dev": 50, "train": 20})],
        toys=[ToyRequest("easy", "control", {"seeds": 2})],
        counts=["demo"],
    )
    plan = plan_of(asked)
    (study,) = plan.settings.studies
    read = plan.learning.of_study(study)
    assert read == [
        f"{ROOT}/classification/sst/data/preparation.json", f"{ROOT}/toys/easy.json", f"{ROOT}/counts/demo/xa-xb.json",
    ]  # fmt: skip
    explained = {f"{ROOT}/classification/sst/plain/{seed}/{split}" for seed in (1, 2) for split in ("dev", "train")}
    assert explained < set(plan.targets())
    assert (plan.learning.items("sst", "dev"), plan.learning.items("sst", "train")) == (50, 20)


def test_a_study_may_do_without_gold_links(plan_of: Callable[..., Plan]) -> None:
    asked = Requests(models=[OWN], trajectories=[trajectory(dataset="multi30k")])
    assert plan_of(asked, datasets=("multi30k",)).studies.active() == []
    assert len(plan_of(asked, datasets=("multi30k",), needs_gold=False).studies.active()) == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Requests(trajectories=[trajectory()]), "unknown model 'own'"),
        (Requests(models=[OWN], trajectories=[trajectory(split="nothing")]), "unknown text 'nothing'"),
    ],
)
def test_what_cannot_be_had_is_told(plan_of: Callable[..., Plan], wrong: Requests, told: str) -> None:
    with pytest.raises(ConfigError, match=f"studies.{next(iter(studies()))}: {told}"):
        plan_of(wrong)


def test_the_preset_with_the_sizes_of_the_paper_inherits_nothing_of_the_demo(project: Path) -> None:
    preset = "snell2021"
    paths = [project / "config" / name for name in ("config.yaml", f"presets/{preset}.yaml")]
    plan = Plan.of(load_settings(read_config(paths), project))
    longer = {"control": {"steps": 300}}
    for name, toy in plan.learning.toys.items():
        assert toy_settings(toy.task, toy.settings, name) == toy_settings(toy.task, longer.get(name, {}), name)
    assert len(plan.learning.toys) == len(TASKS)
    usual = {"attention": {}, "uniform": {"attention": "uniform"}, "frozen": {"trained": "attention"}}
    changes = {**usual, "proxy": {"kind": "bag_of_words"}}
    for (corpus, name), asked in plan.learning.classifiers.items():
        found = ClassifierRecipe.from_json(asked.settings, name)
        wanted = ClassifierRecipe.from_json({"model": changes[name]}, name)
        assert found.model == wanted.model
        assert found.training.learning_rate == (
            5e-5 if (corpus, name) == ("imdb-small", "proxy") else wanted.training.learning_rate
        )
        assert (found.training.updates, found.training.epochs) == (wanted.training.updates, wanted.training.epochs)
        assert len(asked.seeds) == (6 if name == "attention" else 1)
    assert {model.settings.preset for model in plan.requested.models} == {
        "snell2021_lstm", "snell2021_proxy", "snell2021_linear",
    }  # fmt: skip
