"""Tables 1, 2 and 4 of Kobayashi et al. 2020 and the singular values, for one encoder beside print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.kobayashi2020.encoder_published import correlations, stated
from alignlens.studies.kobayashi2020.encoder_tables import (
    is_bert_base,
    is_pretrained,
    singular_table,
    table1,
    table2,
    table4,
)
from alignlens.studies.shown import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.kobayashi2020.encoder_published import PlacedSpread
    from alignlens.studies.kobayashi2020.encoder_tables import SpreadRow, Statistics

_FIGURES = {"mean": "mean", "deviation": "deviation", "cv": "CV", "max": "max", "min": "min"}
_RANKED = {"weights": "weight", "norms": "||f(x)||"}
_ROWS = {"largest": "largest CV", "smallest": "smallest CV", "average": "average"}


def encoder_tables(statistics: Statistics) -> dict[str, Table]:
    """Returns the tables by the name of their files."""
    return {
        "table1": _spreads(statistics, "1", "norms of transformed vectors ||f(x)|| by head", table1(statistics)),
        "table2": _correlations(statistics),
        "table4": _spreads(statistics, "4", "norms of the vectors x that attention reads by layer", table4(statistics)),
        "singular": _singular_values(statistics),
        "frequency": _frequency(statistics),
    }


def _name(statistics: Statistics, table: str) -> str:
    return f"kobayashi2020-{table}-{statistics['facts']['encoder'].replace(' ', '-')}"


def _caption(statistics: Statistics, title: str) -> str:
    facts = statistics["facts"]
    return (
        f"{facts['encoder']} ({facts['layers']} layers, {facts['heads']} heads; {facts['sequences']:,} sequences, "
        f"{facts['tokens']:,} tokens). {title}"
    )


def _spreads(statistics: Statistics, number: str, title: str, rows: Sequence[SpreadRow]) -> Table:
    beside = is_pretrained(statistics)
    header = (
        "",
        *(
            f"{side} {figure}"
            for side in (("print", "ours") if beside else ("ours",))
            for figure in ("at", *_FIGURES.values())
        ),
    )
    shown = [[Cell(_ROWS[row.name]), *(_spread(row.printed) if beside else []), *_spread(row.ours)] for row in rows]
    printed = "; ".join(
        f"{_ROWS[row.name]} {row.printed.spread.cv:.2f}, mean {row.printed.spread.mean:.2f}" for row in rows
    )
    caption = _caption(statistics, f"Table {number}: {title}")
    notes = ["CV: standard deviation over mean, for all tokens. Average: mean over heads or layers, not over tokens."]
    return Table(_name(statistics, number), caption, header, shown, [*notes, *_whose(statistics, printed)], labels=2)


def _spread(placed: PlacedSpread) -> list[Cell]:
    place = "" if placed.layer is None else f"layer {placed.layer}"
    place += "" if placed.head is None else f", head {placed.head}"
    return [Cell(place or "–", muted=not place), *(_number(getattr(placed.spread, name)) for name in _FIGURES)]


def _correlations(statistics: Statistics) -> Table:
    beside = is_pretrained(statistics)
    header = ("tokens", *(["print"] if beside else []), "ours", "triples", "sequences used")
    rows = [
        [
            Cell(row.category),
            *([_number(row.printed.rho if row.printed else None)] if beside else []),
            _number(row.rho),
            Cell(f"{row.triples:,}", row.triples),
            Cell("all" if row.exact else f"{row.sequences_used:,} of {row.sequences:,}", row.sequences_used),
        ]
        for row in table2(statistics)
    ]
    caption = _caption(statistics, "Table 2: rank correlation of attention weight and ||f(x)||")
    notes = [
        "Over all triples of query, key and head; if there are too many, over sequences spread evenly over the text."
    ]
    printed = ", ".join(f"{category} {item.rho:.2f}" for category, item in correlations().items())
    return Table(_name(statistics, "2"), caption, header, rows, [*notes, *_whose(statistics, printed)])


def _singular_values(statistics: Statistics) -> Table:
    beside = is_pretrained(statistics)
    ratios = ("smallest ratio", "mean ratio", "largest ratio", *(["print: smallest ratio"] if beside else []))
    header = ("layer", "largest", "smallest non-zero", *ratios)
    rows = [
        [
            Cell("all" if row.layer is None else str(row.layer), row.layer),
            *(_number(value) for value in (row.largest, row.smallest)),
            *(_number(value) for value in (row.smallest_ratio, row.mean_ratio, row.largest_ratio)),
            *([_number(row.printed_smallest_ratio)] if beside else []),
        ]
        for row in singular_table(statistics)
    ]
    caption = _caption(statistics, "Singular values of the affine map f of a head")
    notes = ["Ratio: largest over smallest non-zero singular value of one head, extremes and mean over heads."]
    printed = f"smallest ratio {stated()['smallest_singular_ratio']:g}"
    return Table(_name(statistics, "singular"), caption, header, rows, [*notes, *_whose(statistics, printed)])


def _frequency(statistics: Statistics) -> Table:
    frequency, printed, beside = statistics["frequency"], stated(), is_pretrained(statistics)
    rows = [
        [
            Cell(f"mean {name}"),
            *([_number(printed[f"frequency_rho_{key}"])] if beside else []),
            _number(frequency[f"rho_{key}"]),
        ]
        for key, name in _RANKED.items()
    ]
    caption = _caption(
        statistics, "Rank correlation of a token's frequency rank (1: most frequent) with its weight and norm"
    )
    source = statistics["facts"].get("frequency") or "none known for this vocabulary"
    counted = (
        f"{frequency['occurrences']:,} occurrences, {frequency['left_out']:,} without rank left out"
        if frequency
        else ""
    )
    header = ("", *(["print"] if beside else []), "ours")
    in_print = ", ".join(f"{name} {printed[f'frequency_rho_{key}']:.2f}" for key, name in _RANKED.items())
    notes = [f"Rank: {source}; {counted}.", *_whose(statistics, in_print)]
    return Table(_name(statistics, "frequency"), caption, header, rows, notes)


def _number(value: float | None) -> Cell:
    if value is None or math.isnan(value):
        return NONE
    return Cell(f"{value:.2f}", value)


def _whose(statistics: Statistics, printed: str) -> list[str]:
    """Returns whose the printed numbers are, and the numbers themselves where none stand beside ours."""
    if is_bert_base(statistics):
        return []
    if is_pretrained(statistics):
        return ["The printed numbers are for BERT-base, on another text."]
    return [f"This is the encoder of a translation model. In print, for BERT-base on English: {printed}."]
