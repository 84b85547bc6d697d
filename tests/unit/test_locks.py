from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOLD = (
    "import sys, pathlib; from alignlens.io.locks import release_stale_locks\n"
    "print(release_stale_locks(pathlib.Path(sys.argv[1])), flush=True)\n"
    "sys.stdin.read()\n"
)


def holder(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def is_alone(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "True\n"


def test_locks_go_only_when_everybody_who_may_hold_them_is_dead(tmp_path: Path) -> None:
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    for name in ("0.input.lock", "0.output.lock"):
        (locks / name).touch()
    first, second = holder(tmp_path), None
    try:
        assert is_alone(first)
        assert not list(locks.iterdir())
        (locks / "0.input.lock").touch()  # now held by the living first process
        second = holder(tmp_path)
        assert not is_alone(second)
        first.kill()
        first.wait()
        third = holder(tmp_path)  # the second one still lives
        assert not is_alone(third)
        assert list(locks.iterdir())
        for process in (second, third):
            process.kill()
            process.wait()
        last = holder(tmp_path)
        assert is_alone(last)
        assert not list(locks.iterdir())
        last.kill()
        last.wait()
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
