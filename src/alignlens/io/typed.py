"""Settings written once: a frozen dataclass says what each value may be, and the schema of a configuration follows.

A field made by ``setting`` carries its description and limits; its type says the rest. ``schema_of`` makes the closed
JSON schema that ``io.schema`` checks with, and ``read`` the typed settings of what was checked.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alignlens.io.limits import Limits

Settings = TypeVar("Settings")

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def setting(default: Any, description: str, limits: Limits | None = None, why: str = "", **rules: Any) -> Any:
    """Returns the field of a setting; ``limits`` and ``why`` they are there hold for the numbers in it.

    ``rules`` are words of JSON Schema for the value itself: ``maxItems``, ``pattern``, ``propertyNames``.
    """
    metadata = {"description": description, "limits": limits, "why": why, "rules": rules}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(kind: type[Settings], description: str) -> Settings:
    """Returns the field of settings inside settings."""
    made: Settings = field(default_factory=kind, metadata={"description": description})
    return made


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Returns the closed schema of a dataclass of settings, defaults included."""
    hints = get_type_hints(kind)
    properties = {}
    for each in fields(kind):
        told = {"description": each.metadata["description"]}
        if is_dataclass(hints[each.name]):
            properties[each.name] = {**schema_of(hints[each.name]), **told, "default": {}}
            continue
        default = each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        value = _value(hints[each.name], each.metadata["limits"], each.metadata["why"])
        default = list(default) if isinstance(default, tuple) else default
        properties[each.name] = {**told, **value, **each.metadata["rules"], "default": default}
    described = (kind.__doc__ or "").split("\n")[0]
    return {"description": described, "type": "object", "additionalProperties": False, "properties": properties}


def _value(hint: Any, limits: Limits | None, why: str) -> dict[str, Any]:
    """Returns the rules for a value of some type."""
    if get_origin(hint) is UnionType:
        (inner,) = (kind for kind in get_args(hint) if kind is not NoneType)
        rules = _value(inner, limits, why)
        return {**rules, "type": [rules["type"], "null"]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _value(get_args(hint)[0], limits, why)}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _value(get_args(hint)[1], limits, why)}
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    return {"type": _NAMES[hint], **(_bounds(limits, why) if limits else {})}


def _bounds(limits: Limits, why: str) -> dict[str, Any]:
    least = "exclusiveMinimum" if limits.above else "minimum"
    most = "exclusiveMaximum" if limits.below else "maximum"
    return {least: limits.least, most: limits.most, **({"$comment": why} if why else {})}


def read(kind: type[Settings], content: Mapping[str, Any]) -> Settings:
    """Returns the settings of checked values; what is left out has its default."""
    hints = get_type_hints(kind)
    values = {name: _read_value(hints[name], value) for name, value in content.items()}
    return kind(**values)


def _read_value(hint: Any, value: Any) -> Any:
    if is_dataclass(hint):
        return read(hint, value)  # type: ignore[arg-type]
    return tuple(value) if isinstance(value, list) else value
