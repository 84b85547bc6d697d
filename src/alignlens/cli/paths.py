"""Checks inputs and outputs of a command before anything is read: no output may be an input or another output."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import destination

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

_STANDARD = "-"
# Options that name a setting in every verb that has them.
_WORDS = (
    *("about", "action", "definition", "extraction", "format", "kind", "method", "methods", "name", "settings"),
    *("study", "task", "tokenize", "weights"),
)


@dataclass(frozen=True)
class Outputs:
    """The options of a verb that name what it writes; all others name what it reads, if they name anything.

    ``folders`` are replaced as a whole, or removed in the end; ``places`` are folders that files are put into;
    ``words`` never name a file, even if one of that name exists.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def check_outputs(args: argparse.Namespace, outputs: Outputs) -> None:
    """Raises if an output is also an input, or is written twice."""
    values = {name: value for name, value in vars(args).items() if value is not None}
    files = [(name, path) for name in (*outputs.files, "journal") for path in _paths(values.get(name))]
    folders = [(name, path) for name in outputs.folders for path in _paths(values.get(name))]
    others = {*outputs.files, *outputs.folders, *outputs.places, *outputs.words, *_WORDS, "journal"}
    read = [
        (name, path)
        for name, value in values.items()
        if name not in others
        for path in _paths(value)
        if os.path.lexists(path)
    ]
    for _, path in (*files, *folders):
        _check_parents(path)
    for place, (name, path) in enumerate(files):
        destination(path)
        refuse_same(_option(name), path, read)
        _refuse_twice(name, path, files[:place])
    for place, (name, path) in enumerate(folders):
        for other, inner in (*read, *files, *folders[:place], *folders[place + 1 :]):
            if _same(path, inner) or _real(inner).is_relative_to(_real(path)):
                raise ConfigError(
                    f"{_option(name)} {path}: would replace {_option(other)} {inner}. Choose another folder."
                )


def _check_parents(path: Path) -> None:
    """Raises if there is a file where a folder would have to be created."""
    for parent in path.parents:
        if os.path.lexists(parent):
            if not parent.is_dir():
                raise InputError(
                    "is not a folder.", parent, advice=f"{path} cannot be created in it; choose another place."
                )
            return


def refuse_same(option: str, path: Path | str, read: Iterable[tuple[str, Path]]) -> None:
    """Raises if a file to be written is one of those to be read; ``option`` is how the output was requested."""
    for other, given in read:
        if _same(path, given):
            raise ConfigError(
                f"{option} {path}: would overwrite its input, {_option(other)} {given}. Choose another file."
            )


def _refuse_twice(name: str, path: Path, before: Iterable[tuple[str, Path]]) -> None:
    for other, taken in before:
        if _real(path) == _real(taken) and _is_file(path):
            raise ConfigError(
                f"{_option(name)} and {_option(other)} would write the same file, {path}. Choose another."
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _paths(value: Any) -> Iterator[Path]:
    """Yields what an option may name: a path, several, or those of NAME=PATH=PATH."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, str) and value not in ("", _STANDARD):
        yield Path(value)
        yield from (Path(part) for part in value.split("=")[1:] if part)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _paths(each)


def _same(path: Path | str, other: Path | str) -> bool:
    """Returns whether two names refer to the same file or folder; devices may be read and written."""
    try:
        return Path(path).samefile(other) and (Path(path).is_file() or Path(path).is_dir())
    except (OSError, ValueError):
        return False


def _is_file(path: Path) -> bool:
    """Returns whether a name refers to a regular file, or to nothing yet."""
    return path.is_file() or not path.exists()


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
