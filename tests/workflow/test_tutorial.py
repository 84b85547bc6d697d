"""Every command of the tutorial works as printed, on less text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from printed_commands import Change, blocks, changed, run
from throwaway import BRIEFLY, TINY, make_workspace

pytestmark = pytest.mark.workflow
#: The demo's language, but a few hundred sentences of it, and as little work as the settings allow.
LITTLE = {
    **{key: TINY[key] for key in ("datasets", "custom_datasets", "subwords", "interval")},
    "models": {"transformer": {"preset": "demo_transformer", "training": BRIEFLY}},
    "attribution": {**TINY["attribution"], "methods": [], "samples": 2, "cost_sentences": 2},
}
TUTORIAL = [
    Change(r"^make install$", "true", "the tests run in what make install made"),
    Change(r"^source \.venv.*", "true", "likewise"),
    Change(r"(--configfile mine\.yaml)", r"\1 little.yaml", "a tiny corpus and a short training"),
    Change(r"(shallow: \{)", r"\1training: {{max_updates: 30, validate_every: 15}}, ", "likewise"),
    Change(r"(models|data)/demo\b", r"\1/tiny", "likewise"),
]


def test_every_command_of_the_tutorial(project: Path, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "project", project)
    (workspace.folder / "little.yaml").write_text(yaml.safe_dump(LITTLE))
    used: set[Change] = set()
    printed = []
    for block in blocks(project / "docs" / "tutorial.md"):
        commands = changed(block, TUTORIAL, used, scratch=tmp_path)
        printed.append(run(commands, workspace.folder, PYTHONPATH=str(workspace.folder / "src")))
    assert used == set(TUTORIAL), "a change that changes nothing"
    rerun, rows = printed[-2], printed[-1]
    assert "squared_attention" in rerun.splitlines()[-1]
    assert "attribute" in rerun
    assert not re.search(r"^train\b", rerun, re.MULTILINE)
    models = [line.split("|")[1].strip() for line in rows.splitlines() if "squared_attention" in line]
    assert sorted(models) == ["Transformer", "Transformer (shallow)"]
