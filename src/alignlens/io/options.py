"""Settings that are written once: dataclasses whose fields make the schema that they are checked with."""

from __future__ import annotations

from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from alignlens.io.limits import Limits

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def option(default: Any, description: str, limits: Limits | None = None, why: str = "") -> Any:
    """Returns a dataclass field; numbers need ``limits``, and ``why`` tells the reason for the upper one."""
    return field(default=default, metadata={"description": description, "limits": limits, "why": why})


def schema_of(settings: type) -> dict[str, Any]:
    """Returns the closed JSON schema of a dataclass whose fields are all made by ``option``."""
    hints = get_type_hints(settings)
    return {
        "description": (settings.__doc__ or "").split("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "properties": {
            each.name: {
                "description": each.metadata["description"],
                **_kind(hints[each.name]),
                **_range(each.metadata["limits"], each.metadata["why"]),
                "default": each.default,
            }
            for each in fields(settings)
        },
    }


def _kind(hint: Any) -> dict[str, Any]:
    return {"enum": list(get_args(hint))} if get_origin(hint) is Literal else {"type": _JSON_TYPES[hint]}


def _range(limits: Limits | None, why: str) -> dict[str, Any]:
    if limits is None:
        return {}
    least, most = (
        ("exclusiveMinimum" if limits.above else "minimum"),
        ("exclusiveMaximum" if limits.below else "maximum"),
    )
    return {least: limits.least, most: limits.most, **({"$comment": why} if why else {})}
