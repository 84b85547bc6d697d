"""Commands as the documentation prints them, and what a test changes of them before it runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from throwaway import environment

BIN = Path(sys.executable).parent


class Change(NamedTuple):
    """What a test does instead of a part of a command."""

    of: str
    to: str
    why: str


def blocks(page: Path) -> list[str]:
    """Returns the blocks of commands of a page; others are plain text, YAML or Python, and say so."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert {kind for kind, _ in found} <= {"bash", "yaml", "python", "text"}, f"{page.name}: a block of no kind"
    return [text for kind, text in found if kind == "bash"]


def changed(block: str, changes: list[Change], used: set[Change], **names: Path) -> str:
    """Returns the commands that a test runs for those of a block."""
    for change in changes:
        new, count = re.subn(change.of, change.to.format(**names), block, flags=re.MULTILINE)
        if count:
            used.add(change)
            block = new
    return block


def run(block: str, folder: Path, **variables: str) -> str:
    """Runs commands as a shell does, and returns what they print."""
    path = f"{BIN}:{environment()['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**environment(), "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout
