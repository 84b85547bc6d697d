"""Native code in a child process: if it crashes, this process survives and reports it in one line."""

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
    With ``silent`` its output is hidden: libraries that fail print many lines.
    The child dies with this process, and if this process is interrupted. It must not use threads that were started
    before: a fork does not copy them.
    """
    incoming, outgoing = os.pipe()
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):  # Otherwise both processes would write what is buffered there.
        stream.flush()
    child = os.fork()
    if child == 0:
        os.close(incoming)
        _work(function, outgoing, parent, silent)
    os.close(outgoing)  # Close our end, so that the pipe ends when the child does.
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
    answered: Result = result
    return answered


def _work(function: Callable[[], Any], outgoing: int, parent: int, silent: bool) -> NoReturn:
    """Runs in the child; its answer is a pair of result and error."""
    _die_with(parent)
    # Ctrl-C reaches all processes of a terminal; the parent decides what it means.
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
        os._exit(status)  # The parent does everything else that is due at the end of a process.


def _answer(function: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps((function(), None))
    except BaseException as error:  # The parent raises it, whatever it is.
        return pickle.dumps((None, error))


def _die_with(parent: int) -> None:
    """Asks the kernel to end this process when its parent ends; a no-op on systems other than Linux."""
    ask = getattr(ctypes.CDLL(None), "prctl", None)
    if ask is not None:
        ask(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before the kernel was asked.
        os.kill(os.getpid(), signal.SIGKILL)


def _cause(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit code {status}"
