"""Table 9 in the layout of the paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.shown import NONE, difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.snell2021.sizes import SizeLine

_NAMES = {"source": "source length", "target": "target length", "examples": "examples", "vocabulary": "vocabulary"}


def sizes_table(lines: Sequence[SizeLine]) -> Table:
    """Returns sizes of texts and vocabularies, print beside ours."""
    header = ["task", "ours", "text"]
    for name in _NAMES.values():
        header += [f"{name} print", f"{name} ours", f"{name} Δ"]
    rows = []
    for line in lines:
        row = [Cell(line.printed or str(line.task)), Cell(line.task or "–", muted=not line.task), Cell(line.split)]
        for printed, ours in (line.pairs()[name] for name in _NAMES):
            row += [_number(printed), _number(ours), difference(ours - printed, 0, strong=ours == printed)]
        rows.append(row)
    notes = [
        "Lengths are medians: words of classified texts, pieces of translated ones, without BEGIN and END.",
        "The paper has the same vocabulary for AG News and 20 NG; the printed number of parameters of 20 NG is that of "
        "a vocabulary of 12,488.",
    ]
    caption = "Table 9: texts, their median lengths, and vocabularies (numbers)"
    return Table("snell2021-9", caption, tuple(header), rows, notes, labels=3)


def _number(value: float) -> Cell:
    return NONE if math.isnan(value) else Cell(f"{value:,.10g}", value)
