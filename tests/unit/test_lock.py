"""What is installed is pinned, and the conda environment pins the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml


def pins(lines: list[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        if "==" in line:
            name, version = line.split("==", 1)
            found[normal(name)] = version.split(";")[0].strip()
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_in_the_lock_and_the_environment_agrees(project: Path) -> None:
    lock = pins((project / "requirements.lock").read_text().splitlines())
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    needed = [*declared["dependencies"], *(text for name in extras if name != "dev" for text in extras[name])]
    names = [normal(re.split(r"[<>=]", text)[0]) for text in needed]
    for name in [*names, *(normal(re.split(r"[<>=]", text)[0]) for text in extras["dev"])]:
        assert name in lock, f"{name} is not pinned"
    environment = yaml.safe_load((project / "envs" / "alignlens.yaml").read_text())
    listed = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pins(listed) == {name: lock[name] for name in names}
    assert environment["channels"][-1] == "nodefaults"


def test_the_lock_names_no_machine_and_no_build(project: Path) -> None:
    text = (project / "requirements.lock").read_text()
    assert "+" not in text
    assert "://" not in text
    assert " @ " not in text
