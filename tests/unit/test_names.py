"""Names of a configuration become folders: none leaves its folder, hides, needs quotes or takes another's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.io.names import KINDS, is_name
from alignlens.workflow.settings import load_settings

BAD = (
    "", ".", "..", "../up", "a/b", "/abs", "a\\b", "a.b", ".hidden", "-x", "--out", "_x", "a\n", "\na", "a\r", "a\t",
    "a b", " a", "a ", "a\0", "a\x7f", "a\u200b", "dem\u043e", "\uff41", "\u00e9", "e\u0301", "a;b", "$(a)", "`a`",
    "a'b", 'a"b', "~", "*", "a|b", "{a}", "a,b", "a=b", "a:b", "x" * 65, "x" * 100_000,
)  # fmt: skip


#: Where a rule says what a name may be; elsewhere it is one of a list.
ENCODERS = "config.studies.kobayashi2020.encoders.models"
CHECKED = ("preset", "dataset", "model", "encoder")


def encoders(settings: dict[str, Any]) -> dict[str, Any]:
    return {"studies": {"kobayashi2020": {"encoders": settings}}}


def names(bad: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """A configuration with the name in every place that becomes a path, by what it names, with its key path."""
    entry = {"kind": "synthetic", "pair": ["xa", "xb"]}
    return {
        "preset": ("config.preset:", {"preset": bad}),
        "dataset": ("config.custom_datasets:", {"custom_datasets": {bad: entry}}),
        "source language": (
            "config.custom_datasets.mine.pair[0]:",
            {"custom_datasets": {"mine": {**entry, "pair": [bad, "xb"]}}},
        ),
        "target language": (
            "config.custom_datasets.mine.pair[1]:",
            {"custom_datasets": {"mine": {**entry, "pair": ["xa", bad]}}},
        ),
        "model": ("config.models:", {"models": {bad: {"preset": "demo_lstm"}}}),
        "model left out": ("config.models:", {"models": {bad: None}}),
        "encoder": (f"{ENCODERS}:", encoders({"models": {bad: "minilm"}})),
        "encoder left out": (f"{ENCODERS}:", encoders({"models": {bad: None}})),
        "chosen dataset": ("config.datasets[0]:", {"datasets": [bad]}),
        "preset of a model": ("config.models.x.preset:", {"models": {"x": {"preset": bad}}}),
        "aligner": ("config.aligners[0].name:", {"aligners": [{"name": bad}]}),
        "symmetrisation": ("config.symmetrizations[0]:", {"symmetrizations": [bad]}),
        "study": ("config.studies.", {"studies": {bad: {}}}),
        "extraction": ("config.attribution.extractions[0]:", {"attribution": {"extractions": [bad]}}),
        "method": ("config.attribution.methods[0]:", {"attribution": {"methods": [bad]}}),
    }


@pytest.mark.parametrize("kind", names(""))
def test_a_bad_name_is_one_line_with_its_key_path(project: Path, kind: str) -> None:
    for bad in BAD if kind in CHECKED else BAD[:10]:
        where, changes = names(bad)[kind]
        with pytest.raises(ConfigError) as error:
            load_settings({"preset": "mine", "datasets": ["demo"], **changes}, project)
        told = str(error.value)
        assert told.startswith(where.removesuffix(":")), f"{bad!r}: {told}"
        assert told.isprintable() or not bad.isprintable(), told
        assert "\n" not in told
        assert len(told) < 1000


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_what_it_must_be_to_the_very_end(kind: str) -> None:
    assert is_name(kind, "abc")
    assert not any(is_name(kind, bad) for bad in (*BAD, None, 3, ["abc"]))


def test_good_names_are_taken(project: Path, tmp_path: Path) -> None:
    config = {
        "preset": "my_own-2",
        "datasets": ["my-data2"],
        "custom_datasets": {"my-data2": {"kind": "synthetic", "pair": ["xa", "xbc"]}},
        "models": {"2nd_lstm": {"preset": "demo_lstm"}},
        **encoders({"models": {"bert-base-uncased": "minilm", "All_MiniLM-L6": str(tmp_path), "x" * 64: None}}),
    }
    settings = load_settings(config, project)
    assert (settings.preset, settings.models[0].name, settings.datasets[0].pair) == (
        "my_own-2", "2nd_lstm", ("xa", "xbc"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (encoders({"models": {"demo": "minilm"}}), ENCODERS + ".demo: 'demo' is taken: .* dataset"),
        (encoders({"models": {"Demo": "minilm"}}), ENCODERS + ".Demo: 'Demo' is taken: .* dataset"),
        (encoders({"models": {"a": "minilm", "A": "minilm"}}), ENCODERS + ".A: 'A' is taken: another"),
        ({"preset": "cache"}, "config.preset: 'cache' is taken: results/ has another"),
        ({"preset": "server"}, "config.preset: 'server' is taken"),
        ({"preset": "mlartifacts"}, "config.preset: 'mlartifacts' is taken"),
        (
            {"custom_datasets": {"mine": {"kind": "synthetic", "pair": ["de", "de"]}}},
            "config.custom_datasets.mine.pair: de is given twice",
        ),
    ],
)
def test_names_that_would_share_a_folder_are_errors(project: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{told}"):
        load_settings({"preset": "mine", "datasets": ["demo"], **changes}, project)


def test_an_encoder_that_is_left_out_takes_no_name(project: Path) -> None:
    load_settings({"preset": "mine", "datasets": ["demo"], **encoders({"models": {"demo": None}})}, project)


@pytest.mark.parametrize("place", ["/etc/passwd", "../outside", "a/../../b"])
def test_a_file_of_the_mirror_lies_below_the_mirror(project: Path, place: str) -> None:
    text = {"source": {"mirror": place}, "target": {"mirror": "b"}}
    entry = {"kind": "download", "pair": ["de", "en"], "train": [text], "test": {"last": 1}}
    with pytest.raises(ConfigError, match=r"config.custom_datasets.mine.train.0.source.mirror: .* below the mirror"):
        load_settings({"preset": "mine", "datasets": ["demo"], "custom_datasets": {"mine": entry}}, project)


def test_the_command_line_takes_no_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for name in ("..", "a/b", "a\n", ""):
        definition = '{"kind": "synthetic", "pair": ["xa", "xb"]}'
        assert main(["data", "prepare", name, "--definition", definition, "--out", str(out)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not out.exists()
