"""Tables 2 to 8, 10 and 11: printed and measured agreements, cell by cell, without any form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.studies.snell2021.layout import LAYOUTS, MEASURED, NEEDED, ORDERS, STAR, printed_task
from alignlens.studies.snell2021.published import agreements
from alignlens.studies.tables import Estimate, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.studies.snell2021.agreements import Agreement
    from alignlens.studies.snell2021.layout import Column, Layout
    from alignlens.studies.snell2021.published import Printed

COLUMNS = (
    "table", "printed_task", "task", "what", "quantity", "order", "unit", "published", "published_starred", "ours",
    "low", "high", "difference", "starred", "at", "distinct", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class AgreementCell:
    """A number of ours beside print; an asterisk says that a second run never agrees as much."""

    column: Column
    printed: Printed | None
    ours: Estimate
    starred: bool = False
    at: str = ""
    distinct: float = math.nan

    @property
    def difference(self) -> float:
        """Ours minus print; nan where one of them is missing."""
        return math.nan if self.printed is None else self.ours.mean - self.printed.value

    @property
    def agrees(self) -> bool:
        """Whether print lies within our interval."""
        return self.printed is not None and self.ours.low <= self.printed.value <= self.ours.high


@dataclass(frozen=True)
class AgreementLine:
    """A task: what the paper calls it, if it has it, and what we do; one of the two may be missing."""

    printed: str | None
    task: str | None
    cells: tuple[AgreementCell, ...]


@dataclass(frozen=True)
class AgreementTable:
    """A table of the paper with ours beside it."""

    stem: str
    layout: Layout
    lines: tuple[AgreementLine, ...]


def agreement_tables(measured: Sequence[Agreement]) -> list[AgreementTable]:
    """Returns all tables of agreements; tasks of print first, in its order, then ours that it does not have."""
    return [AgreementTable(stem, layout, tuple(_lines(stem, layout, measured))) for stem, layout in LAYOUTS.items()]


def _lines(stem: str, layout: Layout, measured: Sequence[Agreement]) -> Iterator[AgreementLine]:
    printed, needed = agreements(stem), NEEDED.get(stem)
    ours = [
        each
        for each in measured
        if each.split == layout.split
        and layout.measure in each.measures
        and (needed is None or each.row(needed, layout.measure, layout.kind) is not None)
    ]
    for name in dict.fromkeys(task for task, _, _ in printed):
        of_name = [each for each in ours if printed_task(each.task) == name]
        if not of_name:
            yield AgreementLine(name, None, _cells(layout, printed, name, None))
        for each in of_name:
            yield AgreementLine(name, each.task, _cells(layout, printed, name, each))
    known = {task for task, _, _ in printed}
    for each in ours:
        if printed_task(each.task) not in known:
            yield AgreementLine(None, each.task, _cells(layout, printed, "", each))


def _cells(
    layout: Layout, printed: dict[tuple[str, str, str], Printed], name: str, agreement: Agreement | None
) -> tuple[AgreementCell, ...]:
    return tuple(
        _cell(layout, column, printed.get((name, column.what, column.quantity)), agreement) for column in layout.columns
    )


def _cell(layout: Layout, column: Column, printed: Printed | None, agreement: Agreement | None) -> AgreementCell:
    if agreement is None:
        return AgreementCell(column, printed, Estimate(reason="not run"))
    star = agreement.measures[layout.measure].star
    if column.what == STAR:
        return AgreementCell(column, printed, Estimate(star, seeds=1))
    row = agreement.row(column.quantity, layout.measure, layout.kind)
    if row is None:
        return AgreementCell(column, printed, Estimate(reason="not run"))
    if column.what == MEASURED:
        if math.isnan(row.value):
            return AgreementCell(column, printed, Estimate(reason="undefined"))
        value, low, high = (layout.scale * number for number in (row.value, row.low, row.high))
        ours = Estimate(value, low, high, seeds=1)
        return AgreementCell(column, printed, ours, at=row.at or "", distinct=row.distinct)
    never = math.isnan(row.xi)
    return AgreementCell(column, printed, Estimate(star if never else row.xi, seeds=1), starred=never)


def records(table: AgreementTable) -> list[dict[str, Any]]:
    """Returns one record per cell, keys in the order of COLUMNS; None where there is no number."""
    rows = []
    for line in table.lines:
        for cell in line.cells:
            values = (
                table.layout.number,
                line.printed or "",
                line.task or "",
                cell.column.what,
                cell.column.quantity,
                ORDERS.get(cell.column.quantity, ("", ""))[1],
                table.layout.unit,
                cell.printed.value if cell.printed else None,
                "yes" if cell.printed and cell.printed.starred else "no",
                *(rounded(value) for value in (cell.ours.mean, cell.ours.low, cell.ours.high, cell.difference)),
                "yes" if cell.starred else "no",
                cell.at,
                rounded(cell.distinct) if math.isfinite(cell.distinct) else None,
                cell.ours.reason,
            )
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
