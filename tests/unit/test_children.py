"""Functions in a child process: results, errors, crashes, interruptions."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from alignlens.errors import InputError, ToolError
from alignlens.io.children import in_child

SLEEPER = """
import os, signal, sys, time
# A shell lets jobs in the background ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from alignlens.io.children import in_child

def sleep():
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)

in_child(sleep, "sleeping", "")
"""


def test_result_comes_from_another_process() -> None:
    pid, array = in_child(lambda: (os.getpid(), np.arange(1_000_000)), "counting", "")
    assert pid != os.getpid()
    assert array.sum() == 499_999_500_000


def test_what_is_raised_there_is_raised_here() -> None:
    def refuse() -> None:
        raise InputError("damaged.", "a.model", 3, "Train it again.")

    with pytest.raises(InputError, match=r"^a\.model:3: damaged\. Train it again\.$"):
        in_child(refuse, "loading", "")
    with pytest.raises(FileNotFoundError) as caught:
        in_child(lambda: Path("/nowhere/at all").read_bytes(), "loading", "")
    assert caught.value.filename == "/nowhere/at all"


@pytest.mark.parametrize(
    ("crash", "told"),
    [
        (lambda: ctypes.string_at(0), "SIGSEGV"),
        (os.abort, "SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(7), "exit code 7"),
    ],
)
def test_crash_is_one_line(crash, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolError) as caught:
        in_child(crash, "a.model: loading it", "Train it again.", silent=True)
    assert str(caught.value) == f"a.model: loading it crashed ({told}). Train it again."
    assert capfd.readouterr() == ("", "")


def test_silence_only_if_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    in_child(lambda: os.write(2, b"unseen\n"), "writing", "", silent=True)
    in_child(lambda: os.write(2, b"seen\n"), "writing", "")
    assert capfd.readouterr().err == "seen\n"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_child_ends_with_its_parent(tmp_path: Path, stop: signal.Signals) -> None:
    note = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", SLEEPER, note], stderr=subprocess.DEVNULL) as parent:
        child = int(_awaited(note))
        parent.send_signal(stop)
        assert parent.wait(30) != 0
    for _ in range(300):
        if not _runs(child):
            return
        time.sleep(0.1)
    raise AssertionError("the child lives")


def _awaited(note: Path) -> str:
    for _ in range(300):
        if note.is_file() and (text := note.read_text()):
            return text
        time.sleep(0.1)
    raise AssertionError("the child did not start")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
