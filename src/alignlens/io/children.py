"""Native code in a child process: where it crashes, this process lives on and says so in one line."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from alignlens.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

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
    from multiprocessing import get_context

    context = get_context("fork")
    incoming, outgoing = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(function, outgoing, os.getpid(), silent), daemon=True)
    child.start()
    outgoing.close()  # Ours, so that the end of the child is the end of its answer.
    answered = False
    try:
        result, error = incoming.recv()
        answered = True
    except EOFError:
        child.join()
        raise ToolError(f"{what} crashed ({_cause(child.exitcode)}). {advice}") from None
    finally:
        if not answered:
            child.kill()
        child.join()
        incoming.close()
    if error is not None:
        raise error
    answer: Result = result
    return answer


def _work(function: Callable[[], Any], outgoing: Connection, parent: int, silent: bool) -> None:
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
    result, failure = None, None
    try:
        result = function()
    except BaseException as error:  # Whatever it is, the parent raises it.
        failure = error
    outgoing.send((result, failure))
    outgoing.close()


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
