"""The path grammar of trained models, and which side of a dataset they read and write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alignlens.cli.main import main
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings


def plan(project: Path, **changes: Any) -> Plan:
    models = {"tiny": {"preset": "demo_lstm"}, "other": {"preset": "demo_fconv"}}
    config = {"preset": "mine", "datasets": ["demo", "roen"], "models": models, **changes}
    return Plan.of(load_settings(config, project))


def test_a_model_has_a_folder_per_dataset_direction_and_seed(project: Path) -> None:
    both = plan(project, seeds=[3, 5])
    assert both.models() == [
        f"results/mine/models/{dataset}/{direction}/{model}/{seed}/model"
        for dataset, directions in (("demo", ("xa-xb", "xb-xa")), ("roen", ("ro-en", "en-ro")))
        for direction in directions
        for model in ("tiny", "other")
        for seed in (3, 5)
    ]
    assert len(both.translations()) == 3 * len(both.models())
    assert both.translations()[:3] == [
        f"results/mine/translations/demo/xa-xb/tiny/3/{name}" for name in ("test.txt", "bleu.json", "forced.json")
    ]
    forward = plan(project, directions="forward")
    assert {direction for _, direction, _, _ in forward.model_runs()} == {"xa-xb", "ro-en"}
    assert set(forward.models()) | set(forward.translations()) <= set(forward.targets())
    assert forward.model("other").architecture == "fconv"


def test_the_reverse_model_reads_the_target_side(project: Path) -> None:
    sides = plan(project)
    assert [sides.side("roen", "ro-en", place) for place in (0, 1)] == ["source", "target"]
    assert [sides.side("roen", "en-ro", place) for place in (0, 1)] == ["target", "source"]


def test_without_models_nothing_is_planned_for_them(project: Path) -> None:
    none = plan(project, models={})
    assert none.models() == none.translations() == none.report.model_tables() == none.report.curves() == []
    assert not any("models" in target or "curves" in target for target in none.targets())
    some = {Path(target).name for target in plan(project).report.files()}
    assert {"models.csv", "models.md", "models.tex", "models.html", "curves-roen.svg", "curves-demo.png"} <= some


def test_the_summary_lists_the_models(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(project)
    (tmp_path / "mine.yaml").write_text(
        "models: {lstm: null, fconv: null}\nseeds: [3, 5]\ndirections: forward\n"
        "studies: {snell2021: null, voita2020: null, lu2021: null}\n"
    )
    arguments = ["plan", "--configfile", str(tmp_path / "mine.yaml"), "--results", str(tmp_path)]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "model transformer (demo_transformer): transformer, forward only, seeds 3, 5" in told
    assert told.count("  model ") == 1
    assert main([*arguments, "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["name"], model["directions"], model["seeds"]) == ("transformer", "forward", [3, 5])
