"""A configuration that is wrong never starts, and the message says where, what and what instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marian_configs import write_configs

from alignlens.alignment.symmetrizations import SYMMETRIZATIONS
from alignlens.attribution.settings import AttributionSettings
from alignlens.errors import ConfigError, InputError
from alignlens.studies.registry import studies
from alignlens.workflow.configuration import config_schema
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

MINIMAL = {"preset": "mine", "datasets": ["demo"]}


def with_changes(**changes: Any) -> dict[str, Any]:
    return {**MINIMAL, **changes}


def test_defaults_fill_what_is_left_out(project: Path) -> None:
    settings = load_settings(MINIMAL, project)
    assert settings.cleaning.max_words == 100
    assert settings.symmetrizations == SYMMETRIZATIONS
    assert [run.size for run in settings.aligners] == ["all"]
    assert (settings.models, settings.seeds, settings.directions) == ((), (1,), "both")
    assert (settings.studies, settings.attribution) == ({}, AttributionSettings())
    partly = load_settings(with_changes(cleaning={"max_words": 7}, aligners=[{"name": "hmm"}]), project)
    assert (partly.cleaning.max_words, partly.cleaning.drop_duplicates) == (7, True)
    assert (partly.aligners[0].text, partly.aligners[0].max_pairs) == ("offline", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": ["demo"]}, "config.dataset: unknown key 'dataset'.*did you mean datasets"),
        ({"datasets": ["dmeo"]}, r"config.datasets\[0\]: unknown dataset 'dmeo'.*did you mean demo"),
        ({"datasets": []}, "config.datasets: "),
        ({"cleaning": {"max_word": 3}}, r"config.cleaning.max_word: unknown key.*did you mean max_words"),
        ({"cleaning": {"max_words": "3"}}, "config.cleaning.max_words: '3' is not a whole number"),
        ({"cleaning": {"max_words": 0}}, "config.cleaning.max_words: 0 must be at least 1"),
        (
            {"aligners": [{"name": "fastalign"}]},
            r"config.aligners\[0\].name: 'fastalign' .*mean fast_align",
        ),
        ({"aligners": [{"name": "hmm"}, {"name": "hmm"}]}, r"config.aligners\[1\]: hmm offline appears twice"),
        ({"aligners": [{"text": "online"}]}, r"config.aligners\[0\]: missing key name"),
        ({"symmetrizations": ["grow-diag-fnal"]}, r"config.symmetrizations\[0\].*did you mean grow-diag-final"),
        ({"subwords": {"kind": "shared"}}, "config.subwords.kind: 'shared' is not one of joint, separate"),
        ({"mirror": "/no/such/folder"}, "config.mirror: '/no/such/folder' is not a folder"),
        ({"preset": "../up"}, "config.preset"),
        ({"models": {"My-Model": {"preset": "demo_lstm"}}}, "config.models: 'My-Model' does not match"),
        ({"models": ["demo_lstm"]}, r"config.models: \['demo_lstm'\] is not a mapping"),
        ({"models": {"x": "demo_lstm"}}, "config.models.x: 'demo_lstm' is not a mapping or null"),
        ({"seeds": []}, "config.seeds: "),
        ({"seeds": [1, 1]}, "config.seeds: .*non-unique"),
        ({"seeds": ["one"]}, r"config.seeds\[0\]: 'one' is not a whole number"),
        ({"directions": "backward"}, "config.directions: 'backward' is not one of both, forward"),
        ({"decoding": {"beams": 3}}, "config.decoding.beams: unknown key 'beams'.*did you mean beam"),
        ({"decoding": {"beam": 0}}, "config.decoding.beam: 0 must be at least 1"),
        (
            {"decoding": {"max_ratio": 0, "max_offset": 0}},
            "config.decoding.max_offset: 0 must be more than 0 where max_ratio is 0",
        ),
        ({"decoding": {"bleu_tokenize": "13b"}}, "config.decoding.bleu_tokenize: '13b' .*did you mean 13a"),
        ({"studies": {"ding2091": {}}}, "config.studies.ding2091: unknown key 'ding2091'.*did you mean ding2019"),
        ({"studies": ["ding2019"]}, r"config.studies: \['ding2019'\] is not a mapping"),
        ({"studies": {"ding2019": True}}, "config.studies.ding2019: True is not a mapping or null"),
        ({"attribution": {"method": []}}, "config.attribution.method: unknown key 'method'.*did you mean methods"),
        ({"attribution": {"methods": ["smothgrad"]}}, r"config.attribution.methods\[0\]: .*did you mean smoothgrad"),
        (
            {"attribution": {"methods": ["attention", "grad,sigma=1"]}},
            r"config.attribution.methods\[1\]: method grad,sigma=1: unknown parameter 'sigma'",
        ),
        (
            {"attribution": {"methods": ["smoothgrad", "ding_smoothgrad,n=30"]}},
            r"config.attribution.methods\[1\]: 'ding_smoothgrad,n=30' appears twice",
        ),
        ({"attribution": {"decodings": []}}, "config.attribution.decodings: "),
        ({"attribution": {"extractions": ["dign"]}}, r"config.attribution.extractions\[0\].*did you mean ding"),
        ({"attribution": {"adaptive": 0.5}}, "config.attribution.adaptive: 0.5 must be less than 0.5"),
        ({"attribution": {"shards": 0}}, "config.attribution.shards: 0 must be at least 1"),
        ({"studies": {"ding2019": {"sigmas": [0]}}}, r"config.studies.ding2019.sigmas\[0\]: 0 must be more than 0"),
        (
            {"tracking": {"uri": "http://me:secret@host:5000"}},
            "config.tracking.uri: do not put a password in a configuration",
        ),
        (
            {"tracking": {"uri": "postgresql://host/db?password=secret"}},
            "config.tracking.uri: do not put a password",
        ),
        ({"interval": {"level": 100}}, "config.interval.level: 100 must be less than 100"),
        ({"custom_datasets": {"mine": {"kind": "file", "pair": ["de", "en"]}}}, "config.custom_datasets.*mine.*'file'"),
    ],
)
def test_wrong_configurations(project: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load_settings(with_changes(**changes), project)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_path_that_leads_nowhere_is_told_before_anything_runs(project: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    here, nowhere = str(tmp_path / "a"), str(tmp_path / "b")
    entry = {"kind": "files", "pair": ["de", "en"], "train": [{"source": here, "target": nowhere}], "test": {"last": 1}}
    with pytest.raises(ConfigError, match=r"config.datasets\[1\]: mine.train.0.target: no such file: '.*b'"):
        load_settings(with_changes(datasets=["demo", "mine"], custom_datasets={"mine": entry}), project)


def test_files_are_laid_over_each_other_as_snakemake_does(tmp_path: Path) -> None:
    (tmp_path / "below.yaml").write_text("a: {x: 1, y: 2}\nlist: [1, 2]\n")
    (tmp_path / "above.yaml").write_text("a: {y: 3}\nlist: [3]\n")
    assert read_config([tmp_path / "below.yaml", tmp_path / "above.yaml"]) == {"a": {"x": 1, "y": 3}, "list": [3]}
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    with pytest.raises(InputError, match=r"broken.yaml:2: not YAML"):
        read_config([tmp_path / "broken.yaml"])
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ConfigError, match="not a mapping"):
        read_config([tmp_path / "list.yaml"])


def test_every_preset_is_valid_and_named_as_its_file(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIGNLENS_OPUS", str(tmp_path))
    write_configs(tmp_path, "en-fr", "fr-en")
    base = project / "config" / "config.yaml"
    assert load_settings(read_config([base]), project).preset == "demo"
    presets = sorted((project / "config" / "presets").glob("*.yaml"))
    assert {path.stem for path in presets} >= {"hansards", "deen", "roen", "multi30k", "paper"}
    for path in presets:
        assert load_settings(read_config([base, path]), project).preset == path.stem


def test_every_key_is_closed_and_explained_and_has_a_default() -> None:
    schema = config_schema()
    assert list(schema["properties"]["studies"]["properties"]) == list(studies())
    for key, rule in keys_of(schema):
        assert rule.get("description"), f"{key} has no description"
        chosen = ("preset", "datasets", "aligners.name", *(f"studies.{name}" for name in studies()))
        assert "default" in rule or key.endswith((".preset", ".huggingface")) or key in chosen, f"{key} has no default"


def test_methods_of_a_configuration_become_canonical(project: Path) -> None:
    written = {"methods": ["smoothgrad,n=5,sigma=0.15", "grad"], "adaptive": 0.01}
    settings = load_settings(with_changes(attribution=written), project).attribution
    assert settings.methods == ("ding_smoothgrad,n=5", "ding_grad")
    assert (settings.adaptive, settings.samples) == (0.01, 30)


def test_the_demo_trains_every_architecture_both_ways_and_real_data_does_not_inherit_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configs(tmp_path, "en-fr", "fr-en")
    monkeypatch.setenv("ALIGNLENS_OPUS", str(tmp_path))
    base = project / "config" / "config.yaml"
    demo = load_settings(read_config([base]), project)
    assert [run.architecture for run in demo.models] == ["lstm", "fconv", "transformer"]
    assert (demo.directions, demo.seeds, list(demo.studies)) == ("both", (1,), list(studies()))
    for path in sorted((project / "config" / "presets").glob("*.yaml")):
        settings = load_settings(read_config([base, path]), project)
        assert Plan.of(settings).requested.models, path.stem
        assert not [run.preset for run in settings.models if run.preset.startswith("demo_")], path.stem


def keys_of(schema: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every key of a schema by its dotted path; objects must be closed unless their keys are free names."""
    found = []
    for key, rule in schema.get("properties", {}).items():
        found.append((prefix + key, rule))
        named = rule.get("additionalProperties")
        inner = named if isinstance(named, dict) else rule.get("items", rule)
        if "properties" in inner:
            assert inner.get("additionalProperties") is False, f"{prefix}{key} is open"
            found += keys_of(inner, f"{prefix}{key}.")
    return found
