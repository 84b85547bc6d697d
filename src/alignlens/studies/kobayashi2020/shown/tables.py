"""Table 3 of Kobayashi et al. 2020 with every way to choose a layer, and what END and the final period get."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.kobayashi2020.layers import BEST
from alignlens.studies.kobayashi2020.published import DIRECTION, PAIR
from alignlens.studies.kobayashi2020.shares import END, PERIOD
from alignlens.studies.shown import NONE, difference, interval, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.kobayashi2020.heads import Correlation
    from alignlens.studies.kobayashi2020.shares import Share
    from alignlens.studies.kobayashi2020.table3 import Line, Measured, Table3

_EXTRACTIONS = {
    "kobayashi": "links by words, as in the paper: summed over source pieces, mean over target pieces, END may win",
    "ding": "links by pieces, as in Ding et al.: best source piece of every target piece, END left out",
}


def table3(shown: Table3, results: Results) -> Table:
    """Returns the table of one model: what is in print for German-English, and ours by direction."""
    compared = shown.dataset.published == PAIR
    header = ["scores", "step", "layer", "text", "released"]
    for direction in shown.dataset.directions:
        header += [direction, f"{direction} CI", f"{direction} layers"]
        header += [f"{direction} Δ"] if compared and direction == DIRECTION else []
    rows = [_row(line, shown, compared) for line in shown.lines]
    caption = (
        f"{shown.dataset.name} ({' – '.join(shown.dataset.pair)}, {shown.dataset.sentences:,} test sentences), "
        f"{shown.model}. Table 3, forced decoding: alignment error rate (%), {_EXTRACTIONS[shown.extraction]}"
    )
    return Table(
        f"kobayashi2020-3-{shown.dataset.name}-{shown.model}-{shown.extraction}",
        caption,
        tuple(header),
        rows,
        _notes(shown, results, compared),
        labels=3,
    )


def _row(line: Line, shown: Table3, compared: bool) -> list[Cell]:
    oracle = line.selection == BEST
    row = [Cell(line.group), Cell(line.step or "–", muted=not line.step), Cell(line.label, muted=oracle)]
    row += [_printed(line.text), _printed(line.released)]
    for cell in line.cells:
        row += [measured(cell.ours, 1), interval(cell.ours, 1), _layers(cell)]
        if compared and cell.direction == DIRECTION:
            agrees = cell.ours.low <= cell.ours.mean - cell.difference <= cell.ours.high
            row.append(difference(cell.difference, 1, strong=agrees))
    return row


def _printed(value: float) -> Cell:
    return NONE if math.isnan(value) else Cell(f"{value:.1f}", value)


def _layers(cell: Measured) -> Cell:
    if not cell.layers:
        return NONE
    return Cell(" ".join(map(str, dict.fromkeys(cell.layers))), fmean(cell.layers))


def _notes(shown: Table3, results: Results, compared: bool) -> list[str]:
    seeds = max((cell.ours.seeds for line in shown.lines for cell in line.cells), default=0)
    return [
        "AWO: the step that predicts a word stands for it; AWI: the step that reads it, which knows the word already. "
        "The text of the paper does not say which one it means; its numbers are in reach of AWI only.",
        "Printed numbers are of German-English (text: one model; released: mean of five seeds)"
        + ("; Δ is ours minus released." if compared else ", another text than this one, so that they are no target."),
        "Layers are counted from 1. The best layer is chosen on the very links that score it, as in the paper.",
        f"Ours: {'one seed' if seeds == 1 else f'mean over {seeds} seeds, each with its own layer'}.",
        "Aligners: both directions combined by grow-diag, the same number in every column.",
        *([f"CI: {'; '.join(results.intervals)}."] if results.intervals else []),
    ]


def shares_table(dataset: str, found: Sequence[Share]) -> Table:
    """Returns how much of weights and norms END and the final period get, by direction and layer, mean over seeds."""
    places = dict.fromkeys((share.model, share.direction, share.layer) for share in found)
    rows = []
    for model, direction, layer in places:
        row = [Cell(model), Cell(direction), Cell(str(layer), layer)]
        for piece in (END, PERIOD):
            mine = [s for s in found if (s.model, s.direction, s.layer, s.piece) == (model, direction, layer, piece)]
            if not mine:
                row += [NONE] * 3
                continue
            weights, norms = fmean(share.weights for share in mine), fmean(share.norms for share in mine)
            row += [Cell(f"{100 * weights:.1f}", weights), Cell(f"{100 * norms:.1f}", norms)]
            row.append(Cell(f"{weights / norms:.2f}", weights / norms, strong=weights > norms))
        rows.append(row)
    header = (
        "model",
        "direction",
        "layer",
        *(f"{p} {what}" for p in (END, PERIOD) for what in ("weight", "norm", "ratio")),
    )
    caption = f"{dataset}. What END and a final period get of a target piece's weights and norms (%)"
    notes = [
        "Mean over target pieces, step AWO; the period over the sentences that end with one. Ratio: weight by norm."
    ]
    return Table(f"kobayashi2020-shares-{dataset}", caption, header, rows, notes, labels=2)


def heads_table(found: Sequence[Correlation]) -> Table:
    """Returns how the error rate of heads goes with their mean norm."""
    rows = [
        [
            Cell(entry.dataset),
            Cell(entry.model),
            Cell(entry.direction),
            Cell(entry.step),
            NONE if math.isnan(entry.printed) else Cell(f"{entry.printed:.2f}", entry.printed),
            Cell("undefined", muted=True) if math.isnan(entry.rho) else Cell(f"{entry.rho:.2f}", entry.rho),
            Cell(str(entry.heads), entry.heads),
        ]
        for entry in found
    ]
    header = ("dataset", "model", "direction", "step", "released", "ours", "heads")
    notes = ["Rank correlation over the heads of all layers, mean over seeds; links of norms, by words."]
    caption = "Heads: error rate against mean norm. Negative: heads with long vectors align better"
    return Table("kobayashi2020-heads", caption, header, rows, notes, labels=4)
