"""Values of documents, taken out by key and checked for type and range.

Errors are a KeyError or ValueError that names the key; ``documents.taking`` turns it into one line about the file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Document = dict[str, Any]

_LONGEST_SHOWN = 60
_MOST = 1 << 62


def text(content: Mapping[str, Any], key: str) -> str:
    """Returns a text."""
    value = content[key]
    if not isinstance(value, str):
        raise _wrong(key, value, "a text")
    return value


def texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Returns a list of texts."""
    value = content[key]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(key, value, "a list of texts")
    return tuple(value)


def name(content: Mapping[str, Any], key: str) -> str:
    """Returns a text, or a number as a text."""
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(key, value, "a name")
    return str(value)


def whole(content: Mapping[str, Any], key: str, least: int = 0, most: int = _MOST) -> int:
    """Returns a whole number in a range."""
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        upper = "" if most == _MOST else f", at most {most}"
        raise _wrong(key, value, f"a whole number, at least {least}{upper}")
    return value


def number(content: Mapping[str, Any], key: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Returns a finite number in a range."""
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(key, value, "a number")
    if not least <= value <= most:
        raise _wrong(key, value, f"between {least:g} and {most:g}")
    return float(value)


def number_or_nan(content: Mapping[str, Any], key: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Returns a finite number in a range, nan for null, which means that it could not be measured."""
    return math.nan if content[key] is None else number(content, key, least, most)


def mapping(content: Mapping[str, Any], key: str) -> Document:
    """Returns a mapping."""
    value = content[key]
    if not isinstance(value, dict):
        raise _wrong(key, value, "a mapping")
    return value


def mappings(content: Mapping[str, Any], key: str) -> list[Document]:
    """Returns a list of mappings."""
    value = content[key]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _wrong(key, value, "a list of mappings")
    return value


def _wrong(key: str, value: Any, wanted: str) -> ValueError:
    shown = repr(value)
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}…"
    return ValueError(f"{key} is {shown}, not {wanted}")
