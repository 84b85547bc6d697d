"""A command that works, and what each of its options takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What an option takes.
TEXT, LINK, FILE = "text", "links", "file"  # FILE: of a format of its own, where text is as wrong as bytes
FOLDER, COUNT, REAL, JSON = "folder", "count", "real", "json"
OUT_FILE, OUT_FOLDER = "output file", "output folder"
OUT_FILES = "folder for output files"  # beside what else is in it


@dataclass(frozen=True)
class Good:
    """A command that works."""

    name: str
    arguments: tuple[str, ...]
    takes: Mapping[str, str]
    ours: str = ""
    """A folder that an earlier run of it made."""

    def with_value(self, option: str, value: str) -> list[str]:
        """Returns the command with another value of an option."""
        found = list(self.arguments)
        if option in found:
            found[found.index(option) + 1] = value
            return found
        return [*found, option, value]

    def value(self, option: str) -> str:
        """Returns the value of an option."""
        return self.arguments[self.arguments.index(option) + 1]
