"""Measured numbers as the claims need them: one value per model and column, and how much it varies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.metrics.sampled import mean_of
from alignlens.results.paths import FORCED
from alignlens.results.protocol import ARCHITECTURES, BIDIR, GROW_DIAG_FINAL
from alignlens.results.samples import Samples
from alignlens.studies.ding2019.layout import ALIGNERS, METHODS
from alignlens.studies.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.metrics.sampled import Sampled
    from alignlens.results.scores import AttributedModel, Results, ScoredDataset

    Measure = Callable[[AttributedModel], Sampled | None]


class Evidence:
    """The numbers of a results folder, noise seeds averaged."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.datasets = {dataset.name: dataset for dataset in results.datasets}
        self.samples = Samples(results.draws)
        self._runs = {(run.dataset, run.model, run.seed, run.decoding): run for run in results.models}

    def tally(self) -> Tally:
        """Returns an empty tally at the level of the results."""
        return Tally(self.results.draws.level)

    def architectures(self) -> list[str]:
        """Returns the architectures of the paper that have results, in its order."""
        present = {run.architecture for run in self.results.models}
        return [name for name in ARCHITECTURES if name in present]

    def columns(self, dataset: ScoredDataset | str, decoding: str = FORCED) -> tuple[str, ...]:
        """Returns the columns of Table 1 (forced) or 2 (free)."""
        directions = (dataset if not isinstance(dataset, str) else self.datasets[dataset]).directions
        return (*directions, BIDIR) if decoding == FORCED else directions

    def models(self, architectures: Sequence[str] = (), decoding: str = FORCED) -> list[list[AttributedModel]]:
        """Returns the runs of each model of some architectures, of all of them by default: one run per seed."""
        by_model: dict[tuple[str, str], list[AttributedModel]] = {}
        for run in self.runs(architectures, decoding):
            by_model.setdefault((run.dataset, run.model), []).append(run)
        return list(by_model.values())

    def runs(self, architectures: Sequence[str] = (), decoding: str = FORCED) -> list[AttributedModel]:
        """Returns the runs of some architectures, of all of them by default."""
        wanted = architectures or tuple(ARCHITECTURES)
        return [run for run in self.results.models if run.architecture in wanted and run.decoding == decoding]

    def other(self, run: AttributedModel, decoding: str) -> AttributedModel | None:
        """Returns the same model and seed in another decoding."""
        return self._runs.get((run.dataset, run.model, run.seed, decoding))

    def across(self, dataset: str, architecture: str, measure: Measure, decoding: str = FORCED) -> Sampled | None:
        """Returns a measure of an architecture: the mean over its models, mostly one."""
        models = [runs for runs in self.models((architecture,), decoding) if runs[0].dataset == dataset]
        return _mean(self.samples.over_seeds(runs, measure) for runs in models)

    def aligner(self, dataset: str, published: str, column: str) -> Sampled | None:
        """Returns the error rate of the aligner that stands for a row of the paper."""
        line = next(line for line in ALIGNERS if line.published == published)
        run = self.results.aligner(dataset, line.aligner, line.text) if line.aligner else None
        score = run.find(line.symmetrization if column == BIDIR else column) if run else None
        return self.samples.error_rate([score] if score else [])

    def systems(self, dataset: str, column: str) -> dict[str, Sampled]:
        """Returns the error rates of all rows of Table 1 but GIZA++, means over seeds."""
        systems: dict[str, Sampled | None] = {}
        for architecture, title in ARCHITECTURES.items():
            for method, label in METHODS.items():
                measure = self.rate(self.results.protocol.method(method), column)
                systems[f"{title} {label}"] = self.across(dataset, architecture, measure)
        for line in ALIGNERS:
            if line.in_paper and line.published != "giza":
                systems[line.label] = self.aligner(dataset, line.published, column)
        return {name: value for name, value in systems.items() if value is not None}

    def rate(self, method: str, column: str) -> Measure:
        """Returns what measures the error rate of a method in a column."""
        links = GROW_DIAG_FINAL if column == BIDIR else column
        return lambda run: self.samples.error_rate(run.find(method, links))

    def entropy(self, method: str, direction: str) -> Measure:
        """Returns what measures the entropy of a method in a direction."""
        return lambda run: self.samples.entropy(run.find(method, direction))

    def gap(self, method: str, other: str, column: str) -> Measure:
        """Returns what measures how far a method is below another one."""
        left, right = (self.rate(name, column) for name in (method, other))
        return lambda run: gap_of(left(run), right(run))

    def paired_gap(self, method: str, other: str, column: str) -> Measure:
        """Returns what measures how far a method is below another under the same noise: noise seeds of both count."""
        links = GROW_DIAG_FINAL if column == BIDIR else column

        def gap(run: AttributedModel) -> Sampled | None:
            scored = [run.find(name, links) for name in (method, other)]
            shared = set.intersection(*({score.noise_seed for score in scores} for scores in scored))
            rates = (self.samples.error_rate(s for s in scores if s.noise_seed in shared) for scores in scored)
            return gap_of(*rates)

        return gap


def gap_of(left: Sampled | None, right: Sampled | None) -> Sampled | None:
    """Returns how far the left number is below the right one."""
    return None if left is None or right is None else right - left


def _mean(values: Iterable[Sampled | None]) -> Sampled | None:
    known = [value for value in values if value is not None]
    return mean_of(known) if known else None
