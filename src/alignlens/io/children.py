"""Native code in a child process: where it crashes, this process lives on and says so in one line."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_STANDARD_OUTPUTS = (1, 2)


def in_child(function: Callable[[], Result], what: str, advice: str, silent: bool = False) -> Result:
    """Returns what ``function`` returns, computed in a forked child of this process; the result is pickled.

    What it raises is raised here. If the child dies instead, that is a ToolError: ``what`` crashed, then ``advice``.
    With ``silent`` nothing is shown of what it prints: libraries that give up tell it in many lines.
    The child dies with this process, and if this process is interrupted. It must not use threads that were started
    before: a fork does not copy them.
    """
    incoming, outgoing = os.pipe()
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):  # What waits there would be written by both.
        stream.flush()
    child = os.fork()
    if child == 0:
        os.close(incoming)
        _work(function, outgoing, parent, silent)
    os.close(outgoing)  # Ours, so that the end of the child is the end of its answer.
    try:
        with os.fdopen(incoming, "rb") as pipe:
            answer = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise ToolError(f"{what} crashed ({_cause(os.waitstatus_to_exitcode(status))}). {advice}")
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    found: Result = result
    return found


def _work(function: Callable[[], Any], outgoing: int, parent: int, silent: bool) -> NoReturn:
    """What the child does; its answer is a pair of result and error."""
    _die_with(parent)
    # Ctrl-C reaches all processes of a terminal; what it means is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if silent:
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in _STANDARD_OUTPUTS:
            os.dup2(nowhere, stream)
    status = 1
    try:
        with os.fdopen(outgoing, "wb") as pipe:
            pipe.write(_answer(function))
        sys.stdout.flush()
        sys.stderr.flush()
        status = 0
    finally:
        os._exit(status)  # What else is to be done at the end of a process is the parent's.


def _answer(function: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps((function(), None))
    except BaseException as error:  # Whatever it is, the parent raises it.
        return pickle.dumps((None, error))


def _die_with(parent: int) -> None:
    """Asks the kernel to end this process when its parent ends; elsewhere than on Linux it just goes on."""
    ask = getattr(ctypes.CDLL(None), "prctl", None)
    if ask is not None:
        ask(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the kernel knew.
        os.kill(os.getpid(), signal.SIGKILL)


def _cause(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit code {status}"
