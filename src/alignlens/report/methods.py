"""Attributed models of a results folder, to compare methods: scores with the reference, and what each method costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import in_order, parse, plain
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.results.paths import FORCED, METHOD_COST
from alignlens.results.protocol import DING
from alignlens.results.reader import without_noise_seed
from alignlens.results.scores import AttributedModel, Results, Score

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import ScoredDataset

_ADVICE = "Delete it and measure again with: alignlens cost, or run the pipeline again."


@dataclass(frozen=True)
class MethodCost:
    """What a method took by itself with one model: per 100 sentences, and passes per sentence."""

    dataset: str
    model: str
    seed: str
    direction: str
    method: str
    seconds: float
    cpu_seconds: float
    forward_passes: float
    backward_passes: float
    sentences: int
    threads: int


@dataclass(frozen=True)
class Compared:
    """What there is to compare; methods that differ in the seed of their noise are one."""

    results: Results
    costs: tuple[MethodCost, ...] = ()

    @property
    def datasets(self) -> list[ScoredDataset]:
        """Returns the datasets on which models were asked with the reference."""
        return [dataset for dataset in self.results.datasets if self.models(dataset.name)]

    def models(self, dataset: str) -> dict[str, str]:
        """Returns the architecture of every model of a dataset."""
        return {run.model: run.architecture for run in self.runs(dataset)}

    def runs(self, dataset: str, model: str | None = None) -> list[AttributedModel]:
        """Returns the seeds of a dataset's models, or of one of them."""
        runs = self.results.runs(dataset, decoding=FORCED)
        return [run for run in runs if model in (None, run.model)]

    def methods(self, dataset: str, model: str) -> list[str]:
        """Returns the methods to compare: those of the registry with the noise of the tables, and all with a cost."""
        protocol = self.results.protocol
        scored = {method for run in self.runs(dataset, model) for method in run.methods()}
        shown = scored & set(plain(protocol.sigma, protocol.samples))
        timed = {cost.method for cost in self.costs if (cost.dataset, cost.model) == (dataset, model)}
        return in_order(sorted(shown | timed))

    def scores(self, dataset: str, model: str, method: str, links: str) -> list[Score]:
        """Returns the scores of a method for some links, of all model and noise seeds."""
        return [score for run in self.runs(dataset, model) for score in run.find(method, links, DING)]

    def costs_of(self, dataset: str, model: str, method: str) -> list[MethodCost]:
        """Returns what a method costs, by direction; nothing if it was not measured."""
        wanted = (dataset, model, method)
        return [cost for cost in self.costs if (cost.dataset, cost.model, cost.method) == wanted]


def read_compared(manifest: Manifest, results: Results) -> Compared:
    """Returns scores with the costs of a manifest; what is not there is missing, what is damaged an InputError."""
    costs = [cost for path, names in manifest.find(METHOD_COST) for cost in read_costs(path, names)]
    return Compared(results, tuple(costs))


def read_costs(path: Path, names: Mapping[str, str]) -> list[MethodCost]:
    """Returns the costs in a file, which belong to the model and direction that its path names."""
    content = read_json(path, _ADVICE)
    model = (names["dataset"], names["model"], names["seed"], names["direction"])
    with taking(path, _ADVICE):
        threads = values.whole(content, "threads", least=1)
        return [_cost(row, threads, model) for row in values.mappings(content, "methods")]


def _cost(row: dict[str, Any], threads: int, names: tuple[str, str, str, str]) -> MethodCost:
    return MethodCost(
        *names,
        method=parse(without_noise_seed(values.text(row, "method"))).text,
        seconds=values.number(row, "seconds_per_100", 0),
        cpu_seconds=values.number(row, "cpu_seconds_per_100", 0),
        forward_passes=values.number(row, "forward_passes", 0),
        backward_passes=values.number(row, "backward_passes", 0),
        sentences=values.whole(row, "sentences"),
        threads=threads,
    )
