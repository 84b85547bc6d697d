"""Named models: config/models.yaml, checked against a closed schema. Loads no tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import read_yaml
from alignlens.io.schema import check, read_schema
from alignlens.io.typed import schema_of
from alignlens.models.settings import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_PATH = Path("config/models.yaml")


@dataclass(frozen=True)
class Preset:
    """One entry of the file: what it leaves out has the default of the settings it becomes."""

    name: str
    description: str
    architecture: str
    source_begin: bool
    model: Mapping[str, Any]
    training: Mapping[str, Any]


class Presets:
    """Model presets by name, in the order of the file."""

    def __init__(self, presets: Mapping[str, Preset], schema: Mapping[str, Any]) -> None:
        self._presets, self._schema = dict(presets), schema

    @classmethod
    def load(cls, path: Path | str = DEFAULT_PATH) -> Presets:
        """Returns the presets of a YAML file; its schema stands in the folder ``schemas`` beside it."""
        path = Path(path)
        schema = models_schema(path.parent)
        entries = read_yaml(path) or {}
        check(entries, schema, f"{path.name}:")
        return cls({name: _preset(name, entry) for name, entry in entries.items()}, schema)

    def get(self, name: str, where: str) -> Preset:
        """Returns a preset; ``where`` is the key path of the name, for the error."""
        if name not in self._presets:
            raise ConfigError(f"{where}: {unknown_name('model preset', name, self._presets)}")
        return self._presets[name]

    def check_overrides(self, preset: Preset, model: Mapping[str, Any], training: Mapping[str, Any], at: str) -> None:
        """Raises for the first key or value that a preset's architecture or the training does not have."""
        for key, kind, values in (("model", preset.architecture, model), ("training", "training", training)):
            part = {"$ref": f"#/$defs/{kind}", "$defs": self._schema["$defs"]}
            check(dict(values), part, f"{at}.{key}")

    def __iter__(self) -> Iterator[Preset]:
        return iter(self._presets.values())

    def __len__(self) -> int:
        return len(self._presets)


def models_schema(folder: Path | None = None) -> dict[str, Any]:
    """Returns the schema of model presets; what an architecture can be told comes from its registry entry."""
    schema = read_schema("models", *([] if folder is None else [folder]))
    preset = schema["$defs"]["preset"]
    preset["properties"]["architecture"]["enum"] = list(ARCHITECTURES)
    preset["allOf"] = [
        {
            "if": {"properties": {"architecture": {"const": name}}},
            "then": {"properties": {"model": {"$ref": f"#/$defs/{name}"}}},
        }
        for name in ARCHITECTURES
    ]
    schema["$defs"] |= {name: schema_of(architecture.settings) for name, architecture in ARCHITECTURES.items()}
    return schema


def check_model(content: Any, label: str) -> None:
    """Raises for the first thing wrong with a model given without a preset: what ``alignlens train`` is told."""
    schema = models_schema()
    preset = schema["$defs"]["preset"]
    keys = ("architecture", "source_begin", "model", "training")
    properties = {key: preset["properties"][key] for key in keys}
    check(
        content,
        {**preset, "properties": properties, "required": [*keys[:1], *keys[2:]], "$defs": schema["$defs"]},
        label,
    )


def _preset(name: str, entry: Mapping[str, Any]) -> Preset:
    return Preset(
        name=name,
        description=entry["description"],
        architecture=entry["architecture"],
        source_begin=entry.get("source_begin", False),
        model=entry.get("model", {}),
        training=entry["training"],
    )
