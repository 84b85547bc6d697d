"""What the report shows of the studies of a results folder: what became of the claims, and error rates in short."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from alignlens.errors import InputError
from alignlens.report.render import Cell, Table, html

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUMMARY, PAGE = "summary.json", "index.html"
_VERDICTS = ("reproduced", "not reproduced", "not testable here")


@dataclass(frozen=True)
class ErrorRate:
    """An error rate and its interval in percent, nan where unknown; ``reason`` says why there is no number."""

    aer: float
    low: float
    high: float
    reason: str


@dataclass(frozen=True)
class StudyDataset:
    """The error rates of a dataset: rows of architecture, method and one cell per column."""

    name: str
    pair: tuple[str, ...]
    sentences: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[ErrorRate, ...]], ...]


@dataclass(frozen=True)
class StudySummary:
    """A study as its summary file tells it."""

    name: str
    title: str
    page: Path
    claims: dict[str, int]
    """How many claims have which verdict."""
    datasets: tuple[StudyDataset, ...]
    intervals: tuple[str, ...]


def summary_files(results: Path) -> list[Path]:
    """Returns the summaries of all studies of a results folder."""
    return sorted(results.glob(f"*/{SUMMARY}"))


def read_study(path: Path) -> StudySummary:
    """Returns a study; what is damaged raises InputError."""
    advice = "Make it again with: alignlens study."
    try:
        content = json.loads(path.read_bytes())
        return StudySummary(
            name=str(content["study"]),
            title=str(content["title"]),
            # The folder may have moved since the summary was written.
            page=path.parent / PAGE,
            claims={verdict: int(content["claims"][verdict]) for verdict in _VERDICTS},
            datasets=tuple(_dataset(entry) for entry in content["error_rates"]),
            intervals=tuple(map(str, content["intervals"])),
        )
    except FileNotFoundError:
        raise InputError("no such file.", path, advice=advice) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg}).", path, error.lineno, advice) from None
    except KeyError as error:
        raise InputError(f"{error} is missing.", path, advice=advice) from None
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not the summary of a study ({error}).", path, advice=advice) from None


def _dataset(entry: dict[str, Any]) -> StudyDataset:
    columns = tuple(map(str, entry["columns"]))
    rows = tuple(
        (str(row["architecture"]), str(row["method"]), tuple(_error_rate(cell) for cell in row["cells"]))
        for row in entry["rows"]
    )
    if any(len(cells) != len(columns) for _, _, cells in rows):
        raise ValueError(f"not every row has {len(columns)} cells")
    return StudyDataset(str(entry["dataset"]), tuple(map(str, entry["pair"])), int(entry["sentences"]), columns, rows)


def _error_rate(cell: dict[str, Any]) -> ErrorRate:
    aer, low, high = (math.nan if cell[name] is None else float(cell[name]) for name in ("mean", "low", "high"))
    return ErrorRate(aer, low, high, str(cell["reason"]))


def study_tables(study: StudySummary) -> list[Table]:
    """Returns a compact table per dataset: models and methods by direction and both directions combined."""
    return [_table(study, dataset) for dataset in study.datasets]


def _table(study: StudySummary, dataset: StudyDataset) -> Table:
    best = [
        min((round(cells[k].aer, 1) for _, _, cells in dataset.rows if not math.isnan(cells[k].aer)), default=math.nan)
        for k in range(len(dataset.columns))
    ]
    rows = [
        [Cell(architecture), Cell(method), *(_cell(cell, lowest) for cell, lowest in zip(cells, best, strict=True))]
        for architecture, method, cells in dataset.rows
    ]
    caption = (
        f"{study.name}, {dataset.name} ({' – '.join(dataset.pair)}, {dataset.sentences:,} test sentences): "
        "AER (%) of links read off models, forced decoding"
    )
    notes = [f"±: half width of the {'; '.join(study.intervals)}."] if study.intervals else []
    header = ("architecture", "method", *dataset.columns)
    return Table(f"{study.name}-aer-{dataset.name}", caption, header, rows, notes, labels=2)


def _cell(cell: ErrorRate, lowest: float) -> Cell:
    if math.isnan(cell.aer):
        return Cell(cell.reason or "–", muted=True)
    if math.isnan(cell.low) or math.isnan(cell.high):
        return Cell(f"{cell.aer:.1f}", cell.aer, strong=round(cell.aer, 1) == lowest)
    return Cell(
        f"{cell.aer:.1f} ±{(cell.high - cell.low) / 2:.1f}",
        cell.aer,
        strong=round(cell.aer, 1) == lowest,
        detail=f"AER {cell.aer:.2f} [{cell.low:.2f}, {cell.high:.2f}]",
    )


def claims_told(study: StudySummary) -> str:
    """Returns what became of the claims, in one line."""
    reproduced, missed, untested = (study.claims[verdict] for verdict in _VERDICTS)
    total = reproduced + missed + untested
    return f"{reproduced} of {total} claims reproduced, {missed} not, {untested} not testable here"


def studies_part(studies: Sequence[StudySummary], page: Path) -> list[dict[str, Any]]:
    """Returns what the template shows of the studies; links are relative to the folder of ``page``."""
    return [
        {
            "name": study.name,
            "title": study.title,
            "told": f"{claims_told(study)}.",
            "tables": [html(table) for table in study_tables(study)],
            "link": relative_link(study.page, page),
        }
        for study in studies
    ]


def relative_link(target: Path, page: Path) -> str:
    """Returns the address of a file for a link on a page."""
    relative = os.path.relpath(target.absolute(), page.absolute().parent)
    return quote(relative.replace(os.sep, "/"))
