"""The runs behind the numbers of a page: which of them belong to an exhibit, and how they are shown.

A filter is the name of an experiment, then tags with their values: ``attribution decoding=forced split=test|dev``. A
value may end in ``*``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KEY_TAG = "alignlens.key"
"""The tag of a run in MLflow that has its key."""


@dataclass(frozen=True)
class PageRun:
    """A run as its journal tells it: the key by which MLflow has it, its experiment and its name."""

    key: str
    experiment: str
    name: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """The name of its place on the page."""
        return f"run-{self.key}"

    def fits(self, wanted: str) -> bool:
        """Returns whether the run is one of those of a filter."""
        experiment, conditions = parsed(wanted)
        return self.experiment == experiment and all(
            any(fnmatchcase(self.tags.get(name, ""), value) for value in values) for name, values in conditions.items()
        )


def parsed(wanted: str) -> tuple[str, dict[str, list[str]]]:
    """Returns the experiment of a filter, and the values that tags may have."""
    # Names of experiments may have spaces; conditions have none.
    words = wanted.split(" ")
    pairs = [word.split("=", 1) for word in words if "=" in word]
    return " ".join(word for word in words if "=" not in word), {name: value.split("|") for name, value in pairs}


def runs_of(wanted: Sequence[str], runs: Iterable[PageRun]) -> list[PageRun]:
    """Returns the runs that fit any of several filters."""
    return [run for run in runs if any(run.fits(each) for each in wanted)]


def filter_of(experiment: str, **tags: str) -> str:
    """Returns the filter of an experiment's runs with these tags."""
    return " ".join([experiment, *(f"{name}={value}" for name, value in tags.items())])


def linked(table: Table, runs: Sequence[PageRun]) -> Table:
    """Returns a table whose numbers lead to the run that they come from, the first of several, and name them all."""
    return replace(table, rows=[[_linked(cell, runs) for cell in row] for row in table.rows])


def _linked(cell: Cell, runs: Sequence[PageRun]) -> Cell:
    behind = runs_of(cell.source, runs) if cell.number is not None else []
    if not behind:
        return cell
    keys = f"key{'s' if len(behind) > 1 else ''} {', '.join(run.key for run in behind)}"
    detail = "; ".join(filter(None, (cell.detail, keys)))
    return replace(cell, links=((cell.text, f"#{behind[0].anchor}"),), detail=detail)


def runs_table(study: str, runs: Sequence[PageRun]) -> Table:
    """Returns the runs in a table, each row with its place on the page."""
    rows = [[Cell(run.experiment), Cell(run.name), Cell(run.key)] for run in runs]
    return Table(
        f"{study}-runs",
        "Runs of which this page reads the results",
        ("experiment", "run", "key"),
        rows,
        labels=3,
        anchors=[run.anchor for run in runs],
    )
