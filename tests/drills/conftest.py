"""The small pipeline that drills damage copies of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alignlens.io.locks import held


@pytest.fixture(scope="session")
def bench(common: Path) -> Path:
    """Run once, by another process: this one may have threads, which do not survive a fork."""
    folder, unfinished = common / "bench", common / "unfinished-bench"
    with held(common / "bench.lock", "runs the small pipeline"):
        if not folder.exists():
            run = Path(__file__).with_name("run.py")
            subprocess.run([sys.executable, str(run), "--bench", str(unfinished)], check=True)
            unfinished.rename(folder)
    return folder
