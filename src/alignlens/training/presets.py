"""Named models and how they are trained: config/models.yaml, and models given without a name. No tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import read_yaml
from alignlens.io.schema import check, key_path
from alignlens.io.typed import REQUIRED, read, schema_of, setting
from alignlens.models.settings import ARCHITECTURES, architecture_of, architecture_settings
from alignlens.training.settings import TrainingSettings, check_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_PATH = Path("config/models.yaml")
_MODEL = "Sizes and switches of the architecture."


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model and how it is trained.

    What ``model`` and ``training`` leave out has the default of the settings they become.
    """

    architecture: str = setting(
        REQUIRED, "The kind of model, which determines the keys of `model`.", choices=ARCHITECTURES
    )
    source_begin: bool = setting(
        False, "Whether source sentences start with BEGIN, as in Snell et al. (2021); they always end with END."
    )
    model: dict[str, Any] = setting(REQUIRED, _MODEL)
    training: dict[str, Any] = setting(REQUIRED, "How the model is trained.")


@dataclass(frozen=True, kw_only=True)
class Preset(Recipe):
    """One entry of the file; here a model may be left at the defaults of its architecture."""

    name: str
    model: dict[str, Any] = setting({}, _MODEL)
    description: str = setting(REQUIRED, "Where the numbers come from, and what differs from the source.")


@dataclass(frozen=True)
class ChosenModel:
    """A preset with changes, as a configuration has it."""

    preset: str = setting(REQUIRED, "A model of `models.yaml`.")
    model: dict[str, Any] = setting(
        {}, "Sizes and switches that differ from the preset: `{dim: 128}` (docs/models.md lists them all)."
    )
    training: dict[str, Any] = setting(
        {}, "Training settings that differ: `{max_updates: 5000, learning_rate: 0.0005}`."
    )


class Presets:
    """Model presets by name, in the order of the file."""

    def __init__(self, presets: Mapping[str, Preset]) -> None:
        self._presets = dict(presets)

    @classmethod
    def load(cls, path: Path | str = DEFAULT_PATH) -> Presets:
        """Returns the presets of a YAML file."""
        path = Path(path)
        label, entries = f"{path.name}:", read_yaml(path) or {}
        named = {"propertyNames": {"format": "model-name"}, "additionalProperties": schema_of(Preset)}
        check(entries, {"type": "object", **named}, label)
        presets = {name: read(Preset, entry, name=name) for name, entry in entries.items()}
        for name, preset in presets.items():
            check_parts(preset.architecture, preset.model, preset.training, key_path(label, [name]))
        return cls(presets)

    def get(self, name: str, where: str) -> Preset:
        """Returns a preset; ``where`` is the key path of the name, for the error."""
        if name not in self._presets:
            raise ConfigError(f"{where}: {unknown_name('model preset', name, self._presets)}")
        return self._presets[name]

    def __iter__(self) -> Iterator[Preset]:
        return iter(self._presets.values())

    def __len__(self) -> int:
        return len(self._presets)


def check_parts(architecture: str, model: Mapping[str, Any], training: Mapping[str, Any], where: str) -> None:
    """Raises for the first key or value that an architecture or the training does not have."""
    check(model, schema_of(architecture_of(architecture).settings), f"{where}.model")
    check(training, schema_of(TrainingSettings), f"{where}.training")


def check_recipe(content: Any, label: str) -> Recipe:
    """Returns a model given without a preset, as to ``alignlens train``; raises if it is wrong."""
    check(content, schema_of(Recipe), label)
    recipe = read(Recipe, content)
    check_parts(recipe.architecture, recipe.model, recipe.training, label)
    try:
        model = architecture_settings(recipe.architecture, recipe.model)
        check_together(recipe.architecture, model, TrainingSettings.from_json(recipe.training))
    except ConfigError as error:
        raise ConfigError(f"{label}.{error}") from None
    return recipe
