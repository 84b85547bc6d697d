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


TURN = """
import sys, time, pathlib, logging
from alignlens.io.locks import held
logging.basicConfig(format="%(message)s", stream=sys.stdout)
with held(pathlib.Path(sys.argv[1]), "works here") as hold:
    print("has it", flush=True)
    sys.stdin.readline()
    print("awaited" if hold.awaited() else "alone", flush=True)
"""


def turn(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TURN, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_second_says_who_has_the_lock_and_gets_it_when_the_first_dies(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first = turn(lock)
    assert says(first) == "has it"
    second = turn(lock)
    assert f"process {first.pid} on" in says(second)
    first.kill()
    first.wait()
    assert says(second) == "has it"
    third = turn(lock)
    assert f"process {second.pid} on" in says(third)
    answer, _ = second.communicate("\n")
    assert answer == "awaited\n"
    assert says(third) == "has it"
    answer, _ = third.communicate("\n")
    assert answer == "alone\n"
    assert not list(tmp_path.iterdir())
