"""What the report shows of studies: the verdicts on their claims, and short tables of error rates."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from alignlens.display.render import Cell, Table, html
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.results.paths import STUDY
from alignlens.studies.claims import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignlens.results.manifest import Manifest

SUMMARY, PAGE = "summary.json", "index.html"


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
    caption: str = ""
    """What the numbers are, if they are no error rates: then none is the best."""
    labels: tuple[str, ...] = ("architecture", "method")


@dataclass(frozen=True)
class StudyFigure:
    """The figure that stands for a study on the front page: a file beside its page."""

    file: str
    caption: str


@dataclass(frozen=True)
class StudySummary:
    """A study as its summary file tells it."""

    name: str
    title: str
    lead: str
    page: Path
    claims: dict[str, int]
    """How many claims have which verdict."""
    datasets: tuple[StudyDataset, ...]
    intervals: tuple[str, ...]
    figure: StudyFigure | None = None


def summary_files(manifest: Manifest) -> list[Path]:
    """Returns the summaries of all studies."""
    return [path for path, names in manifest.find(STUDY) if names["file"] == SUMMARY]


def read_study(path: Path) -> StudySummary:
    """Returns a study; what is damaged raises InputError."""
    advice = "Delete it and make it again with: alignlens study, or run the pipeline again."
    content = read_json(path, advice)
    with taking(path, advice):
        claims = values.mapping(content, "claims")
        return StudySummary(
            name=values.text(content, "study"),
            title=values.text(content, "title"),
            lead=values.text(content, "lead"),
            # The folder may have moved since the summary was written.
            page=path.parent / PAGE,
            claims={verdict: values.whole(claims, verdict) for verdict in VERDICTS},
            datasets=tuple(_dataset(entry) for entry in values.mappings(content, "error_rates")),
            intervals=values.texts(content, "intervals"),
            figure=None if content["figure"] is None else _figure(values.mapping(content, "figure")),
        )


def _figure(entry: dict[str, Any]) -> StudyFigure:
    file = values.text(entry, "file")
    if PurePath(file).name != file:
        raise ValueError(f"{file!r} is not the name of a file")
    return StudyFigure(file, values.text(entry, "caption"))


def _dataset(entry: dict[str, Any]) -> StudyDataset:
    columns = values.texts(entry, "columns")
    rows = tuple(
        (values.text(row, "architecture"), values.text(row, "method"), tuple(map(_error_rate, row["cells"])))
        for row in values.mappings(entry, "rows")
    )
    if any(len(cells) != len(columns) for _, _, cells in rows):
        raise ValueError(f"not every row has {len(columns)} cells")
    sentences = values.whole(entry, "sentences")
    dataset = StudyDataset(values.text(entry, "dataset"), values.texts(entry, "pair"), sentences, columns, rows)
    if "caption" not in entry:
        return dataset
    labels = values.texts(entry, "labels")
    if len(labels) != len(dataset.labels):
        raise ValueError(f"not {len(dataset.labels)} labels")
    return replace(dataset, caption=values.text(entry, "caption"), labels=labels)


def _error_rate(cell: dict[str, Any]) -> ErrorRate:
    aer, low, high = (values.number_or_nan(cell, name, 0, 100) for name in ("mean", "low", "high"))
    return ErrorRate(aer, low, high, values.text(cell, "reason"))


def study_tables(study: StudySummary) -> list[Table]:
    """Returns a compact table per dataset: models and methods by direction and both directions combined."""
    return [_table(study, dataset) for dataset in study.datasets]


def _table(study: StudySummary, dataset: StudyDataset) -> Table:
    compared = [] if dataset.caption else dataset.rows
    best = [
        min((round(cells[k].aer, 1) for _, _, cells in compared if not math.isnan(cells[k].aer)), default=math.nan)
        for k in range(len(dataset.columns))
    ]
    rows = [
        [Cell(architecture), Cell(method), *(_cell(cell, lowest) for cell, lowest in zip(cells, best, strict=True))]
        for architecture, method, cells in dataset.rows
    ]
    caption = (
        f"{study.name}: {dataset.caption}"
        if dataset.caption
        else (
            f"{study.name}, {dataset.name} ({' – '.join(dataset.pair)}, {dataset.sentences:,} test sentences): "
            "AER (%) of links read off models, forced decoding"
        )
    )
    notes = [f"±: half width of the {'; '.join(study.intervals)}."] if study.intervals else []
    header = (*dataset.labels, *dataset.columns)
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
        detail=f"{cell.aer:.2f} [{cell.low:.2f}, {cell.high:.2f}]",
    )


def verdicts_in_words(study: StudySummary) -> str:
    """Returns the verdicts on the claims in one line."""
    reproduced, missed, undecided, untested = (study.claims[verdict] for verdict in VERDICTS)
    total = reproduced + missed + undecided + untested
    return (
        f"{reproduced} of {total} claims reproduced, {missed} not, {undecided} undecided, {untested} not testable here"
    )


def studies_part(studies: Sequence[StudySummary], page: Path) -> list[dict[str, Any]]:
    """Returns what the template shows of the studies; links are relative to the folder of ``page``."""
    return [
        {
            "name": study.name,
            "title": study.title,
            "verdicts": f"{verdicts_in_words(study)}.",
            "tables": [html(table) for table in study_tables(study)],
            "link": relative_link(study.page, page),
        }
        for study in studies
    ]


def relative_link(target: Path, page: Path) -> str:
    """Returns the address of a file for a link on a page."""
    relative = os.path.relpath(target.absolute(), page.absolute().parent)
    return quote(relative.replace(os.sep, "/"))
