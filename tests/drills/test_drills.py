"""A sample of the drills, as a process of its own; ``make drills`` runs them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_sample_of_the_drills_is_clean(bench: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--fast", "--built", str(bench)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
