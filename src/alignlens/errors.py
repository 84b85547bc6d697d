"""One family of errors: what is wrong, where, and what to do, in one line.

The command line prints the message of an ``AlignlensError`` without a traceback and exits with 2;
any other exception is a bug of ours, keeps its traceback and exits with 1.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class AlignlensError(Exception):
    """The user can fix this; the message says how."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A child process sends its error to its parent; some kinds take more arguments than the message.
        return _made_again, (type(self), str(self))


def _made_again(kind: type[AlignlensError], message: str) -> AlignlensError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    return error


class ConfigError(AlignlensError):
    """A key or value of the configuration is wrong."""


class InputError(AlignlensError):
    """An input file cannot be used."""

    def __init__(self, problem: str, path: Path | str, line: int | None = None, advice: str = "") -> None:
        """``line`` counts from one, as editors do."""
        self.path, self.line = path, line
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}" + (f" {advice}" if advice else ""))


class ToolError(AlignlensError):
    """An external library or program failed."""


class AlignlensWarning(UserWarning):
    """Worth telling the user, but no reason to stop."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Returns ``" (did you mean X?)"`` for the allowed name closest to ``name``, or an empty string."""
    matches = get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]}?)" if matches else ""


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> str:
    """Returns the sentence for a name that is not in a registry, with every name that is."""
    names = sorted(allowed)
    return f"unknown {kind} {name[:100]!r}; known: {', '.join(names)}{nearest(name, names)}"
