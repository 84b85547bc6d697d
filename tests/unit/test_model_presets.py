"""Named models: the file, its schema and the dataclasses say the same, and a mistake is one line that helps."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from alignlens.errors import ConfigError
from alignlens.io.typed import schema_of
from alignlens.models.settings import ARCHITECTURES, architecture_settings
from alignlens.training.objectives.registry import ChosenObjective
from alignlens.training.presets import Presets
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.settings import ModelRun, load_settings

PAPERS = {
    "ding2019_lstm", "ding2019_fconv", "ding2019_transformer", "kobayashi2020_transformer", "voita2020_transformer",
    "snell2021_lstm", "snell2021_linear", "snell2021_proxy", "lu2021_transformer", "lu2021_calibrated",
}  # fmt: skip
TRANSLATING = [name for name in ARCHITECTURES if name != "bag_of_words"]
OURS = {f"{size}_{architecture}" for size in ("demo", "small") for architecture in TRANSLATING}
OURS |= {"demo_snell_lstm", "demo_snell_proxy", "demo_voita_transformer"}
SETTINGS = {**{name: entry.settings for name, entry in ARCHITECTURES.items()}, "training": TrainingSettings}


@pytest.fixture(scope="module")
def presets(project: Path) -> Presets:
    return Presets.load(project / "config/models.yaml")


def load(project: Path, subwords: str = "joint", **models: Any) -> tuple[ModelRun, ...]:
    config = {"preset": "mine", "datasets": ["demo"], "subwords": {"kind": subwords}, "models": models}
    return load_settings(config, project).models


def test_every_preset_becomes_a_model_that_a_configuration_can_name(project: Path, presets: Presets) -> None:
    assert {preset.name for preset in presets} >= PAPERS | OURS
    assert len(presets) == len(list(presets))
    for preset in presets:
        (run,) = load(project, mine={"preset": preset.name})
        assert preset.description
        assert (run.name, run.preset, run.architecture) == ("mine", preset.name, preset.architecture)
        assert isinstance(run.model, ARCHITECTURES[preset.architecture].settings)
        for settings, values in ((run.model, preset.model), (run.training, preset.training)):
            for key, value in values.items():
                found = getattr(settings, key)
                value = ChosenObjective.from_json(value) if key == "objective" else value
                assert (list(found) if isinstance(found, tuple) else found) == value, f"{preset.name}: {key}"


def test_presets_have_the_numbers_of_the_papers(presets: Presets) -> None:
    voita = presets.get("voita2020_transformer", "")
    assert voita.training["learning_rate"] == pytest.approx(4 / math.sqrt(512 * 16_000), rel=1e-4)
    assert voita.model["norm"] == "pre"
    snell = presets.get("snell2021_lstm", "")
    assert snell.source_begin
    assert {preset.name for preset in presets if preset.source_begin} == {
        preset.name for preset in presets if "snell" in preset.name
    }
    linear, proxy = (presets.get(f"snell2021_{name}", "") for name in ("linear", "proxy"))
    assert {**snell.model, "output": "linear"} == linear.model
    assert snell.training == linear.training
    assert (proxy.model, proxy.training["batch_sentences"], proxy.training["max_epochs"]) == ({"dim": 256}, 64, 30)
    assert {key: proxy.training[key] for key in ("learning_rate", "schedule", "keep", "best_by")} == {
        "learning_rate": 0.001, "schedule": "constant", "keep": "best", "best_by": "loss"
    }  # fmt: skip
    for name in ("lstm", "fconv"):
        training = presets.get(f"ding2019_{name}", "").training
        assert training["learning_rate"] * 0.5 ** training["patience"] < 9e-8, "the released runs would go on"
        assert training["learning_rate"] * 0.5 ** (training["patience"] - 1) > 9e-8
    plain, calibrated = (presets.get(f"lu2021_{name}", "") for name in ("transformer", "calibrated"))
    assert plain.model == calibrated.model
    assert {**plain.training, "objective": calibrated.training["objective"]} == calibrated.training
    assert calibrated.training["objective"] == {"name": "mask_game", "alpha": 0.03, "penalty": "released"}
    ding, kobayashi = (presets.get(f"{name}_transformer", "") for name in ("ding2019", "kobayashi2020"))
    assert ding.model == kobayashi.model
    assert ding.training["accumulation"] == kobayashi.training["accumulation"] == 16


def test_changes_are_laid_over_the_preset_and_the_rest_stays(project: Path, presets: Presets) -> None:
    plain, changed = load(
        project,
        plain={"preset": "demo_transformer"},
        changed={"preset": "demo_transformer", "model": {"heads": 2}, "training": {"max_updates": 7}},
    )
    assert dataclasses.replace(plain.model, heads=2) == changed.model
    assert dataclasses.replace(plain.training, max_updates=7) == changed.training
    assert plain.model == architecture_settings("transformer", dict(presets.get("demo_transformer", "").model))


def test_null_leaves_a_model_out(project: Path) -> None:
    assert [run.name for run in load(project, a=None, b={"preset": "demo_lstm"})] == ["b"]
    assert load(project) == ()


def test_the_line_for_the_command_says_everything_and_nothing_of_names(project: Path) -> None:
    one, other = load(
        project,
        one={"preset": "snell2021_lstm"},
        other={"preset": "snell2021_lstm", "training": {"max_epochs": 20}},
    )
    assert one.as_json() == other.as_json()
    content = json.loads(one.as_json())
    assert set(content) == {"architecture", "source_begin", "model", "training"}
    assert content["source_begin"] is True
    assert architecture_settings(content["architecture"], content["model"]) == one.model
    assert TrainingSettings.from_json(content["training"]) == one.training
    assert "\n" not in one.as_json()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"preset": "demo_lsmt"}, r"config\.models\.x\.preset: unknown model preset 'demo_lsmt'.*mean demo_lstm"),
        ({"preset": 3}, r"config\.models\.x\.preset: 3 is not a text"),
        ({}, r"config\.models\.x: missing key preset"),
        ({"preset": "demo_lstm", "modle": {}}, r"config\.models\.x\.modle: unknown key 'modle'.*did you mean model"),
        (
            {"preset": "demo_transformer", "model": {"head": 2}},
            r"config\.models\.x\.model\.head: unknown key 'head'.*did you mean heads",
        ),
        (
            {"preset": "demo_lstm", "model": {"ffn": 2}},
            r"config\.models\.x\.model\.ffn: unknown key 'ffn'; known: activation, attention, bidirectional",
        ),
        (
            {"preset": "demo_lstm", "training": {"max_update": 2}},
            r"config\.models\.x\.training\.max_update: unknown key.*did you mean max_updates",
        ),
        (
            {"preset": "demo_lstm", "training": {"learning_rate": "1e-3"}},
            r"config\.models\.x\.training\.learning_rate: '1e-3' is not a number",
        ),
        ({"preset": "demo_lstm", "model": {"dim": 0}}, r"config\.models\.x\.model\.dim: 0 must be at least 1"),
        (
            {"preset": "demo_transformer", "model": {"norm": "before"}},
            r"config\.models\.x\.model\.norm: 'before' is not one of post, pre",
        ),
        (
            {"preset": "demo_transformer", "model": {"heads": 3}},
            r"config\.models\.x\.model\.heads: 3 heads do not divide dim 64 evenly",
        ),
        (
            {"preset": "small_lstm", "training": {"max_updates": None}},
            r"config\.models\.x\.training: set max_updates, max_epochs or patience",
        ),
        (
            {"preset": "demo_fconv", "model": {"max_positions": 20}},
            r"config\.models\.x\.training\.longest: 100 pieces, but the model has 20 positions",
        ),
    ],
)
def test_a_wrong_model_is_one_line_with_its_key_path(project: Path, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        load(project, x=entry)
    assert "\n" not in str(error.value)


def test_a_shared_table_needs_a_joint_vocabulary(project: Path) -> None:
    changes: dict[str, Any] = {"preset": "demo_lstm", "model": {"embeddings": "shared"}}
    assert load(project, x=changes)[0].model.embeddings == "shared"
    with pytest.raises(ConfigError, match=r"^config\.models\.x\.model\.embeddings: shared needs one vocabulary"):
        load(project, "separate", x=changes)
    changes["model"] = {"embeddings": "tied"}
    assert load(project, "separate", x=changes)[0].model.embeddings == "tied"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "bidirectional: false,",
            "bidirection: false,",
            "models.yaml: ding2019_lstm.model.bidirection: unknown key .*al",
        ),
        ("architecture: fconv", "architecture: conv", "models.yaml: ding2019_fconv.architecture: 'conv' is not one of"),
        ("norm: post", "norm: none", "models.yaml: ding2019_transformer.model.norm: 'none' is not one of post, pre"),
        ("clip: 0.1", "clip: -1", r"models.yaml: ding2019_\w+.training.clip: -1 must be at least 0"),
        ("voita2020_transformer", "Voita-2020", "models.yaml:.* 'Voita-2020'"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_too(project: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    shutil.copytree(project / "config", tmp_path / "config")
    path = tmp_path / "config/models.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as error:
        Presets.load(path)
    assert "\n" not in str(error.value)


def test_the_manual_names_every_preset_and_every_key_with_its_default(project: Path, presets: Presets) -> None:
    manual = (project / "docs/models.md").read_text()
    for preset in presets:
        assert f"`{preset.name}`" in manual, preset.name
    tables = re.split(r"^\| key \| default \| ", manual, flags=re.MULTILINE)[1:]
    names = ("transformer", "calibrated", "lstm", "fconv", "bag_of_words", "training")
    for name, table in zip(names, tables, strict=True):
        told = {}
        for row in re.findall(r"^\| (`.+?) \| (`.+?) \|", table.split("\n\n")[0], flags=re.MULTILINE):
            keys, defaults = (re.findall(r"`(.+?)`", cell) for cell in row)
            told.update(zip(keys, defaults * (len(keys) if len(defaults) == 1 else 1), strict=True))
        expected = {key: rule["default"] for key, rule in schema_of(SETTINGS[name])["properties"].items()}
        if name == "calibrated":
            shared = schema_of(SETTINGS["transformer"])["properties"]  # told above
            expected = {key: value for key, value in expected.items() if key not in shared}
        elif name not in ("training", "bag_of_words"):
            assert expected.pop("embeddings") == "separate"  # told once for all
        assert {key: yaml.safe_load(text) for key, text in told.items()} == expected
