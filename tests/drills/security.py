"""Attacks: names and values that want to be paths or commands, through the configuration and Snakemake itself."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from archives import TEXT, prepare, refused_but_cache, tar_of, zip_of
from bad_values import writes
from bench import DATA, PROJECT, R
from configurations import with_config
from harness import SECONDS, Drill, Outcome, calm, refused, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench import Bench

GROUP = "security"
_PARTS = ("Snakefile", "rules", "envs", "profiles", "report", "src")
NAMES = (
    "..",
    ".",
    "",
    "a/b",
    "/tmp/x",
    "../x",
    "a\n",
    "\na",
    " a",
    "a b",
    "-x",
    "--help",
    "a;touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a'b",
    'a"b',
    "a|b",
    "a&b",
    "a>b",
    "*",
    "~",
    "{a}",
    "a\\b",
    "a\tb",
    "a\x00b",
    "é",
    "a\u202eb",
    "a" * 300,
)
VALUES = (
    "$(touch pwned)",
    "`touch pwned`",
    "x; touch pwned",
    "x && touch pwned",
    "x | touch pwned",
    "x\ntouch pwned",
    "x > pwned",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "--out pwned",
    "{threads}",
    "a b",
    "*",
)
_TINY = {"kind": "synthetic", "pair": ["xa", "xb"], "settings": {"train": 20, "dev": 4, "test": 4}}
_BASE: dict[str, Any] = {
    "preset": "mine",
    "datasets": ["tiny"],
    "custom_datasets": {"tiny": _TINY},
    "models": {"lstm": None, "fconv": None},
    "aligners": [{"name": "fast_align", "text": "offline"}],
}


def _encoders(settings: dict[str, Any]) -> dict[str, Any]:
    return {"studies": {"kobayashi2020": {"encoders": settings}}}


def _configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every place of a configuration that a name has, with every hostile name."""
    for name in NAMES:
        shown = repr(name) if len(name) < 40 else f"{len(name)} letters"
        yield f"preset {shown}", {"preset": name}
        yield f"dataset {shown}", {"datasets": [name], "custom_datasets": {name: _TINY}}
        yield f"model {shown}", {"models": {name: {"preset": "demo_lstm"}, "lstm": None}}
        yield f"encoder {shown}", _encoders({"models": {name: "minilm"}})
        yield f"language {shown}", {"custom_datasets": {"tiny": {**_TINY, "pair": [name, "xb"]}}}
    yield "encoder like a dataset", _encoders({"models": {"tiny": "minilm"}})
    yield "the same language twice", {"custom_datasets": {"tiny": {**_TINY, "pair": ["xa", "xa"]}}}
    yield "an aligner with a path", {"aligners": [{"name": "../fast_align", "text": "offline"}]}
    yield "a symmetrisation with a path", {"symmetrizations": ["../grow-diag"]}
    yield "a study with a path", {"studies": {"../ding2019": {}}}


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields all of them; none depends on the seed."""
    plan = ["plan", "--configfile", "mine.yaml"]
    for what, change in _configurations():
        yield Drill(GROUP, f"plan: {what}", plan, _safe(refused), with_config(yaml.safe_dump({**_BASE, **change})))
    for value in VALUES:
        for key, change in _free(value).items():
            setup = with_config(yaml.safe_dump({**_BASE, **change}))
            yield Drill(GROUP, f"plan: {key} {value!r}", plan, _safe(calm), setup)
            if key != "licence" and "pwned" in value:
                run = _snakemake({**_BASE, **change}, "--cores", "1", "--", "results/mine/encoders/mine")
                yield Drill(GROUP, f"snakemake: {key} {value!r}", run, _nothing_ran, heavy=True)
    for name in ("..", "../..", "tiny", "a\n", "$(touch pwned)"):
        change = _encoders({"models": {name: "minilm", "minilm": None}, "sequences": 2})
        run = _snakemake({**_BASE, **change, "preset": "tiny"}, "--cores", "1", "--forceall", "-n")
        yield Drill(GROUP, f"snakemake -n: encoder {name!r}", run, _nothing_ran, heavy=True)
        run = _snakemake(
            {**_BASE, **change, "preset": "tiny"}, "--cores", "1", "--until", "pretrained_encoder", "--forceall"
        )
        yield Drill(GROUP, f"snakemake: encoder {name!r}", run, _nothing_ran, heavy=True)
    run = _snakemake(_BASE, "--cores", "1", "-n", "-p")
    yield Drill(GROUP, "snakemake -n: every command can be read as a shell does", run, _readable, heavy=True)
    yield from _commands()
    yield from _archives()


def _free(value: str) -> dict[str, dict[str, Any]]:
    """Returns changes that put a value where any text may stand."""
    return {
        "an encoder's folder": _encoders({"models": {"mine": value}, "sequences": 2}),
        "an encoder's text": _encoders({"models": {"mine": "minilm"}, "text": value, "sequences": 2}),
        "licence": {"custom_datasets": {"tiny": {**_TINY, "licence": value, "description": value}}},
    }


def _safe(promise: Callable[[Outcome], list[str]]) -> Callable[[Outcome], list[str]]:
    return lambda outcome: [*promise(outcome), *(["it ran: pwned is there"] if "pwned" in outcome.after else [])]


def _nothing_ran(outcome: Outcome) -> list[str]:
    """Whatever Snakemake says of it: no command of the value ran, no result is gone, no traceback."""
    problems = ["it ran: pwned is there"] if any(name.endswith("pwned") for name in outcome.after) else []
    problems += [f"changed or lost: {outcome.lost[0]}"] if outcome.lost else []
    return problems + (["traceback"] if "Traceback (most recent call last)" in outcome.err else [])


def _readable(outcome: Outcome) -> list[str]:
    text = outcome.out.decode() + outcome.err
    commands = [line for line in text.splitlines() if "-m alignlens" in line]
    if outcome.code != 0 or not commands:
        return [f"exit code {outcome.code}, {len(commands)} commands"]
    for command in commands:
        shlex.split(command)
    return []


def _snakemake(config: dict[str, Any], *arguments: str) -> Callable[[Path], Outcome]:
    """Returns a run of Snakemake itself in a copy of the project."""

    def made(folder: Path) -> Outcome:
        with_config(yaml.safe_dump(config))(folder)
        for part in _PARTS:
            (folder / part).symlink_to(PROJECT / part)
        before = snapshot(folder)
        started = time.monotonic()
        command = [sys.executable, "-m", "snakemake", "--configfile", "mine.yaml", *arguments]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, timeout=SECONDS, check=False
        )
        after = {name: what for name, what in snapshot(folder).items() if not name.startswith(".snakemake")}
        err = done.stderr.decode(errors="replace")
        return Outcome(done.returncode, done.stdout, err, time.monotonic() - started, folder, before, after)

    return made


def _commands() -> Iterator[Drill]:
    """Names that are given on the command line."""
    definition = json.dumps(_TINY)
    for name in ("..", "../x", "a/b", "/tmp/x", "a\n", ""):
        command = ["data", "prepare", name, "--definition", definition, "--out", "new", "--settings", "{}"]
        yield Drill(GROUP, f"data prepare {name!r}", command, refused)
        yield Drill(
            GROUP, f"track list --preset {name!r}", ["track", "list", "--results", "results", "--preset", name], refused
        )
    for name in ("../../secret", "/etc/passwd", "a/b", ".."):
        command = [
            "translate",
            "--model",
            f"{R}/models/tiny/xa-xb/transformer/1/model",
            "--source",
            f"{DATA}/test.source",
        ]
        yield Drill(GROUP, f"translate --weights {name!r}", [*command, "--weights", name, "--out", "new"], refused)
    script = writes(f"{DATA}/test.source", b"<script>alert(1)</script>\n" * 12)
    report = ["report", "--results", R, "--out", "new", "--page", "page.html", "--title", "<script>alert(1)</script>"]
    yield Drill(GROUP, "report: a text with a script", report, _escaped, script, heavy=True)


def _escaped(outcome: Outcome) -> list[str]:
    pages = [outcome.folder / name for name in ("page.html", "browser/index.html")]
    written = [page for page in pages if page.is_file()]
    raw = [page.name for page in written if "<script>alert(1)" in page.read_text(encoding="utf-8")]
    return [*calm(outcome), *(f"{name} runs it" for name in raw)]


def _archives() -> Iterator[Drill]:
    """Archives whose members want to go elsewhere."""
    for name in ("../../escaped", "{outside}/escaped", "a/../../../escaped", "text\n", "-x", "$(touch pwned)"):
        for kind, packed in (("tar", tar_of), ("zip", zip_of)):
            yield Drill(GROUP, f"a {kind} with {name!r}", prepare("*"), _inside, _archive(name, packed))


def _archive(name: str, packed: Callable[[dict[str, bytes]], bytes]) -> Callable[[Path], None]:
    def setup(folder: Path) -> None:
        writes("mirror/archive", packed({name.replace("{outside}", str(folder)): TEXT}))(folder)

    return setup


def _inside(outcome: Outcome) -> list[str]:
    if outcome.code != 0:
        return refused_but_cache(outcome)
    strange = [name for name in outcome.new if not name.startswith(("new/", "cache/"))]
    return [f"written elsewhere: {strange[0]}"] if strange else []
