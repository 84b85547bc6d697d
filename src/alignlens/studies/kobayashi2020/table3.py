"""Table 3: weights and norms by ways to choose a layer, beside gradients and word aligners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.results.paths import FINAL, FORCED, TEST
from alignlens.studies.kobayashi2020 import published
from alignlens.studies.kobayashi2020.layers import MEAN, SELECTIONS
from alignlens.studies.kobayashi2020.runs import ALIGNERS, GRADIENTS, KINDS, STEPS, layer_method
from alignlens.studies.runs import filter_of
from alignlens.studies.tables import Estimate, estimate_of, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.results.scores import Results, ScoredDataset
    from alignlens.studies.kobayashi2020.layers import Curve

COLUMNS = (
    "dataset", "model", "extraction", "group", "row", "step", "selection", "direction", "print_text", "print_released",
    "ours", "low", "high", "difference", "seeds", "spread", "layers", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Ours in one direction; ``layers`` are those chosen, one per seed, counted from 1."""

    direction: str
    ours: Estimate
    layers: tuple[int, ...] = ()
    difference: float = math.nan
    source: str = ""
    """The filter of the runs that ours comes from."""


@dataclass(frozen=True)
class Line:
    """One row; the numbers of the text and of the released run are German-English, whatever the dataset."""

    group: str
    row: str
    label: str
    step: str
    selection: str
    text: float
    released: float
    cells: tuple[Measured, ...]


@dataclass(frozen=True)
class Table3:
    """The table of one model, with links read off in one way."""

    dataset: ScoredDataset
    model: str
    extraction: str
    lines: tuple[Line, ...]


def tables(results: Results, curves: Sequence[Curve]) -> list[Table3]:
    """Returns the tables of all models, those of the paper's own extraction first."""
    datasets = {dataset.name: dataset for dataset in results.datasets}
    places = dict.fromkeys((curve.setting.dataset, curve.setting.model, curve.setting.extraction) for curve in curves)
    built = []
    for dataset, model, extraction in sorted(places, key=lambda place: (place[0], place[1], place[2] == "ding")):
        own = [
            curve
            for curve in curves
            if (curve.setting.dataset, curve.setting.model, curve.setting.extraction) == (dataset, model, extraction)
        ]
        about = results, datasets[dataset], model
        lines = (*_layers(datasets[dataset], own), *_gradients(*about, extraction), *_aligners(*about[:2]))
        built.append(Table3(datasets[dataset], model, extraction, lines))
    return built


def _layers(dataset: ScoredDataset, curves: Sequence[Curve]) -> Iterator[Line]:
    by_setting = {(curve.setting.kind, curve.setting.step, curve.setting.direction): curve for curve in curves}
    for kind, step in ((kind, step) for kind in KINDS for step in STEPS):
        for selection, label in SELECTIONS.items():
            text, released = _printed(kind, selection, step)
            cells = []
            for direction in dataset.directions:
                curve = by_setting.get((kind, step, direction))
                if curve is None:
                    cells.append(Measured(direction, Estimate(reason="no model")))
                    continue
                layers = () if selection == MEAN else tuple(n + 1 for n in curve.chosen(selection).values())
                ours = curve.estimate(selection)
                wanted = [number - 1 for number in layers] or range(curve.depth)
                names = "|".join(dict.fromkeys(layer_method(kind, number, step) for number in wanted))
                source = _attribution(dataset, curve.setting.model, names, curve.setting.extraction, direction)
                away = _difference(dataset, direction, ours, released)
                cells.append(Measured(direction, ours, layers, away, source))
            yield Line(KINDS[kind], kind, label, STEPS[step], selection, text, released, tuple(cells))


def _gradients(results: Results, dataset: ScoredDataset, model: str, extraction: str) -> Iterator[Line]:
    for name, label in GRADIENTS.items():
        text, _ = _printed(name, "", "")
        method = results.protocol.method(name)
        runs = [run for run in results.runs(dataset.name, decoding=FORCED) if run.model == model]
        cells = []
        for direction in dataset.directions:
            scores = [score for run in runs for score in run.find(method, direction, extraction)]
            bounds = [score.low for score in scores], [score.high for score in scores]
            ours = estimate_of([score.aer for score in scores], *bounds, reason="not run")
            away = _difference(dataset, direction, ours, text)
            source = _attribution(dataset, model, method, extraction, direction)
            cells.append(Measured(direction, ours, difference=away, source=source))
        yield Line("gradients", name, label, STEPS["out"], "", text, math.nan, tuple(cells))


def _aligners(results: Results, dataset: ScoredDataset) -> Iterator[Line]:
    for row, (name, label) in ALIGNERS.items():
        text, _ = _printed(row, "", "")
        run = results.aligner(dataset.name, name, "offline")
        cells = []
        for direction in dataset.directions:
            score = run.find(direction) if run else None
            ours = estimate_of([score.aer], [score.low], [score.high]) if score else Estimate(reason="not run")
            away = _difference(dataset, direction, ours, text)
            source = filter_of("score", dataset=dataset.name, aligner=name, text="offline", links=direction)
            cells.append(Measured(direction, ours, difference=away, source=source))
        yield Line("word aligners", row, label, "", "", text, math.nan, tuple(cells))


def _attribution(dataset: ScoredDataset, model: str, methods: str, extraction: str, direction: str) -> str:
    of_model = {"dataset": dataset.name, "model": model, "decoding": FORCED, "split": TEST, "weights": FINAL}
    return filter_of("attribution", **of_model, method=methods, extraction=extraction, direction=direction)


def _printed(row: str, selection: str, step: str) -> tuple[float, float]:
    """Returns the number of the text and that of the released run."""
    rates = published.error_rates()
    released = rates.get((row, selection, step), {}).get(published.RELEASED, math.nan)
    return next(iter(rates.get((row, selection, ""), {}).values()), math.nan), released


def _difference(dataset: ScoredDataset, direction: str, ours: Estimate, printed: float) -> float:
    """Returns ours minus print where both are about the same text."""
    return ours.mean - printed if is_printed(dataset, direction) else math.nan


def is_printed(dataset: ScoredDataset, direction: str) -> bool:
    """Returns whether print has numbers of a direction of a dataset: they stand beside no other."""
    return (dataset.published, direction) == (published.PAIR, published.DIRECTION)


def records(all_tables: Sequence[Table3]) -> list[dict[str, Any]]:
    """Returns one record per cell, keys in the order of COLUMNS; None where there is no number."""
    return [
        dict(
            zip(
                COLUMNS,
                (
                    table.dataset.name,
                    table.model,
                    table.extraction,
                    line.group,
                    line.row,
                    line.step,
                    line.selection,
                    cell.direction,
                    *(
                        rounded(value) if is_printed(table.dataset, cell.direction) else None
                        for value in (line.text, line.released)
                    ),
                    *(rounded(value) for value in (cell.ours.mean, cell.ours.low, cell.ours.high, cell.difference)),
                    cell.ours.seeds,
                    rounded(cell.ours.spread),
                    " ".join(map(str, cell.layers)),
                    cell.ours.reason,
                ),
                strict=True,
            )
        )
        for table in all_tables
        for line in table.lines
        for cell in line.cells
    ]
