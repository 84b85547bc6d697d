"""``snakemake --logger alignlens`` on a workflow of three jobs, with and without a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from throwaway import environment

pytestmark = pytest.mark.workflow
SNAKEFILE = """
rule all:
    input: "good/a", "bad/b"
rule good:
    output: "good/{name}"
    log: "logs/good/{name}.log"
    shell: "sleep 1.2; touch {output}"
rule bad:
    output: "bad/{name}"
    log: "logs/bad/{name}.log"
    shell: "test ! -e broken || {{ echo 'the reason' > {log}; exit 3; }}; touch {output}"
"""
COMMAND = [sys.executable, "-m", "snakemake", "--cores", "1", "--keep-going", "--logger", "alignlens"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    return tmp_path


def test_without_a_terminal_a_line_per_job_and_the_log_of_a_failed_one(folder: Path) -> None:
    (folder / "broken").touch()
    done = subprocess.run(COMMAND, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "3 jobs"
    assert [line for line in lines if re.fullmatch(r"\[[12]/3\] +\d+:\d\d good a \(\d+:\d\d\)", line)]
    failed = next(place for place, line in enumerate(lines) if line.startswith("failed: bad b "))
    assert lines[failed + 1 : failed + 3] == ["  logs/bad/b.log:", "    the reason"]
    assert "At least one job did not complete successfully" in done.stderr
    assert "\x1b" not in done.stderr


def test_on_a_terminal_one_line_is_drawn_again_and_again(folder: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(COMMAND, cwd=folder, env={**environment(), "TERM": "xterm"}, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
    os.close(ours)
    assert process.returncode == 0
    lines = shown.decode().split("\r\n")
    assert lines[0] == "3 jobs"
    assert len([line for line in lines if "good" in line]) == 1, "no line of its own for a job"
    drawn = re.findall(r"(?:^|\x1b\[K|\n)(\[[01]/3\] +\d+:\d\d good a \(\d+:\d\d\))\r\x1b\[K", shown.decode())
    assert len(drawn) >= 2
    assert next(line for line in lines if "all done" in line).endswith("all done")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 10_000)
    except OSError:  # how Linux says that the other side is closed
        return b""
