"""Configurations as an attacker, or an accident, would write them: values stay values, and names are checked first."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from marian_configs import write_configs
from throwaway import TINY, Workspace

HOSTILE = (
    "-x y'\"; touch pwned; $(touch pwned) `touch pwned` && touch pwned | tee pwned > pwned # * ? ~ ! é --out=pwned"
)
# For a shell of its own: instead of the program, something that writes down the words that it is given.
RECORDER = 'python() { printf "%s\\0" "$@" > "$WORDS"; }\n'
FREE = ("description", "licence", "origin", "cite", "available")
SPLITS = ("train", "dev", "test")


def hostile_config(workspace: Workspace, **changes: Any) -> dict[str, Any]:
    """A configuration with hostile text wherever text is free, and good otherwise."""
    folder = workspace.folder / HOSTILE
    folder.mkdir()
    named = {name: f"{HOSTILE}/{name} {HOSTILE}" for name in ("text", "gold", *SPLITS)}
    for name, path in named.items():
        (workspace.folder / path).write_text("0-0\n" if name == "gold" else "a\n")
    pairs = {split: {"source": named[split], "target": {"path": named[split]}} for split in SPLITS}
    told = dict.fromkeys(FREE, f"{HOSTILE}\nsecond line\t$(touch pwned)")
    plain = {"kind": "files", "pair": ["de", "en"], **pairs, "train": [pairs["train"]], **told}
    gold = {"file": named["gold"], "base": 0, "format": "pharaoh"}
    own = {"plain": plain, "scored": {**plain, "gold": gold}, "chosen": {**plain, "gold": gold, "dev_gold": gold}}
    write_configs(folder, "xa-xb", "xb-xa", "de-en", "en-de")
    encoders = {"models": {"hostile": HOSTILE, "dashes": "--"}, "text": named["text"], "sequences": 4}
    return {
        **TINY,
        "datasets": ["tiny", *own],
        "custom_datasets": {**TINY["custom_datasets"], **own},
        "studies": {**TINY["studies"], "kobayashi2020": {"encoders": encoders}},
        "models": {**TINY["models"], "opus": {"huggingface": f"{HOSTILE}/opus-mt-{{source}}-{{target}}"}},
        "mirror": HOSTILE,
        "tracking": {"uri": f"sqlite:///results/{HOSTILE}.db"},
        "attribution": {**TINY["attribution"], "adaptive": 0.01, **changes},
    }


def commands(output: str) -> list[tuple[str, str]]:
    """The rule and the shell command of every job of a dry run."""
    found = re.findall(r"^(?:local)?rule (\w+):$(?:.*?)^Shell command: ([^\n]+)$", output, re.MULTILINE | re.DOTALL)
    return [(rule, command) for rule, command in found if command != "None"]


def given_words(workspace: Workspace, command: str) -> list[str]:
    """The words that the program is given when a shell really runs a command."""
    words = workspace.folder / "words"
    # Snakemake makes the folder of a log before it starts a job.
    for log in re.findall(r">\s*(\S+\.log)", command):
        (workspace.folder / log).parent.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin", "WORDS": str(words)}
    done = subprocess.run(
        ["bash", "-euc", RECORDER + command],
        cwd=workspace.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), command
    return words.read_text().split("\0")[:-1]


def parsed(words: list[str]) -> argparse.Namespace:
    """What the verb itself makes of the words."""
    assert words[:2] == ["-m", "alignlens"]
    parser = argparse.ArgumentParser(prog=words[2])
    importlib.import_module(f"alignlens.cli.{words[2].replace('-', '_')}").configure(parser)
    return parser.parse_args(words[3:])


@pytest.mark.parametrize("shards", [1, 2])
def test_every_value_reaches_its_command_as_it_is(workspace: Workspace, shards: int) -> None:
    config = hostile_config(workspace, shards=shards)
    (workspace.folder / "--").mkdir()
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    jobs = commands(workspace.snakemake("--cores", "1", "--dry-run", "--printshellcmds").stdout)
    every = set(re.findall(r"^ *(?:use )?rule (?:\w+ as )?(\w+)(?: with)?:$", rules_text(workspace), re.MULTILINE))
    alone = {"attribute", "score_methods"} if shards > 1 else {"gather_matrices", "gather_metrics"}
    parts = set() if shards > 1 else {"attribute_shard", "score_methods_shard"}
    studies = {f"{name}_study" for name in config["studies"]}  # rules/studies.smk names them
    # Every rule has a job with these values, but for those without a command.
    silent = {"all", "prefetch", "manifest"}
    assert {rule for rule, _ in jobs} == (every | studies) - alone - parts - silent
    encoders = {}
    for rule, command in jobs:
        words = given_words(workspace, command)
        options = parsed(words)
        if rule == "pretrained_encoder":
            encoders[json.loads(options.about)["encoder"]] = options.encoder
            assert options.text == config["studies"]["kobayashi2020"]["encoders"]["text"]
        if rule == "import_model":
            assert str(options.model).startswith(f"{HOSTILE}/opus-mt-")
        if words[2:4] == ["data", "prepare"]:
            assert json.loads(options.definition) == config["custom_datasets"][options.name]
        assert "preset" not in options or options.preset == "tiny"
    assert encoders == {"hostile": HOSTILE, "dashes": "./--", "minilm": "minilm"}
    assert not list(workspace.folder.rglob("pwned"))


def rules_text(workspace: Workspace) -> str:
    return "\n".join(
        path.read_text() for path in [*workspace.folder.glob("rules/*.smk"), workspace.folder / "Snakefile"]
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            '{"studies": {"kobayashi2020": {"encoders": {"models": {"..": "minilm"}}}}}',
            "encoders.models: '..' does not match the rule for names",
        ),
        (
            '{"studies": {"kobayashi2020": {"encoders": {"models": {"tiny": "minilm"}}}}}',
            "config.studies.kobayashi2020.encoders.models.tiny: 'tiny' is taken",
        ),
        (
            '{"studies": {"kobayashi2020": {"encoders": {"models": {"x": "$(touch pwned)"}}}}}',
            "encoders.models.x: '$(touch pwned)' is neither",
        ),
        ('{"preset": "tiny\\n"}', r"config.preset: 'tiny\n' does not match the rule for names"),
        ("attribution: {sigma: .nan}\n", "config.attribution.sigma: nan is not a finite number"),
        ("seed: 1\nheatmaps: 2\nseed: 2\n", "extra.yaml:3: the key 'seed' appears twice"),
    ],
)
def test_a_bad_configuration_touches_nothing(workspace: Workspace, config: str, told: str) -> None:
    kept = [workspace.results / "models" / "weights", workspace.folder / "results" / "cache" / "text"]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.write_text("dear")
    (workspace.folder / "extra.yaml").write_text(config)
    done = workspace.snakemake("extra.yaml", "--cores", "1", check=False)
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("alignlens"))
    assert told in line
    assert "Traceback" not in done.stderr
    assert [path.read_text() for path in kept] == ["dear"] * 2
    assert not list(workspace.folder.rglob("pwned"))


def test_the_plan_says_the_same(workspace: Workspace) -> None:
    (workspace.folder / "extra.yaml").write_text("seed: 1\nseed: 2\n")
    done = workspace.alignlens("plan", "--configfile", "tiny.yaml", "extra.yaml")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "extra.yaml:2: the key 'seed' appears twice" in done.stderr
    Path(workspace.folder, "extra.yaml").write_text("studies: {kobayashi2020: {encoders: {models: {x: nowhere}}}}\n")
    done = workspace.alignlens("plan", "--configfile", "tiny.yaml", "extra.yaml")
    assert "encoders.models.x: 'nowhere' is neither a folder nor minilm" in done.stderr
