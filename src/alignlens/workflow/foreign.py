"""Models from elsewhere in a configuration: their folders, and their ``config.json``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import AlignlensError, ConfigError
from alignlens.io.documents import shown
from alignlens.models.foreign import Described, described, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.models.foreign import ForeignModel

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
#: Requested methods, layers and heads, and costs, apply to the model and not to one direction.
_COMMON = ("dim", "ffn", "heads", "encoder_layers", "decoder_layers")


@dataclass(frozen=True)
class Imported:
    """Where a model from elsewhere comes from: its name by direction; and the pieces that it knows.

    A name is a folder, with the languages of a model that needs them behind it (``FOLDER#en_XX-fr_XX``).
    """

    names: Mapping[str, str]
    vocabulary: int


def imported_from(
    chosen: ForeignModel, directions: Sequence[tuple[str, str]], where: str
) -> tuple[Imported, Described]:
    """Returns the folders of all directions, and what their models are, which must have one shape.

    ``directions`` are pairs of languages, ``where`` is the key path of the model. Nothing but ``config.json`` is read.
    """
    where = f"{where}.huggingface"
    names = {f"{source}-{target}": _name(chosen, source, target, where) for source, target in directions}
    if isinstance(chosen.huggingface, str) and len(set(names.values())) < len(names):
        raise ConfigError(
            f"{where}: {shown(chosen.huggingface)} is the same folder for {' and '.join(names)}. Put {{source}} "
            f"and {{target}} into the path, give a folder for each, or set directions to forward."
        )
    models = {direction: _described(folder_of(name), where) for direction, name in names.items()}
    (first, model), *others = models.items()
    for direction, other in others:
        for key in _COMMON:
            one, two = (getattr(each.settings, key) for each in (model, other))
            if one != two:
                raise ConfigError(
                    f"{where}: {key} is {one} in {first} and {two} in {direction}; both directions of a model must "
                    "be the same. Give models of one size, or set directions to forward."
                )
    vocabulary = max(each.vocabulary for each in models.values())
    return Imported(names, vocabulary), model._replace(vocabulary=vocabulary)


def _name(chosen: ForeignModel, source: str, target: str, where: str) -> str:
    """Returns the name of the model of a direction, whose folder is there."""
    named, direction = chosen.huggingface, f"{source}-{target}"
    if isinstance(named, str):
        named = named.replace("{source}", source).replace("{target}", target)
    elif direction in named:
        named, where = named[direction], f"{where}.{direction}"
    else:
        known = ", ".join(named) or "none"
        raise ConfigError(
            f"{where}: no folder for {direction}; given are: {known}. Add it, or set directions to forward."
        )
    name = _VARIABLE.sub(lambda variable: _set(variable[1] or variable[2], where), named)
    folder = folder_of(name)
    if not Path(folder).is_dir():
        raise ConfigError(f"{where}: {shown(folder)} is not a folder. Give the folder of the model {direction}.")
    if {"{", "}"} & set(folder):
        raise ConfigError(
            f"{where}: {shown(folder)}: Snakemake reads braces in a path as wildcards. Rename the folder."
        )
    if (Path(folder) / "model.json").exists():
        raise ConfigError(f"{where}: {shown(folder)} is an alignlens model, not one of the Hugging Face hub.")
    return name


def _set(variable: str, where: str) -> str:
    """Returns the value of an environment variable."""
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(
            f"{where}: the environment variable {variable} is not set. Set it to the folder of the model: "
            f"export {variable}=FOLDER"
        )
    return value


def _described(folder: str, where: str) -> Described:
    try:
        return described(Path(folder))
    except AlignlensError as error:
        raise ConfigError(f"{where}: {error}") from None
