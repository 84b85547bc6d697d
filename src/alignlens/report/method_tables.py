"""The table that compares methods across studies: error rates, links and cost, by model and direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse, plain
from alignlens.display.render import Cell, Table
from alignlens.report.tables import labels_of
from alignlens.results.protocol import ARCHITECTURES, BIDIR, DING, GROW_DIAG_FINAL
from alignlens.studies.tables import Estimate, estimate_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from alignlens.report.methods import Compared, MethodCost
    from alignlens.results.scores import Score, ScoredAligner, ScoredDataset

_ALIGNERS = "aligners"
_NONE = Cell("–", muted=True)


@dataclass(frozen=True)
class _Quality:
    """How good the links of a cell are, in percent, and how many there are; means over seeds."""

    aer: Estimate
    precision: float
    recall: float
    links: float


@dataclass(frozen=True)
class _Line:
    """A row: by the name of links how good they are, and by direction what the method costs (None: no method)."""

    group: str
    label: Cell
    qualities: dict[str, _Quality]
    costs: list[MethodCost] | None = None


def methods_table(dataset: ScoredDataset, compared: Compared, scored: Sequence[ScoredAligner]) -> Table:
    """Returns every model and method of a dataset, then its word aligners, by direction and both combined."""
    lines = [*_method_lines(dataset, compared), *_aligner_lines(dataset, scored)]
    there = {links for line in lines for links in line.qualities}
    columns = {name: name for name in dataset.directions} | {BIDIR: GROW_DIAG_FINAL}
    columns = {name: links for name, links in columns.items() if links in there}
    best = {links: _lowest(line.qualities[links] for line in lines if links in line.qualities) for links in there}
    rows = [
        [
            Cell(line.group),
            line.label,
            *(cell for links in columns.values() for cell in _quality_cells(line.qualities.get(links), best[links])),
            *_cost_cells(line.costs),
        ]
        for line in lines
    ]
    header = (
        "model",
        "method",
        *(part for name in columns for part in (f"{name} AER", "P", "R", "links")),
        "seconds per 100",
        "passes per sentence",
    )
    caption = (
        f"{dataset.name} ({' – '.join(dataset.pair)}, {dataset.sentences:,} test sentences): every method, models "
        "with the reference (forced decoding)"
    )
    return Table(f"methods-{dataset.name}", caption, header, rows, _notes(dataset, compared, lines), labels=2)


def _method_lines(dataset: ScoredDataset, compared: Compared) -> list[_Line]:
    protocol = compared.results.protocol
    usual = plain(protocol.sigma, protocol.samples)
    lines = []
    for model, architecture in compared.models(dataset.name).items():
        title = ARCHITECTURES.get(architecture, architecture)
        group = title if model == architecture else f"{title} ({model})"
        for method in compared.methods(dataset.name, model):
            parsed = parse(method)
            label = Cell(parsed.name if method in usual else method, detail=f"{method}: {parsed.spec.summary}")
            qualities = {
                links: _quality(scores)
                for links in (*dataset.directions, GROW_DIAG_FINAL)
                if (scores := compared.scores(dataset.name, model, method, links))
            }
            lines.append(_Line(group, label, qualities, compared.costs_of(dataset.name, model, method)))
    return lines


def _quality(scores: Sequence[Score]) -> _Quality:
    bounds = [score.low for score in scores], [score.high for score in scores]
    precision, recall = (
        estimate_of([getattr(score, name) for score in scores]).mean for name in ("precision", "recall")
    )
    links = fmean(score.links_count for score in scores)
    return _Quality(estimate_of([score.aer for score in scores], *bounds), precision, recall, links)


def _aligner_lines(dataset: ScoredDataset, scored: Sequence[ScoredAligner]) -> list[_Line]:
    labels = labels_of(dataset.name, scored)
    return [
        _Line(_ALIGNERS, Cell(labels[item.id]), {row.links: _of_aligner(row) for row in item.rows})
        for item in scored
        if item.id.dataset == dataset.name
    ]


def _of_aligner(row: Score) -> _Quality:
    return _Quality(estimate_of([row.aer], [row.low], [row.high]), row.precision, row.recall, float(row.links_count))


def _lowest(qualities: Iterable[_Quality]) -> float:
    """Returns the lowest error rate as it is printed, or nan."""
    return min((round(quality.aer.mean, 1) for quality in qualities if quality.aer.known), default=math.nan)


def _quality_cells(quality: _Quality | None, best: float) -> list[Cell]:
    if quality is None:
        return [Cell("not scored", muted=True), _NONE, _NONE, _NONE]
    return [
        _error_cell(quality.aer, best),
        *(_NONE if math.isnan(value) else Cell(f"{value:.1f}", value) for value in (quality.precision, quality.recall)),
        Cell(f"{quality.links:,.0f}", quality.links),
    ]


def _error_cell(aer: Estimate, best: float) -> Cell:
    if not aer.known:
        return Cell("undefined", muted=True)
    half_width = (aer.high - aer.low) / 2
    width = "" if math.isnan(half_width) else f" ±{half_width:.1f}"
    spread = "" if math.isnan(aer.spread) else f" ({aer.spread:.1f})"
    runs = f", {aer.seeds} runs" if aer.seeds > 1 else ""
    detail = f"AER {aer.mean:.2f} [{aer.low:.2f}, {aer.high:.2f}]{runs}"
    return Cell(f"{aer.mean:.1f}{width}{spread}", aer.mean, strong=round(aer.mean, 1) == best, detail=detail)


def _cost_cells(costs: Sequence[MethodCost] | None) -> list[Cell]:
    """Returns seconds and passes, means over directions."""
    if costs is None:
        return [_NONE, _NONE]
    if not costs:
        return [Cell("not measured", muted=True), _NONE]
    seconds = fmean(cost.seconds for cost in costs)
    detail = "; ".join(
        f"{cost.direction}: {cost.seconds:.2f}, CPU time {cost.cpu_seconds:.2f} ({cost.sentences} sentences)"
        for cost in costs
    )
    forward, backward = (fmean(getattr(cost, f"{way}_passes") for cost in costs) for way in ("forward", "backward"))
    passes = f"{_short(forward)} F" + (f" + {_short(backward)} B" if backward else "")
    return [
        Cell(f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.1f}", seconds, detail=detail),
        Cell(passes, forward + backward),
    ]


def _short(passes: float) -> str:
    return f"{passes:,.0f}" if passes >= 100 or passes == round(passes) else f"{passes:.1f}"


def _notes(dataset: ScoredDataset, compared: Compared, lines: Sequence[_Line]) -> list[str]:
    protocol = compared.results.protocol
    notes = [
        "AER, precision (P) and recall (R) are in percent; P, R and the number of links belong to the AER before them. "
        "The lowest AER of each column is bold."
    ]
    if compared.results.intervals:
        notes.append(f"±: half width of the {'; '.join(compared.results.intervals)}.")
    if any(quality.aer.seeds > 1 for line in lines for quality in line.qualities.values()):
        notes.append("Means over model and noise seeds; in brackets the standard deviation of the AER over them.")
    notes.append(
        f"Links of models are extracted by {DING}; {BIDIR} is {GROW_DIAG_FINAL}, for aligners too. Smoothed methods "
        f"have {protocol.samples} copies with σ = {protocol.sigma:g} unless their name says otherwise."
    )
    if costs := [cost for cost in compared.costs if cost.dataset == dataset.name]:
        notes.append(_how_measured(costs))
    return notes


def _how_measured(costs: Sequence[MethodCost]) -> str:
    counts = sorted({cost.sentences for cost in costs})
    threads = sorted({cost.threads for cost in costs})
    sentences = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    on_threads = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return (
        "Seconds per 100 sentences and passes (F forward, B backward, counted during the run) are those of each method "
        f"alone, on {on_threads}, after a warm-up, with the first seed and {sentences} evenly spaced test sentences, "
        "averaged over directions. Other jobs may have run at the same time; point at the seconds to see the CPU time."
    )


def methods_form(compared: Compared, scored: Sequence[ScoredAligner]) -> pd.DataFrame:
    """Returns one record per model, seed, method, noise seed, extraction and links, then those of the aligners.

    Cost stands where it was measured: with a direction of the first seed.
    """
    import pandas as pd

    names = {dataset.name for dataset in compared.datasets}
    labels = {run: label for name in names for run, label in labels_of(name, scored).items()}
    records = [record for dataset in compared.datasets for record in _method_records(dataset.name, compared)]
    records += [
        {
            "dataset": item.id.dataset, "method": labels[item.id], "links": row.links, "aer": row.aer,
            "aer_low": row.low, "aer_high": row.high, "precision": row.precision, "recall": row.recall,
            "links_count": row.links_count,
        }
        for item in scored
        if item.id.dataset in names
        for row in item.rows
    ]  # fmt: skip
    frame = pd.DataFrame.from_records(records, columns=_COLUMNS).round(4)
    return frame.astype(dict.fromkeys(("noise_seed", "links_count", "sentences_timed"), "Int64"))


_COLUMNS = [
    "dataset", "model", "architecture", "seed", "method", "noise_seed", "extraction", "links", "aer", "aer_low",
    "aer_high", "precision", "recall", "links_count", "entropy", "seconds_per_100", "cpu_seconds_per_100",
    "forward_passes", "backward_passes", "sentences_timed",
]  # fmt: skip


def _method_records(dataset: str, compared: Compared) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset, "model": run.model, "architecture": run.architecture, "seed": run.seed,
            "method": method, "noise_seed": score.noise_seed, "extraction": extraction, "links": links,
            "aer": score.aer, "aer_low": score.low, "aer_high": score.high, "precision": score.precision,
            "recall": score.recall, "links_count": score.links_count, "entropy": score.entropy,
            **_cost_columns(compared.costs_of(dataset, run.model, method), run.seed, links),
        }
        for run in compared.runs(dataset)
        for shown in [compared.methods(dataset, run.model)]
        for (method, extraction, links), scores in run.scores.items()
        if method in shown
        for score in scores
    ]  # fmt: skip


def _cost_columns(costs: Sequence[MethodCost], seed: str, direction: str) -> dict[str, float]:
    return next(
        (
            {
                "seconds_per_100": cost.seconds, "cpu_seconds_per_100": cost.cpu_seconds,
                "forward_passes": cost.forward_passes, "backward_passes": cost.backward_passes,
                "sentences_timed": cost.sentences,
            }
            for cost in costs
            if (cost.seed, cost.direction) == (seed, direction)
        ),
        {},
    )  # fmt: skip
