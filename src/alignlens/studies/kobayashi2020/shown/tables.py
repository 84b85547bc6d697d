"""Table 3 of Kobayashi et al. 2020 with every way to choose a layer, and what END and the final period get."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.studies.kobayashi2020.heads import PRINTED
from alignlens.studies.kobayashi2020.layers import BEST, MEAN
from alignlens.studies.kobayashi2020.published import RELEASED, TEXT, error_rates
from alignlens.studies.kobayashi2020.runs import ALIGNERS, GRADIENTS, KINDS, STEPS
from alignlens.studies.kobayashi2020.shares import END, PERIOD
from alignlens.studies.kobayashi2020.table3 import is_printed
from alignlens.studies.shown import NONE, difference, interval, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results, ScoredDataset
    from alignlens.studies.kobayashi2020.heads import Correlation
    from alignlens.studies.kobayashi2020.shares import Share
    from alignlens.studies.kobayashi2020.table3 import Line, Measured, Table3

_EXTRACTIONS = {
    "kobayashi": "links by words, as in the paper: summed over source pieces, mean over target pieces, END may win",
    "ding": "links by pieces, as in Ding et al.: best source piece of every target piece, END left out",
}


def table3(shown: Table3, results: Results) -> Table:
    """Returns the table of one model: ours by direction, with what is in print beside that direction only."""
    header = ["scores", "step", "layer"]
    for direction in shown.dataset.directions:
        compared = is_printed(shown.dataset, direction)
        header += [f"{direction} text", f"{direction} released"] if compared else []
        header += [direction, f"{direction} CI", f"{direction} layers"]
        header += [f"{direction} Δ"] if compared else []
    rows = [_row(line, shown) for line in shown.lines]
    caption = (
        f"{shown.dataset.name} ({' – '.join(shown.dataset.pair)}, {shown.dataset.sentences:,} test sentences), "
        f"{shown.model}. Table 3, forced decoding: alignment error rate (%), {_EXTRACTIONS[shown.extraction]}"
    )
    return Table(
        f"kobayashi2020-3-{shown.dataset.name}-{shown.model}-{shown.extraction}",
        caption,
        tuple(header),
        rows,
        _notes(shown, results),
        labels=3,
    )


def _row(line: Line, shown: Table3) -> list[Cell]:
    oracle = line.selection == BEST
    row = [Cell(line.group), Cell(line.step or "–", muted=not line.step), Cell(line.label, muted=oracle)]
    for cell in line.cells:
        compared = is_printed(shown.dataset, cell.direction)
        row += [_printed(line.text), _printed(line.released)] if compared else []
        ours = replace(measured(cell.ours, 1), source=(cell.source,))
        row += [ours, interval(cell.ours, 1), _layers(cell)]
        if compared:
            agrees = cell.ours.low <= cell.ours.mean - cell.difference <= cell.ours.high
            row.append(difference(cell.difference, 1, strong=agrees))
    return row


def _printed(value: float) -> Cell:
    return NONE if math.isnan(value) else Cell(f"{value:.1f}", value)


def _layers(cell: Measured) -> Cell:
    if not cell.layers:
        return NONE
    return Cell(" ".join(map(str, dict.fromkeys(cell.layers))), fmean(cell.layers))


def _notes(shown: Table3, results: Results) -> list[str]:
    compared = any(is_printed(shown.dataset, direction) for direction in shown.dataset.directions)
    seeds = max((cell.ours.seeds for line in shown.lines for cell in line.cells), default=0)
    return [
        "AWO: a word is aligned at the step that predicts it; AWI: at the step that reads it, and so already knows it. "
        "The text of the paper does not say which one it means; only AWI comes near its numbers.",
        "The printed numbers are for German-English (text: one model; released: mean of five seeds). Δ is ours minus "
        "released, or minus the text where nothing was released."
        if compared
        else _in_print(),
        "Layers are counted from 1. The best layer is chosen on the same gold links that score it, as in the paper.",
        f"Ours: {'one seed' if seeds == 1 else f'mean over {seeds} seeds, each with its own layer'}.",
        "Aligners: links of this direction alone, as the printed numbers are; the test text is part of their training "
        "text.",
        *([f"CI: {'; '.join(results.intervals)}."] if results.intervals else []),
    ]


def _in_print() -> str:
    """Returns the printed numbers in words, for tables of other languages than theirs."""
    rates = error_rates()

    def layers(source: str, step: str) -> str:
        kinds = (
            (name, *(rates[row, selection, step][source] for selection in (BEST, MEAN))) for row, name in KINDS.items()
        )
        return "; ".join(f"{name} {best:.1f} and {mean:.1f}" for name, best, mean in kinds)

    others = [f"{label} {next(iter(rates[row, '', ''].values())):.1f}" for row, label in _others().items()]
    released = ". ".join(f"{name_of_step}: {layers(RELEASED, step)}" for step, name_of_step in STEPS.items())
    return (
        "The printed numbers are for German-English and cannot be compared with those of this text. Best layer and "
        f"mean over layers in the text: {layers(TEXT, '')}. In the released run, {released}. {', '.join(others)}."
    )


def _others() -> dict[str, str]:
    """Returns the rows of print that are not about layers."""
    return {**GRADIENTS, **{row: label.partition(" (")[0] for row, (_, label) in ALIGNERS.items()}}


def shares_table(dataset: str, shares: Sequence[Share]) -> Table:
    """Returns how much of weights and norms END and the final period get, by direction and layer, mean over seeds."""
    places = dict.fromkeys((share.model, share.direction, share.layer) for share in shares)
    rows = []
    for model, direction, layer in places:
        row = [Cell(model), Cell(direction), Cell(str(layer), layer)]
        for piece in (END, PERIOD):
            of_piece = [
                s for s in shares if (s.model, s.direction, s.layer, s.piece) == (model, direction, layer, piece)
            ]
            if not of_piece:
                row += [NONE] * 3
                continue
            weights, norms = fmean(share.weights for share in of_piece), fmean(share.norms for share in of_piece)
            row += [Cell(f"{100 * weights:.1f}", weights), Cell(f"{100 * norms:.1f}", norms)]
            row.append(Cell(f"{weights / norms:.2f}", weights / norms, strong=weights > norms))
        rows.append(row)
    header = (
        "model",
        "direction",
        "layer",
        *(f"{p} {what}" for p in (END, PERIOD) for what in ("weight", "norm", "ratio")),
    )
    caption = f"{dataset}. Shares of END and of a final period in the weights and norms of a target piece (%)"
    notes = [
        "Means over target pieces, step AWO; for the period, over sentences that end with one. Ratio: weight over norm."
    ]
    return Table(f"kobayashi2020-shares-{dataset}", caption, header, rows, notes, labels=2)


def heads_table(correlations: Sequence[Correlation], dataset: ScoredDataset) -> Table:
    """Returns how the error rate of heads goes with their mean norm, with the released run beside its direction."""
    rows = [
        [
            Cell(entry.dataset),
            Cell(entry.model),
            Cell(entry.direction),
            Cell(entry.step),
            Cell(f"{entry.printed:.2f}", entry.printed) if is_printed(dataset, entry.direction) else NONE,
            Cell("undefined", muted=True) if math.isnan(entry.rho) else Cell(f"{entry.rho:.2f}", entry.rho),
            Cell(str(entry.heads), entry.heads),
        ]
        for entry in correlations
    ]
    header = ("dataset", "model", "direction", "step", "released", "ours", "heads")
    printed = ", ".join(f"{step} {rho:.2f}" for step, rho in PRINTED.items())
    notes = [
        "Rank correlation over the heads of all layers, mean over seeds; links by words, from norms.",
        f"Released run (German-English, mean of five seeds): {printed}.",
    ]
    caption = "Heads: error rate against mean norm. Negative: heads with long vectors align better"
    return Table("kobayashi2020-heads", caption, header, rows, notes, labels=4)
