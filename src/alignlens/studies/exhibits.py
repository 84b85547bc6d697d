"""The figures and tables of a paper, numbered as in print, and where each stands on the page of its study."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from alignlens.studies.claims import published_rows

#: What the paper has of an exhibit, as ``in_print`` says it.
IN_PRINT = {
    "numbers": "In print: numbers. They are shown beside ours only for the same language pair.",
    "text": "In print: drawn. The few numbers in the text of the paper are in the tables here and in the claims.",
    "drawn": "In print: drawn, not printed, so there are no numbers to compare with.",
    "no": "Not in the paper.",
}
_NONE = "none: "


@dataclass(frozen=True)
class Exhibit:
    """A figure or table: its number in print, or a name where print has none, and which runs its numbers come from."""

    label: str
    title: str
    in_print: str
    runs: tuple[str, ...]
    """Filters of runs, as ``studies.runs`` has them."""
    absent: str
    """Why there may be none of ours."""

    @property
    def anchor(self) -> str:
        """The name of its place on the page."""
        return re.sub(r"\W+", "-", self.label.lower())


@cache
def exhibits_of(study: str) -> tuple[Exhibit, ...]:
    """Returns the exhibits of a study in the order of its page."""
    names = ("label", "title", "in_print", "runs", "absent")
    rows = published_rows(study, "exhibits.csv", names)
    return tuple(
        Exhibit(
            row["label"], row["title"], row["in_print"], tuple(filter(None, row["runs"].split("; "))), row["absent"]
        )
        for row in rows
    )


def deciding(decided_by: str) -> tuple[tuple[str, ...], str]:
    """Returns the labels of the exhibits that decide a claim; where none does, why."""
    if decided_by.startswith(_NONE):
        return (), decided_by.removeprefix(_NONE)
    return tuple(decided_by.split("; ")), ""
