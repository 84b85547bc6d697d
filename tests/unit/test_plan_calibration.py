"""What studies ask about calibration and about BLEU against a baseline: directions, seeds, paths, costs, mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from alignlens.errors import ConfigError
from alignlens.results.paths import CALIBRATION, COMPARISON
from alignlens.studies.registry import studies
from alignlens.studies.requests import CalibrationRequest, ComparisonRequest, ModelRequest, Requests, TextRequest
from alignlens.workflow.calibration_plan import CalibratedText, ComparedModels
from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = "results/mine"
BOTH = ModelRequest("both", "demo_calibrated", seeds=(2, 1, 3), directions="both")
FORWARD = ModelRequest("forward", "demo_transformer", seeds=(1, 2), directions="forward")
BASE = ModelRequest("base", "demo_transformer", seeds=(3, 1, 2), directions="both")
SILENT = ModelRequest("silent", "demo_transformer", seeds=(1, 2), translates=False)
MODELS = [BOTH, FORWARD, BASE, SILENT]


@pytest.fixture
def plan_of(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Plans of configurations with studies that ask for what a test wants."""

    def made(*asked: Requests, **changes: Any) -> Plan:
        known = studies()
        names = list(known)[: len(asked)]

        def study_of(name: str) -> Any:
            mine = asked[names.index(name)]
            return replace(known[name], requests=lambda offer, settings: mine, needs_gold=False)

        for module in ("requested", "study_plan"):
            monkeypatch.setattr(f"alignlens.workflow.{module}.study_of", study_of)
        config = {"preset": "mine", "datasets": ["demo"], "studies": {name: {} for name in names}, **changes}
        return Plan.of(load_settings(config, project))

    return made


def calibration(model: str = "both", **changes: Any) -> CalibrationRequest:
    return CalibrationRequest("demo", model, **changes)


def comparison(*models: str, baseline: str = "base", name: str = "fusions") -> ComparisonRequest:
    return ComparisonRequest(name, "demo", models, baseline)


def test_a_model_is_measured_in_all_its_directions_with_all_its_seeds(plan_of: Callable[..., Plan]) -> None:
    first = Requests(models=MODELS, calibrations=[calibration(seeds=(1,)), calibration("forward", split="dev")])
    second = Requests(models=MODELS, calibrations=[calibration()])
    plan = plan_of(first, second)
    expected = [
        *(CalibratedText("demo", direction, "both", 1, "test") for direction in ("xa-xb", "xb-xa")),
        *(CalibratedText("demo", "xa-xb", "forward", seed, "dev") for seed in (1, 2)),
        *(CalibratedText("demo", direction, "both", s, "test") for direction in ("xa-xb", "xb-xa") for s in (2, 3)),
    ]
    assert plan.calibration.calibrations == expected
    one, other = plan.settings.studies
    files = [f"{ROOT}/calibration/demo/xb-xa/both/3/test.{kind}" for kind in ("json", "npz")]
    assert set(files) <= set(plan.targets())
    assert set(files) <= set(plan.studies.inputs(other))
    assert not set(files) & set(plan.studies.inputs(one))
    found = [names for path in plan.studies.manifest(one).files if (names := CALIBRATION.names(path))]
    assert [(names["model"], names["seed"], names["split"]) for names in found] == [
        ("both", "1", "test"), ("both", "1", "test"), ("forward", "1", "dev"), ("forward", "2", "dev"),
    ]  # fmt: skip
    assert f"{ROOT}/data/demo/preparation.json" in plan.studies.inputs(one)
    assert not any("curves.csv" in path for path in plan.studies.inputs(one))


def test_models_are_compared_where_all_of_them_are(plan_of: Callable[..., Plan]) -> None:
    asked = [comparison("both", "forward"), comparison("base", "both", name="gate")]
    plan = plan_of(Requests(models=MODELS, comparisons=asked))
    forward = ComparedModels("demo", "xa-xb", "fusions")
    compared = plan.calibration.comparisons
    assert list(compared) == [
        forward,
        ComparedModels("demo", "xa-xb", "gate"),
        ComparedModels("demo", "xb-xa", "gate"),
    ]
    # Seeds that all have, in one order for all; the baseline is the last.
    found = plan.calibration.translations(forward)
    assert found == {
        model: [f"{ROOT}/translations/demo/xa-xb/{model}/{seed}/test.txt" for seed in (1, 2)]
        for model in ("both", "forward", "base")
    }
    assert list(found) == ["both", "forward", "base"]
    assert {path for files in found.values() for path in files} <= set(plan.targets())
    found = plan.calibration.translations(ComparedModels("demo", "xb-xa", "gate"))
    assert [Path(path).parent.name for path in found["both"]] == ["1", "2", "3"]
    assert list(found) == ["both", "base"]


