"""A value that can never work stops before anything starts: with its key path, the value and what is allowed."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from alignlens.attribution.registry import METHODS, parse
from alignlens.cli.main import main
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.errors import AlignlensError, ConfigError
from alignlens.io import limits
from alignlens.io.limits import Limits
from alignlens.io.schema import check
from alignlens.io.typed import schema_of
from alignlens.models.settings import ARCHITECTURES
from alignlens.training.presets import Presets, check_parts, check_recipe
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.configuration import config_schema
from alignlens.workflow.settings import load_settings

MINIMAL = {"preset": "mine", "datasets": ["demo"]}
NAN, INFINITE = math.nan, math.inf
NO_NUMBER = (NAN, INFINITE, -INFINITE, True, False, "1", "x", [1], {}, 10**30, -(10**30), 16**5000)
MODEL_PARTS = {**{name: entry.settings for name, entry in ARCHITECTURES.items()}, "training": TrainingSettings}
#: Keys whose limits the command line or a method has, too.
SHARED = {
    "max_train_pairs": limits.PAIRS,
    "subwords.vocab": limits.VOCABULARY,
    "decoding.beam": limits.BEAM,
    "decoding.length_penalty": limits.LENGTH_PENALTY,
    "decoding.max_ratio": limits.MAX_RATIO,
    "decoding.max_offset": limits.MAX_OFFSET,
    "decoding.batch_tokens": limits.BATCH_TOKENS,
    "attribution.sigma": limits.SIGMA._replace(above=True),
    # Half of what a method takes: the plan asks what twice as many would cost.
    "attribution.samples": limits.COPIES._replace(most=limits.COPIES.most // 2),
    "attribution.adaptive": limits.ADAPTIVE,
    "attribution.batch_tokens": limits.BATCH_TOKENS,
    "attribution.cost_sentences": limits.SENTENCES,
    "aligners.items.max_pairs": limits.PAIRS,
    "interval.level": limits.LEVEL,
    "interval.samples": limits.RESAMPLES,
    "interval.seed": limits.SEED,
    "seeds.items": limits.SEED,
    "seed": limits.SEED,
    "heatmaps": limits.HEATMAPS,
}


def numbers_of(rules: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Every number of a schema by its path."""
    kinds = rules.get("type", ())
    found = {path: rules} if {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)} else {}
    for key, rule in rules.get("properties", {}).items():
        found |= numbers_of(rule, f"{path}.{key}" if path else key)
    if isinstance(rules.get("items"), dict):
        found |= numbers_of(rules["items"], f"{path}.items")
    return found


def limits_of(rules: dict[str, Any]) -> Limits:
    return Limits(
        rules.get("minimum", rules.get("exclusiveMinimum")),
        rules.get("maximum", rules.get("exclusiveMaximum")),
        "exclusiveMinimum" in rules,
        "exclusiveMaximum" in rules,
    )


CONFIG_NUMBERS = numbers_of(config_schema())


def test_every_number_has_limits_and_an_upper_one_a_reason() -> None:
    every = {**CONFIG_NUMBERS}
    for name, kind in MODEL_PARTS.items():
        every |= numbers_of(schema_of(kind), name)
    assert len(every) > 60
    for path, rules in every.items():
        assert None not in limits_of(rules)[:2], path
        # Shares and percentages need none.
        assert "$comment" in rules or limits_of(rules).most in (1, 0.5, 100), path


def test_the_command_line_has_the_limits_of_the_configuration() -> None:
    assert {path: limits_of(CONFIG_NUMBERS[path]) for path in SHARED} == SHARED
    assert limits_of(schema_of(TrainingSettings)["properties"]["threads"]) == limits.THREADS


def nested(path: str, value: Any) -> Any:
    """A configuration with a value at a path."""
    *outer, last = path.split(".")
    if last == "items":
        return nested(".".join(outer), [value])
    content: Any = {last: value}
    for key in reversed(outer):
        content = {"name": "hmm", **content} if key == "items" else content
        content = [content] if key == "items" else {key: content}
    return content


