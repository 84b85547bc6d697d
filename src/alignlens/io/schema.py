"""YAML files and closed JSON schemas: wrong keys and values are named with their path and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, InputError, nearest, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jsonschema import ValidationError

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_TYPE_NAMES = {
    "string": "a text",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def read_yaml(path: Path | str) -> Any:
    """Returns the content of a YAML file; an error names the line."""
    import yaml

    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file.", path, advice="Check the path, or run from the project directory.") from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8.", path, advice="Convert it.") from None
    try:
        # The parser in C, where PyYAML was built with it: every start of Snakemake reads all of config/.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be read"
        line = mark.line + 1 if mark is not None else None
        raise InputError(f"not YAML: {problem}.", path, line, "Check indentation and quotes.") from None


def check(document: Any, schema: Mapping[str, Any], label: str) -> None:
    """Raises a ``ConfigError`` for the first key or value that the schema does not allow.

    ``label`` is what the key path begins with: ``config`` (then ``config.seed``) or ``file.yaml:``.
    """
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(schema).iter_errors(document), key=lambda error: error.json_path)
    if errors:
        raise ConfigError(_sentence(errors[0], label))


def with_defaults(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document with the default of every key it leaves out, at every depth."""
    filled = dict(document)
    for key, rule in schema.get("properties", {}).items():
        if key not in filled and "default" in rule:
            filled[key] = rule["default"]
        value = filled.get(key)
        if isinstance(value, dict):
            filled[key] = with_defaults(value, rule)
        elif isinstance(value, list) and isinstance(rule.get("items"), dict):
            items = rule["items"]
            filled[key] = [with_defaults(item, items) if isinstance(item, dict) else item for item in value]
    return filled


def _sentence(error: ValidationError, label: str) -> str:
    """Returns key path, value and what is allowed, for one schema error."""
    if error.context:  # anyOf/oneOf: the branch that got furthest says most
        deepest = max(error.context, key=lambda inner: len(inner.absolute_path))
        if len(deepest.absolute_path) > len(error.absolute_path):
            return _sentence(deepest, label)
    where = _joined(label, error.absolute_path)
    value: Any = error.instance
    allowed: Any = error.validator_value
    if error.validator == "additionalProperties":
        rules: Any = error.schema
        known = sorted(rules.get("properties", {}))
        unknown = next(str(key) for key in value if key not in known)
        return f"{_joined(where, [unknown])}: {unknown_name('key', unknown, known)}"
    if error.validator == "enum":
        close = nearest(value, map(str, allowed)) if isinstance(value, str) else ""
        return f"{where}: {value!r} is not one of {', '.join(map(str, allowed))}{close}"
    if error.validator == "type":
        names = [_TYPE_NAMES.get(name, name) for name in ([allowed] if isinstance(allowed, str) else allowed)]
        # YAML 1.1 takes a number for one only with its point: 1e-3 is a text.
        hint = f" (write {float(value):.1e})" if isinstance(value, str) and _NUMBER.fullmatch(value) else ""
        return f"{where}: {value!r} is not {' or '.join(names)}{hint}"
    if error.validator == "required":
        return f"{where}: missing key {', '.join(key for key in allowed if key not in value)}"
    if error.validator in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bounds = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}
        return f"{where}: {value!r} must be {bounds.get(str(error.validator), 'less than')} {allowed}"
    return f"{where.rstrip(':')}: {error.message}"


def _joined(label: str, keys: Iterable[str | int]) -> str:
    """Returns a key path: ``config.aligners[1].name``."""
    for key in keys:
        label += f"[{key}]" if isinstance(key, int) else f" {key}" if label.endswith(":") else f".{key}"
    return label
