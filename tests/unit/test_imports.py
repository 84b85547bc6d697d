"""The rooms and their order: imports follow the data flow and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# Left may never import right.
ORDER = ["io", "corpora", "subwords", "alignment", "aligners", "metrics", "tracking", "report", "cli"]
BASE = {"errors", "code_version", "__init__"}
# settings and plan turn the configuration into runs: they may use registries, and only the command line uses them.
REGISTRIES = {"corpora.registry", "aligners.registry"}
ONLY_IN = {"mlflow": "tracking", "matplotlib": "report", "sentencepiece": "subwords", "thot": "aligners"}
LONGEST_MODULE = 350


def modules(project: Path) -> list[tuple[str, Path]]:
    root = project / "src" / "alignlens"
    return [(path.relative_to(root).with_suffix("").as_posix().replace("/", "."), path) for path in root.rglob("*.py")]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def room_of(module: str) -> str:
    return module.split(".")[0]


def test_imports_follow_the_flow(project: Path) -> None:
    for name, path in modules(project):
        room = room_of(name)
        for other in imported(path):
            if not other.startswith("alignlens."):
                continue
            target = other.removeprefix("alignlens.")
            target_room = room_of(target)
            if target_room in BASE or room == target_room or room in ("cli", "__main__"):
                continue
            if room == "environment":
                allowed = target in ("tracking.address", "settings")
            elif room in ("settings", "plan"):
                allowed = target in REGISTRIES or target_room in ("io", "settings")
            else:
                allowed = target_room in ORDER and room in ORDER and ORDER.index(target_room) < ORDER.index(room)
            assert allowed, f"{name} may not import {target}"


def test_heavy_libraries_stay_in_their_room(project: Path) -> None:
    for name, path in modules(project):
        for other in imported(path):
            room = ONLY_IN.get(other.split(".")[0])
            assert room is None or room_of(name) == room, f"{name} imports {other}"


def test_modules_stay_readable(project: Path) -> None:
    for name, path in modules(project):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= LONGEST_MODULE, f"{name} has {lines} lines; split it by concept"


@pytest.mark.parametrize("verb", ["score", "symmetrize", "aligner", "data", "subwords", "plan", "track"])
def test_a_short_step_does_not_load_what_it_does_not_use(verb: str) -> None:
    code = (
        f"import sys, alignlens.cli.{verb}\n"
        "heavy = {'torch', 'mlflow', 'pandas', 'matplotlib', 'snakemake', 'thot', 'sacrebleu'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