def refused(config: dict[str, Any], project: Path) -> str:
    with pytest.raises(ConfigError) as error:
        load_settings({**MINIMAL, **config}, project)
    told = str(error.value)
    assert told.startswith("config.")
    assert told.isprintable()
    assert len(told) < 500
    return told


@pytest.mark.parametrize("path", CONFIG_NUMBERS)
def test_no_number_of_a_configuration_is_out_of_range(project: Path, path: str) -> None:
    rules = CONFIG_NUMBERS[path]
    allowed, key = limits_of(rules), path.replace(".items", "[0]")
    wrong = [*NO_NUMBER, allowed.least - 1, allowed.most + 1]
    wrong += [float(allowed.least + 1), 1.5] if "integer" in rules["type"] else []
    for value in wrong:
        with pytest.raises(ConfigError, match="^" + re.escape(f"config.{key}")):
            check({**MINIMAL, **nested(path, value)}, config_schema(), "config")
    above = refused(nested(path, allowed.most + 1), project)
    assert str(allowed.most + 1) in above
    assert f"at most {rules['maximum']}" in above if "maximum" in rules else "less than" in above
    assert rules.get("$comment", "") in above


@pytest.mark.parametrize("part", MODEL_PARTS)
def test_no_number_of_a_model_is_out_of_range_in_a_configuration_or_on_the_command_line(
    project: Path, part: str
) -> None:
    presets = Presets.load(project / "config/models.yaml")
    preset = presets.get({"training": "demo_lstm", "bag_of_words": "demo_snell_proxy"}.get(part, f"demo_{part}"), "")
    where = "training" if part == "training" else "model"
    good = {"architecture": preset.architecture, "model": {**preset.model}, "training": {**preset.training}}
    check_recipe(good, "--settings")
    for path, rules in numbers_of(schema_of(MODEL_PARTS[part])).items():
        allowed = limits_of(rules)
        wrong = [*NO_NUMBER, allowed.least - 1, allowed.most + 1]
        wrong += [float(allowed.least + 1)] if "integer" in rules["type"] else []
        for value in wrong:
            key = path.removesuffix(".items")
            given = value if key == path else [value, 0.5] if key == "betas" else [value]
            parts = {"model": {}, "training": {}, where: {key: given}}
            with pytest.raises(ConfigError, match=rf"^config\.models\.x\.{where}\.{key}"):
                check_parts(preset.architecture, parts["model"], parts["training"], "config.models.x")
        # One by one all the way: the last of them, in both places.
        told = refused({"models": {"x": {"preset": preset.name, where: {key: given}}}}, project)
        assert told.startswith(f"config.models.x.{where}.{key}")
        with pytest.raises(ConfigError, match=rf"^--settings\.{where}\.{key}"):
            check_recipe({**good, where: {**good[where], key: given}}, "--settings")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"architecture": "rnn"}, "--settings.architecture: 'rnn' is not one of"),
        ({"architecture": None}, "--settings.architecture: None is not one of"),
        ({"architecture": []}, "--settings.architecture: "),
        ({"model": "x"}, "--settings.model: 'x' is not a mapping"),
        ({"model": {"dim": "x"}}, "--settings.model.dim: 'x' is not a whole number"),
        ({"model": {"head": 2}}, "--settings.model.head: unknown key 'head'"),
        ({"training": []}, "--settings.training: [] is not a mapping"),
        ({"training": {"max_updates": 3, "snapshots": 3}}, "--settings.training.snapshots: 3 is not a list"),
        ({"training": {"max_updates": 3, "learning_rate": NAN}}, "--settings.training.learning_rate: nan is not"),
        ({"training": {}}, "--settings.training: set max_updates"),
        ({"source_begin": "yes"}, "--settings.source_begin: 'yes' is not true or false"),
        ({"modle": {}}, "--settings.modle: unknown key 'modle'"),
        ({"model": {"dim": 5, "heads": 5}}, "--settings.model.dim: sinusoidal positions need an even number"),
        (
            {"architecture": "fconv", "model": {"max_positions": 20}},
            "--settings.training.longest: 256 pieces, but the model has 20 positions",
        ),
    ],
)
def test_what_training_is_told_is_checked_as_in_a_configuration(
    change: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = {"architecture": "transformer", "model": {}, "training": {"max_updates": 3}, **change}
    files = [f"--{name}={os.devnull}" for name in ("train-source", "train-target", "dev-source", "dev-target")]
    files += [f"--{name}={os.devnull}" for name in ("dev-text", "source-subwords", "target-subwords")]
    places = [f"--work={tmp_path / 'work'}", f"--out={tmp_path / 'out'}"]
    assert main(["train", "--settings", json.dumps(settings), *files, *places]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alignlens train: {told}")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["architecture", "model", "training"])
def test_what_training_must_be_told_is_named(missing: str) -> None:
    settings = {"architecture": "lstm", "model": {}, "training": {"max_updates": 3}}
    del settings[missing]
    with pytest.raises(ConfigError, match=f"--settings: missing key {missing}"):
        check_recipe(settings, "--settings")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('{"cleaning": {"max_words": 1.0}}', "--settings.cleaning.max_words: 1.0 is not a whole number"),
        ('{"cleaning": {"max_words": 201}}', "--settings.cleaning.max_words: 201 must be at most 200"),
        ('{"cleaning": {"max_ratio": NaN}}', "--settings.cleaning.max_ratio: nan is not a finite number"),
        ('{"max_train_pairs": true}', "--settings.max_train_pairs: True is not a whole number"),
        (
            '{"max_train_pairs": 1, "max_train_pairs": 2}',
            "--settings: not JSON (the key 'max_train_pairs' appears twice)",
        ),
    ],
)
def test_what_preparation_is_told_is_checked_as_in_a_configuration(
    settings: str, told: str, project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    datasets = str(project / "config/datasets.yaml")
    out = str(tmp_path / "out")
    assert main(["data", "prepare", "demo", "--datasets", datasets, "--out", out, "--settings", settings]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alignlens data: {told}")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("smoothgrad,n=0", "n=0: must be a number from 1 to 10000"),
        ("smoothgrad,n=10000000", "n=10000000: must be"),
        ("smoothgrad,n=1.0", "n=1.0: must be"),
        ("smoothgrad,n=", "n=: must be"),
        ("smoothgrad,n", "give n once, as n=value"),
        ("smoothgrad,n=3,n=3", "give n once"),
        ("smoothgrad,", "unknown parameter ''"),
        ("smoothgrad,sigma=1e30", "sigma=1e30: must be a number from 0 to 10"),
        ("smoothgrad,sigma=nan", "sigma=nan: must be a number from 0 to 10"),
        ("smoothgrad,sigma=inf", "sigma=inf: must be"),
        ("smoothgrad,sigma=-0.1", "sigma=-0.1: must be"),
        ("smoothgrad,sigma=0.1\n", r"sigma='0.1\n': must be"),
        ("smoothgrad,seed=-1", "seed=-1: must be a number from 0 to 2147483647"),
        ("smoothgrad,seed=99999999999999999999999", "must be a number from 0 to 2147483647"),
        ("smoothgrad,n=" + "9" * 5000, "must be"),
        ("smoothgrad,n=1_0", "must be"),
        ("smoothgrad,n=\u0663", "must be"),
        ("attention,layer=99999999999", "layer=99999999999: must be paper, mean or a number from 0 to 999"),
        ("attention,layer=", "layer=: must be"),
        ("norms,head=1.5", "head=1.5: must be"),
        ("attention\n", "unknown method"),
        ("x" * 100_000, "unknown method"),
    ],
)
def test_a_parameter_of_a_method_is_within_its_limits(project: Path, method: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(method)
    assert told in str(error.value)
    assert told in refused({"attribution": {"methods": [method]}}, project)


def test_defaults_of_methods_are_within_their_limits() -> None:
    for spec in METHODS.values():
        for key, parameter in spec.parameters.items():
            assert parse(f"{spec.name},{key}={parameter.default}").text == spec.name


def test_a_noise_level_stays_what_it_is() -> None:
    # Six digits would make this another level, and the name of other results.
    assert parse("smoothgrad,sigma=0.1500000001").text == "ding_smoothgrad,sigma=0.1500000001"
    assert parse("smoothgrad,sigma=0.1500000001").parameters["sigma"] == 0.1500000001
    assert [parse(f"smoothgrad,sigma={text}").text for text in ("1", "0.050", "1e-3")] == [
        "ding_smoothgrad,sigma=1", "ding_smoothgrad,sigma=0.05", "ding_smoothgrad,sigma=0.001",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        (BeamSettings, {"beam": 1001}, "decoding.beam: 1001 must lie from 1 to 1000"),
        (BeamSettings, {"beam": True}, "decoding.beam: True"),
        (BeamSettings, {"beam": 1000, "n_best": 1001}, "decoding.n_best: 1001"),
        (BeamSettings, {"length_penalty": NAN}, "decoding.length_penalty: nan"),
        (BeamSettings, {"length_penalty": 11}, "decoding.length_penalty: 11"),
        (BeamSettings, {"max_ratio": INFINITE}, "decoding.max_ratio: inf"),
        (BeamSettings, {"max_offset": 10_001}, "decoding.max_offset: 10001"),
        (SamplingSettings, {"samples": 10_001}, "decoding.samples: 10001"),
        (SamplingSettings, {"temperature": 1e-300}, "decoding.temperature: 1e-300"),
        (SamplingSettings, {"seed": 2**31}, "decoding.seed: 2147483648"),
    ],
)
def test_decoding_has_limits(kind: type, values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        kind(**values)
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"train": 1.0}, "config.custom_datasets.mine.settings.train: 1.0 is not a whole number"),
        ({"seed": -1}, "config.custom_datasets.mine.settings.seed: -1 must be at least 0"),
        ({"reordering": NAN}, "config.custom_datasets.mine.settings.reordering: nan"),
        ({"seeds": 1}, "config.custom_datasets.mine.settings.seeds: unknown key 'seeds'"),
        (
            {"min_words": 19},
            "config.custom_datasets.mine.settings.min_words: 19 must be at most max_words, which is 18",
        ),
    ],
)
def test_generated_text_is_checked_before_it_is_made(project: Path, settings: dict[str, Any], told: str) -> None:
    entry = {"kind": "synthetic", "pair": ["xa", "xb"], "settings": settings}
    assert refused({"custom_datasets": {"mine": entry}}, project).startswith(told)


def test_what_no_schema_expects_is_one_line() -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    for value in (deep, {1: "x"}, {None: 1}, datetime.date(2024, 1, 1), b"x", {"a\nb": NAN}, "\ud800", "a\0b", {3, 4}):
        with pytest.raises(AlignlensError) as error:
            check({"key": value}, {}, "config")
        assert str(error.value).startswith("config")
        assert "\n" not in str(error.value)


def test_a_choice_is_taken_as_it_is_written(tmp_path: Path) -> None:
    schema = {"properties": {"base": {"enum": [0, 1]}}}
    check({"base": 1}, schema, "config")
    for value in (1.0, True, False, 0.0):
        with pytest.raises(ConfigError, match="is not one of 0, 1"):
            check({"base": value}, schema, "config")


def test_a_pattern_ends_where_the_text_ends() -> None:
    schema = {"pattern": "^[0-9a-f]{4}$"}
    check("12ab", schema, "config")
    with pytest.raises(ConfigError, match="does not match"):
        check("12ab\n", schema, "config")
