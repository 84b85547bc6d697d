"""Closed JSON schemas: wrong keys and values are named with their path and what is allowed.

Stricter than JSON Schema in five ways: ``1.0`` is not a whole number, nor NaN or infinity a number, a pattern must
match to the very end (its ``$`` would also match before a last newline), ``1.0`` and ``true`` are not the ``1`` of a
list of choices, and a ``format`` names a kind of name (``io.names``). ``$comment`` beside a limit says why it is there.
"""

from __future__ import annotations

import math
import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, nearest, unknown_name
from alignlens.io.documents import shown
from alignlens.io.names import KINDS, expected, is_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema import FormatChecker, ValidationError
    from jsonschema.protocols import Validator

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_PLAIN_KEY = re.compile(r"[\w-]{1,100}")
# Not possible in file names, environment variables or text files: null characters and lone surrogates.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LONGEST_BITS = 64
_DEEPEST = 200
_TYPE_NAMES = {
    "string": "a text",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
_UPPER = ("at most", "less than")


def check(document: Any, schema: Mapping[str, Any], label: str) -> None:
    """Raises a ``ConfigError`` for the first key or value that the schema does not allow.

    ``label`` is what the key path begins with: ``config`` (then ``config.seed``) or ``file.yaml:``.
    """
    _check_plain(document, label)
    kind, formats = _strict()
    violations = kind(schema, format_checker=formats).iter_errors(document)
    errors = sorted(violations, key=lambda error: error.json_path)
    if errors:
        raise ConfigError(_sentence(errors[0], label))


def _check_plain(value: Any, where: str, depth: int = 0) -> None:
    """Raises for keys and values that are never allowed, even where a schema allows anything."""
    if depth > _DEEPEST:
        raise ConfigError(f"{where.rstrip(':')}: nested more than {_DEEPEST} levels deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"{where.rstrip(':')}: the key {shown(key)} is not a text; put it in quotes")
            _check_plain(key, where, depth)
            _check_plain(inner, key_path(where, [key]), depth + 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _check_plain(inner, key_path(where, [place]), depth + 1)
    elif (problem := _problem(value)) is not None:
        raise ConfigError(f"{where.rstrip(':')}: {shown(value)} {problem}")


def _problem(value: Any) -> str | None:
    """Returns why a single value can never be used, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not a finite number"
    if isinstance(value, int):
        return None if value.bit_length() <= _LONGEST_BITS else f"does not fit in {_LONGEST_BITS} bits"
    if isinstance(value, str):
        return "has a character that is not allowed (null, or half a character)" if _NO_TEXT.search(value) else None
    return None if value is None else "is not a text, a number, a list or a mapping; put it in quotes"


@cache
def _strict() -> tuple[type[Validator], FormatChecker]:
    """Returns the validator with its stricter rules, and the kinds of names that it knows as formats."""
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError
    from jsonschema.validators import create

    def matches(_: Any, pattern: str, text: Any, rules: Any) -> Iterator[ValidationError]:
        if isinstance(text, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), text):
            yield ValidationError(f"{shown(text)} does not match {pattern}")

    def is_among(_: Any, choices: list[Any], value: Any, rules: Any) -> Iterator[ValidationError]:
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            yield ValidationError(f"{shown(value)} is not one of {choices}")

    def is_whole(_: Any, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_whole)
    formats = FormatChecker(formats=())
    for kind in KINDS:
        formats.checks(kind)(partial(is_name, kind))
    rules = {**Draft202012Validator.VALIDATORS, "pattern": matches, "enum": is_among}
    return create(Draft202012Validator.META_SCHEMA, rules, type_checker=types), formats


def _sentence(error: ValidationError, label: str) -> str:
    """Returns key path, value and what is allowed, for one schema error."""
    if error.context:  # anyOf/oneOf: the branch that got furthest says most
        deepest = max(error.context, key=lambda inner: len(inner.absolute_path))
        if len(deepest.absolute_path) > len(error.absolute_path):
            return _sentence(deepest, label)
    where = key_path(label, error.absolute_path)
    said = where.rstrip(":")
    value: Any = error.instance
    allowed: Any = error.validator_value
    rules: Any = error.schema
    if error.validator == "additionalProperties":
        known = sorted(rules.get("properties", {}))
        unknown = next(key for key in value if key not in known)
        return f"{key_path(where, [unknown])}: {unknown_name('key', unknown, known)}"
    if error.validator == "enum":
        close = nearest(value, map(str, allowed)) if isinstance(value, str) else ""
        return f"{said}: {shown(value)} is not one of {', '.join(map(str, allowed))}{close}"
    if error.validator == "type":
        names = [_TYPE_NAMES.get(name, name) for name in ([allowed] if isinstance(allowed, str) else allowed)]
        # YAML 1.1 reads a number in this form only with a decimal point: 1e-3 is a string.
        hint = f" (write {float(value):.1e})" if isinstance(value, str) and _NUMBER.fullmatch(value) else ""
        return f"{said}: {shown(value)} is not {' or '.join(names)}{hint}"
    if error.validator == "required":
        return f"{said}: missing key {', '.join(key for key in allowed if key not in value)}"
    if error.validator == "format":
        return f"{said}: {shown(value)} does not match the rule for names: {expected(str(allowed))}"
    if error.validator in _BOUNDS:
        return f"{said}: {shown(value)} must be {_range(rules, str(error.validator))}"
    if error.validator in ("maxItems", "maxLength"):
        kind = "entries" if error.validator == "maxItems" else "characters"
        return f"{said}: has {len(value):,} {kind}; at most {allowed:,} are allowed"
    return f"{said}: {' '.join(error.message.split())[:300]}"


def _range(rules: Mapping[str, Any], broken: str) -> str:
    """Returns the limits of a number, first the one that it breaks, with the reason."""
    limits = sorted((key for key in _BOUNDS if key in rules), key=lambda key: key != broken)
    why = f" ({rules['$comment']})" if "$comment" in rules else ""
    return " and ".join(f"{_BOUNDS[key]} {rules[key]}{why if _BOUNDS[key] in _UPPER else ''}" for key in limits)


def key_path(label: str, keys: Iterable[str | int]) -> str:
    """Returns a key path: ``config.aligners[1].name``."""
    for key in keys:
        if isinstance(key, str) and not _PLAIN_KEY.fullmatch(key):
            key = shown(key)
        label += f"[{key}]" if isinstance(key, int) else f" {key}" if label.endswith(":") else f".{key}"
    return label
