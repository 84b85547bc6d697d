"""The tables of agreements in the layout of the paper: a task is a few rows, print above ours."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.runs import filter_of
from alignlens.studies.shown import NONE, difference, interval
from alignlens.studies.snell2021.agreements import LEAST_DISTINCT
from alignlens.studies.snell2021.layout import ACCURACY, KENDALL, ORDERS, REACHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.snell2021.layout import Layout
    from alignlens.studies.snell2021.tables import AgreementCell, AgreementLine, AgreementTable


def agreement_table(shown: AgreementTable, intervals: Sequence[str]) -> Table:
    """Returns a table with its printed numbers, ours, their intervals and the differences."""
    layout = shown.layout
    header = ("task", "", *(column.heading(layout.kind) for column in layout.columns))
    rows: list[list[Cell]] = []
    before = None
    for line in shown.lines:
        rows += _rows(line, layout, with_print=line.printed is not None and line.printed != before)
        before = line.printed
    caption = f"Table {layout.number}: {layout.title} ({layout.unit})"
    return Table(f"snell2021-{layout.number}", caption, header, rows, _notes(shown, intervals), labels=2)


def _rows(line: AgreementLine, layout: Layout, with_print: bool) -> list[list[Cell]]:
    digits, source = layout.digits, filter_of("agreement", task=str(line.task), split=f"{layout.split}*")
    name, shown = Cell(line.printed or str(line.task)), []
    if with_print:
        shown.append([name, Cell("print"), *(_printed(cell, digits) for cell in line.cells)])
    if line.task is None:
        return shown
    ours = f"ours ({line.task})" if line.printed and line.printed != line.task else "ours"
    shown.append([name, Cell(ours), *(replace(_ours(cell, digits), source=(source,)) for cell in line.cells)])
    if any(not math.isnan(cell.ours.low) for cell in line.cells):
        shown.append([name, Cell("interval", muted=True), *(interval(cell.ours, digits) for cell in line.cells)])
    if line.printed:
        apart = (difference(cell.difference, digits, strong=cell.agrees) for cell in line.cells)
        shown.append([name, Cell("ours − print", muted=True), *apart])
    return shown


def _printed(cell: AgreementCell, digits: int) -> Cell:
    if cell.printed is None:
        return NONE
    return Cell(f"{cell.printed.value:.{digits}f}{'*' * cell.printed.starred}", cell.printed.value)


def _ours(cell: AgreementCell, digits: int) -> Cell:
    if not cell.ours.known:
        return Cell(cell.ours.reason or "–", muted=True)
    details = [f"at update {int(cell.at):,}" if cell.at.isdecimal() else cell.at] if cell.at else []
    if math.isfinite(cell.distinct):
        details.append(f"{cell.distinct:.1f} different values in a row")
    # A probe with a single value agrees with everything, which means nothing.
    collapsed = cell.distinct < LEAST_DISTINCT
    return Cell(
        f"{cell.ours.mean:.{digits}f}{'*' * cell.starred}{'!' * collapsed}",
        cell.ours.mean,
        muted=collapsed,
        detail=", ".join(details),
    )


def _notes(shown: AgreementTable, intervals: Sequence[str]) -> list[str]:
    layout, columns = shown.layout, shown.layout.columns
    notes = []
    if any(line.printed and line.task for line in shown.lines):
        notes.append(
            "The difference is bold where the printed number lies within our interval. Ours may have fewer texts than "
            "the printed task; Table 9 has both."
        )
    if not any(line.task for line in shown.lines):
        notes.append("Nothing in this table was measured here: all numbers are printed ones.")
    if any(column.quantity in ORDERS for column in columns) and layout.kind != KENDALL:
        notes.append(
            "A is not symmetric. As released: u is the proxy (or the regression) and v the uniform probe, which is the "
            "order of the released code and of the printed numbers. As defined: the other way round, as the text "
            "writes it; the paper has no numbers for it."
        )
    if any(column.what == REACHED for column in columns):
        by = "BLEU" if layout.measure != ACCURACY else "accuracy"
        notes.append(
            f"ξ: {by} of a second run at the first checkpoint that agrees more with run A; an asterisk marks "
            "that none does; the number is then ξ*, the best of run A. ξ has no interval and depends on checkpoints."
        )
    notes.append("An agreement is the maximum over the checkpoints of the probe's run, on the same text.")
    if any(cell.distinct < LEAST_DISTINCT for line in shown.lines for cell in line.cells):
        notes.append("! The probe has a single value in most rows, so it agrees with everything.")
    if intervals:
        notes.append(f"Interval: {'; '.join(intervals)}.")
    return notes
