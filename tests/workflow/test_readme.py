"""The commands of the documentation work as printed, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from throwaway import Workspace

pytestmark = pytest.mark.workflow


def test_the_commands_for_the_parts_alone(finished: Workspace, project: Path, tmp_path: Path) -> None:
    page = (project / "docs" / "commands.md").read_text()
    block = re.search(r"<!-- executed by tests/workflow/test_readme.py -->\n```bash\n(.*?)```", page, re.DOTALL)
    assert block is not None
    commands = block[1].strip().splitlines()
    assert len(commands) >= 6
    for command in commands:
        # The tiny corpus stands in for the demo; nothing else differs.
        words = shlex.split(re.sub(r"\bdemo\b", "tiny", command).replace("/tmp/", f"{tmp_path}/"))
        assert words[0] == "alignlens"
        done = finished.alignlens(*words[1:])
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_every_link_of_the_documentation_leads_somewhere(project: Path) -> None:
    pages = [project / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md", "results/README.md")]
    for page in [*pages, *(project / "docs").glob("*.md"), project / "benchmarks/README.md"]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_the_readme_stays_short(project: Path) -> None:
    assert len((project / "README.md").read_text().splitlines()) <= 150


def test_no_placeholder_is_left(project: Path) -> None:
    for page in [project / "README.md", *(project / "docs").glob("*.md")]:
        assert not re.search(r"@[A-Z]+@", page.read_text()), page.name
