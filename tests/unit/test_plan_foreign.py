"""Models from elsewhere in a configuration: which folders they are, what is made for them, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from marian_configs import MARIAN, write_configs

from alignlens.attribution.registry import parse
from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.models.foreign import FAMILIES, described
from alignlens.models.hub import SUPPORTED
from alignlens.models.settings import TransformerSettings
from alignlens.models.t5_settings import T5Settings
from alignlens.results.manifest import Manifest
from alignlens.results.paths import PIECES, TEXT, TOKENS
from alignlens.workflow.costs.growth import growth
from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

ROOT = "results/mine"
STUDIES = {"ding2019": {"noise_seeds": [1]}, "kobayashi2020": {"encoders": {"models": {}}}}


@pytest.fixture
def folders(tmp_path: Path) -> str:
    """Models of both directions of the demo, as a configuration names them."""
    return write_configs(tmp_path / "opus", "xa-xb", "xb-xa")


def plan_of(project: Path, huggingface: Any, **changes: Any) -> Plan:
    models = {"opus": {"huggingface": huggingface}, **changes.pop("models", {})}
    return Plan.of(load_settings({"preset": "mine", "datasets": ["demo"], "models": models, **changes}, project))


def test_what_a_configuration_may_name_can_be_read() -> None:
    assert set(FAMILIES) == set(SUPPORTED)


def test_a_model_is_imported_where_one_of_ours_is_trained(project: Path, folders: str) -> None:
    plan = plan_of(project, folders, seeds=[3, 5], models={"lstm": {"preset": "demo_lstm"}})
    imported = [path for path in plan.models() if "/opus/" in path]
    # One seed, whatever the others have.
    assert imported == [f"{ROOT}/models/demo/{direction}/opus/3/model" for direction in ("xa-xb", "xb-xa")]
    assert len(plan.models()) == 2 + 4
    assert plan.foreign.names() == ["opus"]
    assert plan.foreign.folder(dataset="demo", direction="xb-xa", model="opus", seed="3").endswith("opus-mt-xb-xa")
    assert plan.model("opus").model == TransformerSettings(
        dim=16, ffn=24, heads=2, encoder_layers=2, decoder_layers=3, activation="swish", sinusoids="halves",
        output_bias=True, embeddings="shared_tied",
    )  # fmt: skip
    assert (plan.vocabulary("opus"), plan.vocabulary("lstm")) == (150, 8000)
    assert sum("/opus/3/" in path for path in plan.translations()) == 6


def test_what_is_read_off_are_the_pieces_that_the_model_reads(project: Path, folders: str) -> None:
    plan = plan_of(project, folders, models={"lstm": {"preset": "demo_lstm"}})
    names: dict[str, Any] = {"dataset": "demo", "seed": 1, "split": "test"}
    for pattern, kind in ((PIECES, "pieces"), (TOKENS, "tokens")):
        there = [plan.given(pattern, place, direction="xa-xb", model="opus", **names) for place in (0, 1)]
        back = [plan.given(pattern, place, direction="xb-xa", model="opus", **names) for place in (0, 1)]
        assert there == [f"{ROOT}/models/demo/xa-xb/opus/1/{kind}/test.{side}" for side in ("source", "target")]
        assert back == [f"{ROOT}/models/demo/xb-xa/opus/1/{kind}/test.{side}" for side in ("target", "source")]
        assert plan.given(pattern, 0, direction="xb-xa", model="lstm", **names) == f"{ROOT}/{kind}/demo/test.target"
    # Text is the same for all.
    assert plan.given(TEXT, 1, direction="xb-xa", model="opus", **names) == f"{ROOT}/data/demo/test.source"


def test_a_study_reads_the_pieces_of_each_of_its_models(project: Path, folders: str, tmp_path: Path) -> None:
    plan = plan_of(project, folders, studies=STUDIES, models={"lstm": {"preset": "demo_lstm"}})
    read = [path for path in plan.studies.inputs("ding2019") if "pieces" in path]
    own = [f"{ROOT}/models/demo/{way}/opus/1/pieces/test.{side}" for way in ("xa-xb", "xb-xa") for side in "st"]
    assert sorted(path for path in read if "/opus/" in path) == [
        path[:-1] + {"s": "source", "t": "target"}[path[-1]] for path in own
    ]
    assert [path for path in read if "/opus/" not in path] == [
        f"{ROOT}/pieces/demo/test.source", f"{ROOT}/pieces/demo/test.target",
    ]  # fmt: skip
    # A reader that knows of pieces of its own is never given those of the dataset instead.
    files = ("pieces/demo/test.source", "models/demo/xa-xb/opus/1/pieces/test.source")
    (tmp_path / files[0]).parent.mkdir(parents=True), (tmp_path / files[0]).write_text("a\n")
    manifest, ours = Manifest(tmp_path, files), {"dataset": "demo", "direction": "xa-xb", "seed": "1"}
    assert manifest.pieces("source", model="opus", **ours) is None
    assert manifest.pieces("source", model="lstm", **ours) == tmp_path / files[0]


def test_studies_ask_it_like_one_of_ours(project: Path, folders: str) -> None:
    plan = plan_of(project, folders, studies=STUDIES, seeds=[2, 4])
    runs = {(run.split, run.decoding): plan.attribution.methods(run) for run in plan.attribution.runs()}
    assert set(runs) == {("test", "forced"), ("test", "free"), ("dev", "forced")}
    assert {run.seed for run in plan.attribution.runs()} == {2}
    assert {"ding_smoothgrad", "norms,layer=2,head=1", "lrp"} <= {
        method.replace(",step=in", "") for method in runs["test", "forced"]
    }
    assert plan.studies.active() == ["ding2019", "kobayashi2020"]
    assert f"{ROOT}/encoders/demo/xa-xb/opus/2" in plan.studies.encoder_statistics()
    assert [path for path in plan.attribution.costs() if "/opus/2/" in path]


def test_it_is_imported_and_not_trained(project: Path, folders: str) -> None:
    plan = plan_of(project, folders, studies=STUDIES)
    cost = estimate(plan, sizes_of(plan), Rates.load(project / "config"))
    rules = cost.rules()
    assert (rules["import_model"], rules["train"], rules["train_masks"], rules["translate"]) == (2, 0, 2, 2)
    # Both sides of test and dev, and of the training text for mask nets, in both directions.
    assert rules["segment_for_model"] == 12
    assert not any("training of" in text for text in cost.assumed)
    assert cost.stages()["imported models"].gpu_hours == 0
    weights = 150 * 16 + 2 * (4 * 16**2 + 2 * 16 * 24) + 3 * (8 * 16**2 + 2 * 16 * 24)
    (job, _) = (job for job in cost.jobs if job.rule == "import_model")
    assert job.bytes == pytest.approx(4 * weights, abs=10_001)
    alone = plan_of(project, folders)
    jobs = estimate(alone, sizes_of(alone), Rates.load(project / "config"))
    assert jobs.rules()["segment_for_model"] == 4
    grown = growth(alone, sizes_of(alone), Rates.load(project / "config"), jobs)
    assert {each.change: each.total for each in grown}["one more seed"] == 1.0


def test_the_report_has_no_learning_curves_of_it(project: Path, folders: str) -> None:
    plan = plan_of(project, folders)
    assert plan.report.curves() == []
    assert plan.report.model_tables()
    assert plan_of(project, folders, models={"lstm": {"preset": "demo_lstm"}}).report.curves()


def test_folders_by_direction_and_of_one_direction(project: Path, tmp_path: Path) -> None:
    write_configs(tmp_path, "xa-xb", "xb-xa")
    named = {"xa-xb": str(tmp_path / "opus-mt-xa-xb"), "xb-xa": str(tmp_path / "opus-mt-xb-xa")}
    assert (
        plan_of(project, named).model("opus").imported
        == plan_of(project, f"{tmp_path}/opus-mt-{{source}}-{{target}}").model("opus").imported
    )
    one = plan_of(project, named["xa-xb"], directions="forward")
    assert one.models() == [f"{ROOT}/models/demo/xa-xb/opus/1/model"]


def test_one_folder_for_both_directions_has_its_languages_behind_it(project: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({**MARIAN, "model_type": "m2m_100", "activation_function": "relu", "max_position_embeddings": 64})
    )
    plan = plan_of(project, {"xa-xb": f"{tmp_path}#aaa_Latn-bbb_Latn", "xb-xa": f"{tmp_path}#bbb_Latn-aaa_Latn"})
    assert plan.foreign.name(direction="xb-xa", model="opus") == f"{tmp_path}#bbb_Latn-aaa_Latn"
    assert plan.foreign.folder(direction="xb-xa", model="opus") == str(tmp_path)
    settings = plan.model("opus").model
    assert isinstance(settings, TransformerSettings)
    assert (settings.norm, settings.sinusoids, settings.positions) == ("pre", "fairseq", None)
    one = plan_of(project, f"{tmp_path}#{{source}}_Latn-{{target}}_Latn")
    assert one.foreign.name(direction="xa-xb", model="opus") == f"{tmp_path}#xa_Latn-xb_Latn"


def test_t5_keeps_its_architecture(project: Path, tmp_path: Path) -> None:
    config = {
        "model_type": "mt5",
        "vocab_size": 120,
        "d_model": 16,
        "d_kv": 6,
        "d_ff": 24,
        "num_layers": 2,
        "num_heads": 4,
    }
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    plan = plan_of(project, str(tmp_path), studies=STUDIES, directions="forward")
    assert plan.model("opus").architecture == "t5"
    assert plan.model("opus").model == T5Settings(
        dim=16, ffn=24, heads=4, head_dim=6, encoder_layers=2, decoder_layers=2, activation="gelu_tanh", gated=True,
        scale_output=False, embeddings="shared",
    )  # fmt: skip
    methods = {parse(text).name for run in plan.attribution.runs() for text in plan.attribution.methods(run)}
    assert {"attention", "ding_smoothgrad", "probe", "alti"} <= methods
    assert not {"lrp", "lrp_epsilon", "mask"} & methods
    cost = estimate(plan, sizes_of(plan), Rates.load(project / "config"))
    assert (cost.rules()["import_model"], cost.rules()["train_masks"]) == (1, 0)
    inner, gated = 4 * 6 * 16, 3 * 16 * 24
    weights = 2 * 120 * 16 + 2 * (4 * inner + gated) + 2 * (8 * inner + gated)
    (job,) = (job for job in cost.jobs if job.rule == "import_model")
    assert job.bytes == pytest.approx(4 * weights, abs=10_001)


def test_environment_variables_are_filled_in(
    project: Path, folders: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HERE_IT_IS", str(tmp_path))
    for written in ("$HERE_IT_IS/opus", "${HERE_IT_IS}/opus"):
        plan = plan_of(project, folders.replace(f"{tmp_path}/opus", written))
        assert plan.foreign.folder(direction="xa-xb", model="opus") == f"{tmp_path}/opus/opus-mt-xa-xb"


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"huggingface": "x", "preset": "demo_lstm"}, r"models.opus.preset: does not go with huggingface"),
        ({"huggingface": "x", "model": {"dim": 3}}, r"models.opus.model: does not go with huggingface"),
        ({}, "models.opus: missing key preset, or huggingface for a model from elsewhere"),
        ({"model": {}}, "models.opus: missing key preset, or huggingface"),
        ({"hugging_face": "x"}, "models.opus.hugging_face: unknown key 'hugging_face'.*did you mean huggingface"),
        ({"huggingface": 3}, "models.opus.huggingface: 3 is not a text or a mapping"),
        ({"huggingface": {"xa-xb": 3}}, "models.opus.huggingface.xa-xb: 3 is not a text"),
        ({"huggingface": ""}, "models.opus.huggingface: "),
        ({"huggingface": "$NOBODY_SET/x"}, "models.opus.huggingface: the environment variable NOBODY_SET is not set"),
        ({"huggingface": "{here}/opus-mt-xa-xb"}, "models.opus.huggingface: .* is the same folder for xa-xb and xb-xa"),
        ({"huggingface": "{here}/no-{source}-{target}"}, "models.opus.huggingface: '.*no-xa-xb' is not a folder"),
        ({"huggingface": {"xa-xb": "{here}/opus-mt-xa-xb"}}, "models.opus.huggingface: no folder for xb-xa; given are"),
        ({"huggingface": {"xa-xb": "/no", "xb-xa": "x"}}, "models.opus.huggingface.xa-xb: '/no' is not a folder"),
        ({"huggingface": "{here}/ours-{source}-{target}"}, "models.opus.huggingface: .*is an alignlens model"),
        ({"huggingface": "{here}/{{source}}-{target}"}, "models.opus.huggingface: .*reads braces in a path"),
        ({"huggingface": "{here}/empty-{source}-{target}"}, r"models.opus.huggingface: .*config.json: no such file"),
        ({"huggingface": "{here}/bert-{source}-{target}"}, "of type 'bert' are not supported in a configuration"),
        ({"huggingface": "{here}/zero-{source}-{target}"}, "zero-xa-xb/config.json: encoder_layers: 0 must be at"),
        ({"huggingface": "{here}/headless-{source}-{target}"}, "headless-xa-xb/config.json: unexpected value"),
        ({"huggingface": "{here}/none-{source}-{target}"}, "none-xa-xb/config.json: 'd_model' is missing"),
        ({"huggingface": "{here}/pre-{source}-{target}"}, "norms before the layers are not supported"),
        ({"huggingface": "{here}/deep-{source}-{target}"}, "decoder_layers is 3 in xa-xb and 6 in xb-xa; both"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line_with_its_key(
    project: Path, folders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Any, told: str
) -> None:
    monkeypatch.delenv("NOBODY_SET", raising=False)
    here = tmp_path / "opus"
    without = {key: value for key, value in MARIAN.items() if key != "d_model"}
    heads = {"encoder_attention_heads": 0, "decoder_attention_heads": 0}
    for direction in ("xa-xb", "xb-xa"):
        deep = {"decoder_layers": 6} if direction == "xb-xa" else {}
        contents = {
            "ours": MARIAN, "empty": None, "bert": {"model_type": "bert"}, "none": without,
            "zero": {**MARIAN, "encoder_layers": 0}, "headless": {**MARIAN, **heads},
            "pre": {**MARIAN, "normalize_before": True}, "deep": {**MARIAN, **deep},
        }  # fmt: skip
        for name, content in contents.items():
            folder = here / f"{name}-{direction}"
            folder.mkdir()
            if content is not None:
                (folder / "config.json").write_text(json.dumps(content))
        (here / f"ours-{direction}" / "model.json").write_text("{}")
        shutil.copytree(here / f"ours-{direction}", here / direction.replace("xa", "{xa}", 1))

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(inner) for key, inner in value.items()}
        return value.replace("{here}", str(here)) if isinstance(value, str) else value

    config = {"preset": "mine", "datasets": ["demo"], "models": {"opus": named(chosen)}}
    with pytest.raises(ConfigError, match=told) as error:
        load_settings(config, project)
    assert str(error.value).startswith("config.models.opus")
    assert "\n" not in str(error.value)


def test_the_verb_tells_it_and_ends_with_2(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.delenv("ALIGNLENS_OPUS", raising=False)
    preset = ["plan", "--configfile", "config/presets/opus-hansards.yaml", "--results", str(tmp_path)]
    assert main(preset) == 2
    assert capsys.readouterr().err == (
        "alignlens plan: config.models.opus.huggingface: the environment variable ALIGNLENS_OPUS is not set. "
        "Set it to the folder of the model: export ALIGNLENS_OPUS=FOLDER\n"
    )
    monkeypatch.setenv("ALIGNLENS_OPUS", str(tmp_path / "opus"))
    write_configs(tmp_path / "opus", "en-fr", "fr-en")
    assert main(preset) == 0
    told = capsys.readouterr().out
    assert "model opus (huggingface): transformer, both directions, seed 1" in told
    assert "imported models" in told


def test_vocabularies_of_two_sides(tmp_path: Path) -> None:
    write_configs(tmp_path, "xa-xb", decoder_vocab_size=200)
    assert described(tmp_path / "opus-mt-xa-xb").vocabulary == 200
