"""Tables 1 to 3 and the variants: printed and measured numbers cell by cell, without any form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from alignlens.results.paths import FORCED, FREE
from alignlens.results.protocol import ARCHITECTURES, BIDIR, DING, GROW_DIAG_FINAL, KOBAYASHI
from alignlens.studies.ding2019 import published
from alignlens.studies.ding2019.layout import ALIGNERS, ENTROPY_DIRECTION, ENTROPY_PAIR, METHODS, SIGMAS
from alignlens.studies.tables import Estimate, Printed, StudyCell, StudyLine, StudyTable, estimate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.results.scores import Results, Score, ScoredDataset
    from alignlens.studies.ding2019.layout import AlignerLine


def error_table(results: Results, dataset: ScoredDataset, decoding: str) -> StudyTable:
    """Returns Table 1 (forced) or Table 2 (free, without aligners and without symmetrised links)."""
    columns = (*dataset.directions, BIDIR) if decoding == FORCED else dataset.directions
    lines = [
        StudyLine(
            architecture,
            model,
            results.protocol.method(method),
            group,
            label,
            tuple(
                _cell(
                    column,
                    _error(results, dataset, model, architecture, decoding, results.protocol.method(method), column),
                    _printed(dataset, decoding, architecture, method, column),
                )
                for column in columns
            ),
        )
        for architecture, model, group in row_groups(results, dataset)
        for method, label in METHODS.items()
    ]
    if decoding == FORCED:
        # What cannot be run here has a row only where there is print to show.
        shown = [line for line in ALIGNERS if line.aligner or dataset.published]
        lines += [_aligner_line(results, dataset, line, columns) for line in shown]
    return StudyTable("1" if decoding == FORCED else "2", dataset, columns, tuple(lines))


def entropy_table(results: Results, dataset: ScoredDataset) -> StudyTable:
    """Returns Table 3: how flat attention and signed saliency are, by noise level, decoding and direction."""
    settings = {"attention": results.protocol.method("attention")}
    settings |= {f"{sigma:g}": results.protocol.at_sigma(sigma) for sigma in SIGMAS}
    printed = published.entropies()
    lines = []
    for architecture, model, group in row_groups(results, dataset):
        for decoding in (FORCED, FREE):
            for direction in dataset.directions:
                comparable = dataset.published == ENTROPY_PAIR and direction == ENTROPY_DIRECTION
                cells = []
                for setting, method in settings.items():
                    scores = scores_of(results, dataset, model, decoding, method, direction)
                    value = printed.get((architecture, decoding, setting)) if comparable else None
                    known = Printed(value, False, "run by the authors") if value is not None else None
                    estimate = estimate_of(
                        [score.entropy for score in scores],
                        reason=_why(results, dataset, architecture, decoding, direction),
                    )
                    cells.append(_cell(setting, estimate, known))
                label = f"{decoding}, {direction}"
                lines.append(StudyLine(architecture, model, label, group, label, tuple(cells)))
    return StudyTable("3", dataset, tuple(settings), tuple(lines))


def variants_table(results: Results, dataset: ScoredDataset) -> StudyTable:
    """Returns what the paper leaves open: other readings, each against the row of Table 1 that it varies."""
    protocol = results.protocol
    columns = (*dataset.directions, BIDIR)
    lines = []
    for architecture, model, group in row_groups(results, dataset):
        variants = [
            ("absolute product, Grad", protocol.method("li_grad", reading="abs_dot"), "li_grad", DING),
            (
                "absolute product, SmoothGrad",
                protocol.method("li_smoothgrad", reading="abs_dot"),
                "li_smoothgrad",
                DING,
            ),
            (
                "mean before clipping",
                protocol.method("ding_smoothgrad", order="mean_then_clip"),
                "ding_smoothgrad",
                DING,
            ),
        ]
        if architecture == "fconv":
            variants += [
                (f"true gradient, {METHODS[name]}", protocol.method(name, gradient="true"), name, DING)
                for name in ("ding_grad", "ding_smoothgrad")
            ]
        variants += [
            (f"links by words, {label}", protocol.method(name), name, KOBAYASHI) for name, label in METHODS.items()
        ]
        runs = [run for run in results.runs(dataset.name, decoding=FORCED) if run.model == model]
        for label, method, varied, extraction in variants:
            cells = []
            for column in columns:
                links = GROW_DIAG_FINAL if column == BIDIR else column
                own, reference = _paired(
                    [run.find(method, links, extraction) for run in runs],
                    [run.find(protocol.method(varied), links) for run in runs],
                )
                why = _why(results, dataset, architecture, FORCED, column)
                cells.append(StudyCell(column, _errors(own, why), reference=_errors(reference, why).mean))
            name = method if extraction == DING else f"{method}.{extraction}"
            lines.append(StudyLine(architecture, model, name, group, label, tuple(cells)))
    return StudyTable("variants", dataset, columns, tuple(lines))


def row_groups(results: Results, dataset: ScoredDataset) -> list[tuple[str, str, str]]:
    """Returns architecture, model and heading of every row group; an architecture without a model keeps its place."""
    groups = []
    for architecture, title in ARCHITECTURES.items():
        names = results.names(dataset.name, architecture)
        alone = len(names) <= 1
        groups += [(architecture, name, title if alone else f"{title} ({name})") for name in names or [""]]
    return groups


def _printed(dataset: ScoredDataset, decoding: str, architecture: str, method: str, column: str) -> Printed | None:
    if dataset.published is None:
        return None
    return published.error_rates(decoding).get((architecture, method, dataset.published, column))


def _cell(column: str, ours: Estimate, printed: Printed | None) -> StudyCell:
    return StudyCell(column, ours, printed, printed.value if printed else math.nan)


def _error(
    results: Results, dataset: ScoredDataset, model: str, architecture: str, decoding: str, method: str, column: str
) -> Estimate:
    links = GROW_DIAG_FINAL if column == BIDIR else column
    scores = scores_of(results, dataset, model, decoding, method, links)
    return _errors(scores, _why(results, dataset, architecture, decoding, column))


def _errors(scores: Sequence[Score], reason: str) -> Estimate:
    bounds = [score.low for score in scores], [score.high for score in scores]
    return estimate_of([score.aer for score in scores], *bounds, reason)


def _paired(own: Sequence[list[Score]], others: Sequence[list[Score]]) -> tuple[list[Score], list[Score]]:
    """Returns the scores of two methods run by run, those under the same noise only."""
    paired: tuple[list[Score], list[Score]] = ([], [])
    for pair in zip(own, others, strict=True):
        shared = set.intersection(*({score.noise_seed for score in scores} for scores in pair))
        for kept, scores in zip(paired, pair, strict=True):
            kept += [score for score in scores if score.noise_seed in shared]
    return paired


def scores_of(
    results: Results, dataset: ScoredDataset, model: str, decoding: str, method: str, links: str
) -> list[Score]:
    """Returns the scores of a model with some links, of all model and noise seeds."""
    runs = [run for run in results.runs(dataset.name, decoding=decoding) if run.model == model]
    return [score for run in runs for score in run.find(method, links)]


def _why(results: Results, dataset: ScoredDataset, architecture: str, decoding: str, column: str) -> str:
    """Returns why a cell may be empty: the most general thing that is missing."""
    if not results.names(dataset.name, architecture):
        return "no model"
    runs = results.runs(dataset.name, architecture, decoding)
    if not runs:
        return "not run"
    links = {name for run in runs for _, _, name in run.scores}
    if column == BIDIR and GROW_DIAG_FINAL not in links:
        return "one direction only" if len(links) == 1 else "not symmetrised"
    return "not run"


def _aligner_line(results: Results, dataset: ScoredDataset, line: AlignerLine, columns: Sequence[str]) -> StudyLine:
    run = results.aligner(dataset.name, line.aligner, line.text) if line.aligner else None
    cells = []
    for column in columns:
        printed = _printed(dataset, FORCED, "aligner", line.published, column)
        if line.only_bidir and column != BIDIR:
            cells.append(_cell(column, Estimate(reason="as above"), None))
            continue
        score = run.find(line.symmetrization if column == BIDIR else column) if run else None
        estimate = _errors([score], "undefined") if score is not None else Estimate(reason="not run")
        cells.append(_cell(column, estimate, printed))
    name = f"{line.aligner} {line.text} {line.symmetrization}" if line.aligner else line.published
    return StudyLine("aligner", "", name, "aligners", line.label, tuple(cells))
