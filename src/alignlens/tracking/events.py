"""One line of a journal: what it may contain. Standard library only.

A journal may come from anybody, say in a copied results folder, and what it says ends up in paths, filters, terminals
and databases. So a line is checked once, here, by type and range, before anything else sees it.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"

LINE_CHARACTERS = 1000
"""The longest name of a run, a group or a value."""
ERROR_CHARACTERS = 20_000

_LINE_BYTES = 1_000_000  # ours have a few thousand at most
_DEEPEST = 20
_MOST_ENTRIES = 10_000
_PATH_CHARACTERS = 4096
_YEAR_10000 = 253_402_300_800.0  # the first second that calendars of computers cannot name
_LARGEST_PID = 2**31 - 1
_INT64 = 2**63
# Control characters, line breaks of all kinds, and halves of characters, which no UTF-8 can hold.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_RUN_KEY = re.compile("[0-9a-f]{16}")
_SHA256 = re.compile("[0-9a-f]{64}")
_EXPERIMENT = re.compile(r"\w[\w .-]{0,99}")  # it becomes the name of a folder
_FOLDER = re.compile(r"(\w[\w .-]{0,99}(/\w[\w .-]{0,99}){0,7})?")
_PROCESS = re.compile("[0-9]{0,20}")
_RESERVED = ("alignlens.", "mlflow.")  # reserved for the tracker and for us; a job's own tags have plain names


class MalformedError(ValueError):
    """A line that is not a valid event; the message says why without quoting the line."""


def is_line(value: object, longest: int = LINE_CHARACTERS) -> bool:
    """Returns whether ``value`` is text for one line of a terminal."""
    return isinstance(value, str) and len(value) <= longest and _UNPRINTABLE.search(value) is None


def as_line(text: str, longest: int = LINE_CHARACTERS) -> str:
    """Returns ``text`` as a journal takes it: on one line, without control characters, cut if it is too long."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def escaped(text: str) -> str:
    """Returns ``text``, a path say, with everything that is not for a terminal written as an escape."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def is_folder(value: object) -> bool:
    """Returns whether ``value`` names a folder inside a run's files: plain names, no way up or out."""
    return isinstance(value, str) and _FOLDER.fullmatch(value) is not None


def parse_event(line: bytes) -> dict[str, Any]:
    """Returns the event of one line, or raises ``MalformedError``."""
    if len(line) > _LINE_BYTES:
        raise MalformedError("too long")
    try:
        event = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise MalformedError("not UTF-8") from None
    except json.JSONDecodeError:
        raise MalformedError("not JSON") from None
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except MalformedError:
        raise
    except ValueError:  # Python's own limit, for integers
        raise MalformedError("a number with too many digits") from None
    if not isinstance(event, dict):
        raise MalformedError("not a JSON object")
    kind = event.get("event")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise MalformedError("event: not one of " + ", ".join(_FIELDS))
    for name, (fits, wanted) in fields.items():
        if name not in event:
            raise MalformedError(f"{name} is missing")
        if not fits(event[name]):
            raise MalformedError(f"{name}: not {wanted}")
    return event


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise MalformedError("a key occurs twice")
    return content


def _no_number(text: str) -> float:
    raise MalformedError(f"{text} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_int(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_match(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_plain(value: object, depth: int = 0) -> bool:
    """Returns whether every part of ``value`` can be written as JSON and stored by any database."""
    if isinstance(value, str):
        return _UNSTORABLE.search(value) is None
    if isinstance(value, float):
        return abs(value) <= sys.float_info.max
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < _DEEPEST and all(_is_plain(part, depth + 1) for part in parts)
    return value is None or isinstance(value, int)


def _is_mapping(value: object, fits: Callable[[object], bool] = _is_plain) -> bool:
    if not isinstance(value, dict) or len(value) > _MOST_ENTRIES:
        return False
    return all(is_line(name) and fits(part) for name, part in value.items())


def _is_tags(value: dict[str, object]) -> bool:
    return _is_mapping(value) and not any(name.startswith(_RESERVED) for name in value)


def _is_values(value: object) -> bool:
    return _is_mapping(value, lambda part: _is_number(part, -sys.float_info.max, sys.float_info.max))


def _is_file(value: object) -> bool:
    return is_line(value, _PATH_CHARACTERS) and str(value).rpartition("/")[2] not in ("", ".", "..")


_LINE = (is_line, f"one line of at most {LINE_CHARACTERS} characters")
_MAPPING = (_is_mapping, "a mapping of names to plain values")
_ALWAYS = {
    "run": (_is_match(_RUN_KEY), "16 hexadecimal digits"),
    "time": (lambda value: _is_number(value, 0.0, _YEAR_10000), "a time in seconds since 1970"),
}
_FIELDS: dict[str, dict[str, tuple[Callable[[Any], bool], str]]] = {
    "run": {
        **_ALWAYS,
        "experiment": (_is_match(_EXPERIMENT), "the name of an experiment"),
        "name": _LINE,
        "group": (lambda value: value is None or is_line(value), "null or one line"),
        "tags": (_is_tags, "a mapping of names to plain values"),
        "params": _MAPPING,
        "identity": _MAPPING,
        "pid": (lambda value: _is_int(value, 1, _LARGEST_PID), "the number of a process"),
        "process": (_is_match(_PROCESS), "the start of a process"),
        "host": _LINE,
        "version": _LINE,
        "commit": _LINE,
    },
    "metrics": {
        **_ALWAYS,
        "step": (lambda value: _is_int(value, -_INT64, _INT64 - 1), "a whole number of 64 bits"),
        "values": (_is_values, "a mapping of names to finite numbers"),
    },
    "artifact": {
        **_ALWAYS,
        "path": (_is_file, "the path of a file"),
        "sha256": (_is_match(_SHA256), "64 hexadecimal digits"),
        "size": (lambda value: _is_int(value, 0, _INT64 - 1), "a number of bytes"),
        "folder": (is_folder, "a folder inside the files of a run"),
    },
    "end": {
        **_ALWAYS,
        "status": (lambda value: value in (FINISHED, FAILED, KILLED), "FINISHED, FAILED or KILLED"),
        "error": (lambda value: is_line(value, ERROR_CHARACTERS), f"one line of at most {ERROR_CHARACTERS} characters"),
    },
}
