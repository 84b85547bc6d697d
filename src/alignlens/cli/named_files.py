"""Files that become rows of a table: each is given once, under a name of its own."""

from __future__ import annotations

from pathlib import Path

from alignlens.errors import ConfigError


def check_once(option: str, paths: list[str]) -> None:
    """Raises if a file is named twice: its rows could not be told apart."""
    for place, path in enumerate(paths):
        for before in paths[:place]:
            if path == before or (Path(path).is_file() and Path(before).is_file() and Path(path).samefile(before)):
                also = "" if path == before else f" (as {before})"
                raise ConfigError(f"{option}: {path} is given twice{also}. Give every file once.")


def row_names(paths: list[str]) -> dict[str, str]:
    """Returns the name of a row: the file's name without its ending, or the path if two would be equal."""
    stems = [Path(path).stem for path in paths]
    return {path: stem if stems.count(stem) == 1 else path for path, stem in zip(paths, stems, strict=True)}
