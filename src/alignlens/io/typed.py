"""Settings declared once: a frozen dataclass says what each value may be, and the schema is derived from it.

A field made by ``setting`` has a description and limits; its type says the rest. ``schema_of`` returns the closed
JSON schema that ``io.schema`` checks with, and ``read`` the typed settings from checked data. Other fields are not
settings: they cannot be set in a file.

Types are ``bool``, ``int``, ``float``, ``str``, ``Any``, ``Literal``, dataclasses, tuples, dicts by name, and unions of
those. A class may define its own form (``Formed``), and a dataclass with ``SHORT_FOR`` may be written as a plain
string, which is the value of that key.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from dataclasses import Field

    from alignlens.io.limits import Limits

Settings = TypeVar("Settings")

#: In place of a default: the key is required.
REQUIRED: Any = MISSING

#: Rules for a text that is a path or an address: not empty, and without line breaks and other control characters.
ONE_LINE: dict[str, Any] = {"minLength": 1, "pattern": r"^[^\x00-\x1f\x7f]*$"}

_TYPES: dict[Any, dict[str, Any]] = {}
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


@runtime_checkable
class Formed(Protocol):
    """A class that defines how it is written and read."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Returns the schema of the written form."""

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Returns the value from checked plain data."""

    def as_json(self) -> Any:
        """Returns plain data that ``from_json`` reads back."""


def setting(
    default: Any,
    description: str,
    limits: Limits | None = None,
    why: str = "",
    choices: Iterable[str] | None = None,
    keys: Iterable[str] | None = None,
    **rules: Any,
) -> Any:
    """Returns the field of a setting; ``limits``, ``why`` (their reason) and ``choices`` apply to the values in it.

    ``keys`` are the only keys that a dict may have.
    ``rules`` are words of JSON Schema for the value itself: ``maxItems``, ``pattern``, ``propertyNames``.
    """
    facts = {"description": description, "limits": limits, "why": why, "choices": choices, "keys": keys}
    metadata = {**facts, "rules": rules}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(kind: type[Settings], description: str) -> Settings:
    """Returns a field for a nested group of settings."""
    nested: Settings = field(default_factory=kind, metadata={"description": description, "rules": {}})
    return nested


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Returns the closed schema of a dataclass of settings, defaults included."""
    hints = _types(kind)
    properties, required = {}, []
    for each in _settings_of(kind):
        about = {"description": each.metadata["description"]}
        value = {**_value(hints[each.name], each.metadata), **about, **each.metadata["rules"]}
        if each.default_factory is not MISSING:
            value["default"] = _plain(each.default_factory())
        elif each.default is not MISSING:
            value["default"] = _plain(each.default)
        else:
            required.append(each.name)
        properties[each.name] = value
    described = (kind.__doc__ or "").split("\n")[0]
    schema = {"description": described, "type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, **({"required": required} if required else {})}


def _types(kind: Any) -> dict[str, Any]:
    """Returns the types of the fields, cached, since resolving annotations is slow."""
    if kind not in _TYPES:
        _TYPES[kind] = get_type_hints(kind)
    return _TYPES[kind]


def _settings_of(kind: Any) -> list[Field[Any]]:
    return [each for each in fields(kind) if "description" in each.metadata]


def _value(hint: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a value of some type, given the metadata of its field."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is UnionType:
        return _either([_value(kind, metadata) for kind in inner])
    if origin is tuple:
        size = {} if inner[-1] is Ellipsis else {"minItems": len(inner), "maxItems": len(inner)}
        return {"type": "array", "items": _value(inner[0], metadata), **size}
    if origin is dict and metadata.get("keys") is not None:
        value = {"description": metadata["description"], **_value(inner[1], metadata)}
        return {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(metadata["keys"], value)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _value(inner[1], metadata)}
    if origin is Literal:
        return {"enum": list(inner)}
    if _is_formed(hint):
        return dict(hint.schema())
    if is_dataclass(hint):
        return _dataclass(hint)
    if metadata.get("choices") is not None and hint is str:
        return {"enum": list(metadata["choices"])}
    return {"type": _NAMES[hint], **_bounds(hint, metadata)}


def _dataclass(kind: Any) -> dict[str, Any]:
    """Returns the schema of nested settings, or of the plain string that stands for them."""
    schema = schema_of(kind)
    if not hasattr(kind, "SHORT_FOR"):
        return schema
    (short,) = (each for each in _settings_of(kind) if each.name == kind.SHORT_FOR)
    return _either([{"type": "string", **short.metadata["rules"]}, schema])


def _either(shapes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the schema for one of several shapes; each JSON Schema rule only applies to values of its own type.

    For two mappings, all keys are known and none is required: the reader checks which go together.
    """
    merged: dict[str, Any] = {}
    for shape in shapes:
        kinds = [shape["type"]] if isinstance(shape["type"], str) else shape["type"]
        if "object" in kinds and "properties" in merged:
            merged.pop("required", None)
            shape = {"properties": {**merged["properties"], **shape["properties"]}}
        merged = {**merged, **shape, "type": list(dict.fromkeys([*merged.get("type", ()), *kinds]))}
    return {**merged, "type": merged["type"][0] if len(merged["type"]) == 1 else merged["type"]}


def _bounds(kind: type, metadata: Mapping[str, Any]) -> dict[str, Any]:
    limits, why = metadata.get("limits"), metadata.get("why")
    if limits is None or kind not in (int, float):
        return {}
    bounds = {"exclusiveMinimum" if limits.above else "minimum": limits.least}
    if math.isfinite(limits.most):
        bounds["exclusiveMaximum" if limits.below else "maximum"] = limits.most
    return {**bounds, **({"$comment": why} if why else {})}


def read(kind: type[Settings], content: Mapping[str, Any], **others: Any) -> Settings:
    """Returns settings from checked values; missing ones have their defaults. ``others`` are other fields."""
    hints = _types(kind)
    return kind(**{name: _read_value(hints[name], value) for name, value in content.items()}, **others)


def _read_value(hint: Any, value: Any) -> Any:
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for kind in kinds:
        origin, inner = get_origin(kind), get_args(kind)
        if _is_formed(kind) and value is not None:
            return kind.from_json(value)
        if isinstance(value, list) and origin is tuple:
            return tuple(_read_value(inner[0], each) for each in value)
        if isinstance(value, dict) and origin is dict:
            return {name: _read_value(inner[1], each) for name, each in value.items()}
        if isinstance(value, dict) and is_dataclass(kind) and {each.name for each in _settings_of(kind)} >= set(value):
            return read(kind, value)  # type: ignore[arg-type]
        if isinstance(value, str) and hasattr(kind, "SHORT_FOR"):
            return kind(**{kind.SHORT_FOR: value})
    return value


def written(settings: Any) -> dict[str, Any]:
    """Returns settings as plain data that ``read`` reads back, every key with its value."""
    return {each.name: _plain(getattr(settings, each.name)) for each in _settings_of(settings)}


def _plain(value: Any) -> Any:
    if _is_formed(type(value)):
        return value.as_json()
    if is_dataclass(value):
        return written(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _is_formed(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Formed)


def check_limits(settings: Any, key: str) -> None:
    """Raises for a number outside its limits, for settings not checked by a schema; ``key`` is their key path."""
    for each in _settings_of(settings):
        value, limits = getattr(settings, each.name), each.metadata.get("limits")
        if limits is not None and value is not None and value not in limits:
            raise ConfigError(f"{key}.{each.name}: {value} must lie {limits}.")
