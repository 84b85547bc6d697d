"""Delimited tables with column names in the first line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io.text import read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def read_table(path: Path | str, advice: str, columns: Sequence[str], delimiter: str = ",") -> list[dict[str, str]]:
    """Returns the rows of a table; raises if a column is missing or a row has the wrong number of values."""
    lines = read_lines(path, allow_empty_file=True)
    reader = csv.DictReader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        names = list(reader.fieldnames or ())
        missing = [name for name in columns if name not in names]
        if missing:
            raise InputError(f"no column {missing[0]}.", path, 1, advice)
        if len(set(names)) < len(names):
            raise InputError("two columns have the same name.", path, 1, advice)
        rows = []
        for row in reader:
            # csv puts surplus values under the key None, and None in place of missing ones.
            if None in row or None in row.values():
                raise InputError(f"expected {len(names)} values.", path, reader.line_num, advice)
            rows.append(row)
    except csv.Error as error:
        raise InputError(f"not a table ({error}).", path, reader.line_num, advice) from None
    return rows
