"""A table of scores in parts: which part has which rows, and how to join them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from alignlens.errors import InputError
from alignlens.io.documents import read_json, taking

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PART = "part"
_Item = TypeVar("_Item")


def part_of(items: Sequence[_Item], shard: tuple[int, int]) -> Sequence[_Item]:
    """Returns every n-th item, so that the parts of a table take about as long as each other."""
    number, parts = shard
    return items[number::parts]


def part_facts(shard: tuple[int, int]) -> dict[str, Any]:
    """Returns the facts that identify a part; empty for a whole table."""
    return {} if shard[1] == 1 else {PART: list(shard)}


def gathered_parts(paths: Sequence[Path]) -> dict[str, Any]:
    """Returns the whole table, its rows in their order, from the files of all parts in any order."""
    tables: dict[int, dict[str, Any]] = {}
    for path in paths:
        table = _read(path)
        number, parts = table[PART]
        if parts != len(paths) or number in tables:
            problem = f"is part {number + 1} of {parts}, but {len(paths)} files were given."
            raise InputError(problem, path, advice="Give every part once.")
        if any(_facts(table) != _facts(other) for other in tables.values()):
            raise InputError("belongs to another table.", path, advice="Make all parts with the same options.")
        tables[number] = table
    parts = [tables[number]["rows"] for number in range(len(paths))]
    length = sum(map(len, parts))
    for number, rows in enumerate(parts):
        if len(rows) != len(range(number, length, len(parts))):
            problem = f"together with the others: part {number + 1} has {len(rows)} of {length} rows."
            raise InputError(problem, paths[0], advice="Make all parts again.")
    return {**_facts(tables[0]), "rows": [parts[row % len(parts)][row // len(parts)] for row in range(length)]}


def _facts(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in (PART, "rows")}


def _read(path: Path) -> dict[str, Any]:
    advice = "Make it with --shard K/N."
    table = read_json(path, advice)
    if PART not in table:
        raise InputError("not a part of a table.", path, advice=advice)
    with taking(path, advice):
        number, parts = table[PART]
        if not 0 <= number < parts or not isinstance(table["rows"], list):
            raise ValueError("not a part of a table")
    return table
