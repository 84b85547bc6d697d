"""Measured numbers as the claims need them: one value per model, seed and column, counted over many cells."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from alignlens.studies.ding2019.layout import ALIGNERS, METHODS
from alignlens.studies.protocol import ARCHITECTURES, BIDIR, FORCED, GROW_DIAG_FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.studies.results import Dataset, ModelRun, Results


class Evidence:
    """The numbers of a results folder, noise seeds averaged."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.datasets = {dataset.name: dataset for dataset in results.datasets}
        self._runs = {(run.dataset, run.model, run.seed, run.decoding): run for run in results.models}

    def architectures(self) -> list[str]:
        """Returns the architectures of the paper that have results, in its order."""
        found = {run.architecture for run in self.results.models}
        return [name for name in ARCHITECTURES if name in found]

    def columns(self, dataset: Dataset | str, decoding: str = FORCED) -> tuple[str, ...]:
        """Returns the columns of Table 1 (forced) or 2 (free)."""
        directions = (dataset if not isinstance(dataset, str) else self.datasets[dataset]).directions
        return (*directions, BIDIR) if decoding == FORCED else directions

    def runs(self, architectures: Sequence[str] = (), decoding: str = FORCED) -> list[ModelRun]:
        """Returns the runs of some architectures, of all of them by default."""
        wanted = architectures or tuple(ARCHITECTURES)
        return [run for run in self.results.models if run.architecture in wanted and run.decoding == decoding]

    def other(self, run: ModelRun, decoding: str) -> ModelRun | None:
        """Returns the same model and seed in another decoding."""
        return self._runs.get((run.dataset, run.model, run.seed, decoding))

    def seeds(self, dataset: str) -> list[str]:
        """Returns the seeds of the models of a dataset."""
        return list(dict.fromkeys(run.seed for run in self.results.models if run.dataset == dataset))

    def across(
        self, dataset: str, seed: str, architecture: str, measure: Callable[[ModelRun], float | None], decoding: str
    ) -> float | None:
        """Returns a measure of an architecture: the mean over its models, mostly one."""
        runs = [run for run in self.results.runs(dataset, architecture, decoding) if run.seed == seed]
        return _mean(measure(run) for run in runs)

    def aligner(self, dataset: str, published: str, column: str) -> float | None:
        """Returns the error rate of the aligner that stands for a row of the paper."""
        line = next(line for line in ALIGNERS if line.published == published)
        run = self.results.aligner(dataset, line.aligner, line.text) if line.aligner else None
        score = run.scores.get(line.symmetrization if column == BIDIR else column) if run else None
        return score.aer if score and not math.isnan(score.aer) else None

    def systems(self, dataset: str, column: str) -> dict[str, float]:
        """Returns the error rates of all rows of Table 1 but GIZA++, means over seeds."""
        found: dict[str, float | None] = {}
        for architecture, title in ARCHITECTURES.items():
            for method, label in METHODS.items():
                runs = self.results.runs(dataset, architecture, FORCED)
                name = self.results.protocol.method(method)
                found[f"{title} {label}"] = _mean(error_rate(run, name, column) for run in runs)
        for line in ALIGNERS:
            if line.in_paper and line.published != "giza":
                found[line.label] = self.aligner(dataset, line.published, column)
        return {name: value for name, value in found.items() if value is not None}


def error_rate(run: ModelRun, method: str, column: str) -> float | None:
    """Returns the error rate of a method in a column, the mean over noise seeds."""
    scores = run.find(method, GROW_DIAG_FINAL if column == BIDIR else column)
    return _mean(score.aer for score in scores)


def paired_rates(run: ModelRun, method: str, other: str, column: str) -> tuple[float | None, float | None]:
    """Returns the error rates of two methods under the same noise: only noise seeds that both have count."""
    links = GROW_DIAG_FINAL if column == BIDIR else column
    found = [run.find(name, links) for name in (method, other)]
    shared = set.intersection(*({score.noise_seed for score in scores} for scores in found))
    left, right = (_mean(score.aer for score in scores if score.noise_seed in shared) for scores in found)
    return left, right


def entropy(run: ModelRun, method: str, direction: str) -> float | None:
    """Returns the entropy of a method in a direction, the mean over noise seeds."""
    return _mean(score.entropy for score in run.find(method, direction))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return fmean(known) if known else None