def test_a_study_reads_comparisons_and_bleu_of_their_seeds(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(Requests(models=MODELS, comparisons=[comparison("both", "forward")]))
    (name,) = plan.settings.studies
    inputs = plan.studies.inputs(name)
    assert [path for path in inputs if "comparisons" in path] == [f"{ROOT}/comparisons/demo/xa-xb/fusions.json"]
    assert [path for path in inputs if path.endswith("bleu.json")] == [
        f"{ROOT}/translations/demo/xa-xb/{model}/{seed}/bleu.json"
        for model in ("both", "forward", "base")
        for seed in (1, 2)
    ]
    assert f"{ROOT}/data/demo/preparation.json" in inputs
    assert f"{ROOT}/comparisons/demo/xa-xb/fusions.json" in plan.report.inputs()
    (names,) = filter(None, map(COMPARISON.names, plan.studies.manifest(name).files))
    assert names == {"dataset": "demo", "direction": "xa-xb", "comparison": "fusions"}


def test_a_study_that_is_not_made_measures_nothing(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(Requests(models=MODELS))
    assert plan.calibration.targets() == []
    assert plan.calibration.calibrations == []
    below = {Path(path).relative_to(ROOT).parts[0] for path in plan.targets()}
    assert "models" in below
    assert not {"calibration", "comparisons"} & below


def test_jobs_are_counted_and_cost_what_they_compute(project: Path, plan_of: Callable[..., Plan]) -> None:
    texts = [TextRequest("few", pairs=20)]
    asked = [calibration(seeds=(1,)), calibration(seeds=(1,), split="few"), calibration("base", seeds=(1,))]
    compared = [comparison("both", "forward"), comparison("both", name="gate")]
    plan = plan_of(Requests(models=MODELS, texts=texts, calibrations=asked, comparisons=compared))
    found = estimate(plan, sizes_of(plan), Rates.load(project / "config"))
    assert plan.calibration.selections() == [("demo", "few")]
    rules = found.rules()
    assert (rules["calibration"], rules["compare_bleu"], rules["select_text"]) == (6, 3, 1)
    jobs = {job.name: job for job in found.jobs if job.rule in ("calibration", "compare_bleu")}
    seconds = {name: job.core_seconds for name, job in jobs.items()}
    loading = Rates.load(project / "config").start.models
    whole, part, plain = (
        seconds[f"demo xa-xb {name}"] - loading for name in ("both 1 test", "both 1 few", "base 1 test")
    )
    assert whole > 1.3 * plain > 0  # Masks are three passes of the decoder, and wider ones.
    assert part == pytest.approx(whole * 20 / sizes_of(plan).of("demo", "test").pairs)
    assert seconds["demo xa-xb fusions"] > seconds["demo xa-xb gate"] * 0.5
    assert jobs["demo xa-xb both 1 test"].stage == "attribution"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"calibrations": [calibration("bath")]}, "unknown model 'bath'.*both"),
        ({"calibrations": [calibration(split="tset")]}, "unknown text 'tset'.*test"),
        ({"calibrations": [CalibrationRequest("deen", "both")]}, "both: unknown dataset 'deen'"),
        ({"calibrations": [calibration("lstm")]}, "calibration of lstm, whose architecture is lstm. Ask for one of"),
        ({"calibrations": [calibration(seeds=(1, 9))]}, "seed 9 of both, which has 2, 1, 3"),
        ({"comparisons": [comparison("bath")]}, "fusions: unknown model 'bath'"),
        ({"comparisons": [comparison("both", baseline="bass")]}, "fusions: unknown model 'bass'.*base"),
        ({"comparisons": [comparison("silent")]}, "fusions: compares silent, which does not translate"),
        ({"comparisons": [comparison("base")]}, "fusions: has nothing to compare base with"),
        ({"comparisons": [comparison("alone")]}, "fusions: its models have no seed in common"),
        ({"comparisons": [ComparisonRequest("x", "deen", ("both",), "base")]}, "x: base: unknown dataset 'deen'"),
        ({"comparisons": [comparison("both"), comparison("forward")]}, "fusions: another comparison on demo"),
    ],
)
def test_what_cannot_be_had_is_an_error_with_the_name_of_the_study(
    plan_of: Callable[..., Plan], asked: dict[str, Any], problem: str
) -> None:
    name = next(iter(studies()))
    models = [*MODELS, ModelRequest("alone", "demo_transformer", seeds=(7,)), ModelRequest("lstm", "demo_lstm")]
    with pytest.raises(ConfigError, match=rf"^studies\.{name}[.:].*{problem}"):
        plan_of(Requests(models=models, **asked))


def test_studies_may_ask_for_the_same_comparison(plan_of: Callable[..., Plan]) -> None:
    asked = Requests(models=MODELS, comparisons=[comparison("both")])
    plan = plan_of(asked, asked)
    assert len(plan.calibration.comparisons) == 2
    other = Requests(models=MODELS, comparisons=[comparison("forward")])
    with pytest.raises(ConfigError, match=f"{list(studies())[1]}.fusions: another comparison"):
        plan_of(asked, other)
