"""The tables of the study of Ding et al. 2019 in the form of the paper, each cell printed and measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.results.paths import FINAL, FORCED, FREE, TEST
from alignlens.results.protocol import BIDIR, DING, GROW_DIAG, GROW_DIAG_FINAL, KOBAYASHI
from alignlens.studies.ding2019.layout import NOISY
from alignlens.studies.runs import filter_of
from alignlens.studies.shown import NONE, difference, interval, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.ding2019.causes import CauseTable
    from alignlens.studies.tables import StudyCell, StudyLine, StudyTable

_TITLES = {
    "1": "Table 1, forced decoding: alignment error rate (%)",
    "2": "Table 2, free decoding: alignment error rate (%) against the links of fast_align online",
    "3": "Table 3: entropy (nats) of the scores of a target piece, by noise level σ",
    "variants": "Variants, forced decoding: alignment error rate (%) and what each changes",
}
_PARTS = {
    "1": ("print", "ours", "CI", "Δ"),
    "2": ("print", "ours", "CI", "Δ"),
    "3": ("print", "ours", "Δ"),
    "variants": ("ours", "CI", "Δ"),
}
_AGREES = "The difference is ours minus print, bold where the printed number lies within our interval."


def study_table(shown: StudyTable, results: Results) -> Table:
    """Returns a table: two columns of names, then what is known of every column; print where there is any."""
    error_rates = shown.table in ("1", "2")
    parts = _PARTS[shown.table]
    if shown.dataset.published is None and shown.table != "variants":
        parts = tuple(part for part in parts if part in ("ours", "CI"))
    names = [_column_name(shown.table, column) for column in shown.columns]
    header = (
        "architecture",
        "method" if shown.table != "3" else "decoding",
        *(f"{name} {part}" if len(parts) > 1 else name for name in names for part in parts),
    )
    digits = 2 if shown.table == "3" else 1
    rows = []
    for line in shown.lines:
        cells = [
            cell for entry in line.cells for cell in _cells(entry, parts, digits, _source(shown, line, entry, results))
        ]
        rows.append([Cell(line.group), Cell(line.label), *cells])
    pair = " – ".join(shown.dataset.pair)
    caption = f"{shown.dataset.name} ({pair}, {shown.dataset.sentences:,} test sentences). {_TITLES[shown.table]}"
    notes = _notes(shown, results, error_rates)
    name = f"ding2019-{shown.table}-{shown.dataset.name}"
    return Table(name, caption, header, rows, notes, labels=2, wraps=shown.table == "3")


def causes_table(shown: CauseTable, results: Results) -> Table:
    """Returns how often each method points at a true cause, and how often chance would."""
    best = max((round(line.hits.mean, 1) for line in shown.lines if line.hits.known), default=math.nan)
    rows = [
        [
            Cell(line.group),
            Cell(line.label),
            replace(measured(line.hits, 1), strong=round(line.hits.mean, 1) == best),
            interval(line.hits, 1),
            NONE if math.isnan(line.chance) else Cell(f"{line.chance:.1f}", line.chance),
        ]
        for line in shown.lines
    ]
    caption = (
        f"{shown.dataset.name} ({shown.direction}, forced decoding). True causes (embedded corpus): "
        "linked target words whose source word is a cause (%)"
    )
    notes = [
        "The text was generated, so the source words that determined a target word are known. A word with several "
        "links counts as the share of its links that are causes. By chance: a source word picked at random for each of "
        "the same target words.",
        *([f"CI: {'; '.join(results.intervals)}."] if results.intervals else []),
    ]
    header = ("architecture", "method", "hits", "CI", "by chance")
    return Table(f"ding2019-causes-{shown.dataset.name}", caption, header, rows, notes, labels=2)


def _column_name(table: str, column: str) -> str:
    if table != "3":
        return column
    return column if column == "attention" else f"σ={column}"


def _source(shown: StudyTable, line: StudyLine, cell: StudyCell, results: Results) -> str:
    """Returns the filter of the runs that a number of ours comes from."""
    dataset = shown.dataset.name
    if line.architecture == "aligner":
        aligner, text, symmetrization = [*line.method.split(" "), "", ""][:3]
        links = symmetrization if cell.column == BIDIR else cell.column
        return filter_of("score", dataset=dataset, aligner=aligner, text=text, links=links)
    method, direction = line.method, cell.column
    decoding = FREE if shown.table == "2" else FORCED
    if shown.table == "3":
        decoding, direction = line.label.split(", ")
        sigma = cell.column
        method = results.protocol.method(sigma) if sigma == "attention" else results.protocol.at_sigma(float(sigma))
    extraction = KOBAYASHI if method.endswith(f".{KOBAYASHI}") else DING
    of_model = {"dataset": dataset, "model": line.model, "decoding": decoding, "split": TEST, "weights": FINAL}
    what = {"method": method.removesuffix(f".{KOBAYASHI}"), "extraction": extraction, "direction": direction}
    return filter_of("attribution", **of_model, **what)


def _cells(cell: StudyCell, parts: Sequence[str], digits: int, source: str) -> list[Cell]:
    cells = {
        "print": _printed(cell, digits),
        "ours": replace(measured(cell.ours, digits), source=(source,)),
        "CI": interval(cell.ours, digits),
        "Δ": difference(cell.difference, digits, strong=cell.printed is not None and cell.agrees),
    }
    return [cells[part] for part in parts]


def _printed(cell: StudyCell, digits: int) -> Cell:
    if cell.printed is None:
        return NONE
    quoted = not cell.printed.provenance.startswith("run by")
    star = "*" if cell.printed.tuned else ""
    text = f"{cell.printed.value:.{digits}f}{star}"
    return Cell(text, cell.printed.value, muted=quoted, detail=cell.printed.provenance)


def _notes(shown: StudyTable, results: Results, error_rates: bool) -> list[str]:
    notes = []
    if shown.dataset.published is None and shown.table != "variants":
        notes.append("The paper has no numbers for this text.")
    elif error_rates:
        notes.append(_AGREES)
    if results.intervals and shown.table != "3":
        notes.append(f"CI: {'; '.join(results.intervals)}.")
    notes.append(_seeds_note(shown, results))
    if shown.table == "1":
        notes += [
            f"bidir is {GROW_DIAG_FINAL} for models. The paper quotes aligners with {GROW_DIAG}, except fast_align "
            f"online, which its authors ran with {GROW_DIAG_FINAL}. Rows named with or without final have the "
            "other one.",
            "GIZA++ is IBM4 here, Zenkel et al. is in print only, and eflomal is not in the paper."
            if shown.dataset.published
            else "GIZA++ is IBM4 here, and eflomal is not in the paper.",
        ]
    if any(cell.printed and cell.printed.tuned for line in shown.lines for cell in line.cells):
        notes.append("* The authors chose noise and copies on sentences of this cell.")
    if any(
        cell.printed and not cell.printed.provenance.startswith("run by") for line in shown.lines for cell in line.cells
    ):
        notes.append("Printed numbers in italics are quoted from elsewhere.")
    if shown.table == "3":
        notes.append("Mean over the pieces of a sentence, then over sentences, END included.")
    if shown.table == "variants":
        notes.append(
            "Δ is the difference from the row of Table 1 that is varied, with the same noise. Absolute product: "
            "|e·g|, where Li et al. take the mean of |g|. Links by words: scores are summed over source pieces and "
            "averaged over target pieces, and END may win. True gradient: without the scaling of the encoder's "
            "gradient that FConv has in training."
        )
    return [note for note in notes if note]


def _seeds_note(shown: StudyTable, results: Results) -> str:
    decodings = {"1": (FORCED,), "2": (FREE,), "variants": (FORCED,)}.get(shown.table, (FORCED, FREE))
    runs = [run for decoding in decodings for run in results.runs(shown.dataset.name, decoding=decoding)]
    if not runs:
        return ""
    seeds = len({run.seed for run in runs})
    noise = {
        score.noise_seed
        for run in runs
        for (method, _, _), scores in run.scores.items()
        if method in {results.protocol.method(name) for name in NOISY}
        for score in scores
    }
    averaged = (
        f"{seeds} model seed{'' if seeds == 1 else 's'} and {len(noise)} noise seed{'' if len(noise) == 1 else 's'}"
    )
    noisy = f"σ = {results.protocol.sigma:g}, n = {results.protocol.samples}"
    if seeds == 1 and len(noise) <= 1:
        return f"Ours: one model seed and one noise seed (noise: {noisy})."
    return f"Ours: mean over {averaged} (noise: {noisy}); ± is the standard deviation over them."
