"""The runs that made some files of a results folder: what the journals beside them say. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.tracking.records import SUFFIX, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alignlens.tracking.records import RunRecord

_PREPARED = f"prepare{SUFFIX}"
"""The journal of all files of a prepared text."""


def records_beside(root: Path, files: Iterable[str], skipped: list[str]) -> list[RunRecord]:
    """Returns the runs that made files below a folder, each once; ``skipped`` gets a line per journal of no use."""
    records: dict[str, RunRecord] = {}
    for path in dict.fromkeys(journal for file in files for journal in _journals_of(root, file)):
        try:
            for record in read_journal(path):
                records.setdefault(record.key, record)
        except InputError as error:
            skipped.append(str(error))
    return list(records.values())


def _journals_of(root: Path, file: str) -> Iterator[Path]:
    """Yields the journals that are named after a file or a folder that it is in; else that of its prepared text."""
    path = root / file
    places = [path, *(folder for folder in path.parents if root in folder.parents)]
    named = [journal for place in places if (journal := place.with_name(place.name + SUFFIX)).is_file()]
    prepared = path.with_name(_PREPARED)
    yield from named or ([prepared] if prepared.is_file() else [])
