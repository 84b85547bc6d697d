"""Results: the scores of attributed models and of word aligners, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignlens.metrics.sampled import Draws
from alignlens.results.paths import ATTRIBUTED, FINAL, TEST
from alignlens.results.protocol import DING, published_pair

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.results.manifest import Manifest
    from alignlens.results.protocol import Protocol
    from alignlens.results.samples import SentenceRow


@dataclass(frozen=True)
class CauseScore:
    """Percentage of linked target words whose source word is a true cause: ours, its interval, and by chance."""

    hits: float
    low: float
    high: float
    chance: float


@dataclass(frozen=True)
class Score:
    """One row of a metrics file: percentages, and the mean entropy of soft rows; nan if not measured."""

    links: str
    kind: str
    aer: float
    low: float
    high: float
    precision: float
    recall: float
    f1: float
    links_count: int
    sure: int
    possible: int
    sentences: SentenceRow
    """Counts by sentence."""
    entropy: float = math.nan
    noise_seed: int = 1
    score_mean: float = math.nan
    """Mean of all scores before links were read off them."""
    causes: CauseScore | None = None
    """None where the causes are unknown: text that was not generated, the reverse direction, free decoding."""

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class ScoredDataset:
    """A dataset that something was scored on, and its counterpart in print, if there is one."""

    name: str
    pair: tuple[str, str]
    sentences: int

    @property
    def directions(self) -> tuple[str, str]:
        """The two directions, the dataset's own first."""
        return "-".join(self.pair), "-".join(reversed(self.pair))

    @property
    def published(self) -> str | None:
        """The published language pair with the same test set."""
        return published_pair(self.pair, self.sentences)


@dataclass(frozen=True)
class AttributedModel:
    """All scores of one model and seed on one text; scores that differ in the seed of the noise stand together."""

    dataset: str
    model: str
    architecture: str
    seed: str
    decoding: str
    scores: dict[tuple[str, str, str], list[Score]]
    """By method without the seed of its noise, extraction and links."""
    weights: str = FINAL
    split: str = TEST

    @property
    def names(self) -> dict[str, str]:
        """The names of its path."""
        return {key: getattr(self, key) for key in ("dataset", "model", "seed", "weights", "split", "decoding")}

    def find(self, method: str, links: str, extraction: str = DING) -> list[Score]:
        """Returns the scores of all noise seeds of a method."""
        return self.scores.get((method, extraction, links), [])

    def methods(self) -> set[str]:
        """Returns the methods, without the seeds of their noise."""
        return {method for method, _, _ in self.scores}


@dataclass(frozen=True, order=True)
class AlignerId:
    """The names that make the path of a trained aligner."""

    dataset: str
    aligner: str
    text: str
    size: str

    def __str__(self) -> str:
        return f"{self.dataset}/{self.aligner}/{self.text}/{self.size}"


@dataclass(frozen=True)
class ScoredAligner:
    """All scores of one word aligner."""

    id: AlignerId
    pair: tuple[str, str]
    train_pairs: int
    sentences: int
    rows: tuple[Score, ...]
    interval: dict[str, Any]
    changed: float
    """When the file was written, in seconds since 1970."""

    def find(self, links: str) -> Score | None:
        """Returns the scores of a direction or a symmetrisation."""
        return next((row for row in self.rows if row.links == links), None)

    def best(self, kind: str) -> Score | None:
        """Returns the row of a kind with the lowest AER, or None if there is none."""
        rows = [row for row in self.rows if row.kind == kind and not math.isnan(row.aer)]
        return min(rows, key=lambda row: row.aer, default=None)


@dataclass(frozen=True)
class Results:
    """Everything read, in a fixed order."""

    manifest: Manifest
    datasets: tuple[ScoredDataset, ...] = ()
    models: tuple[AttributedModel, ...] = ()
    aligners: tuple[ScoredAligner, ...] = ()
    intervals: tuple[str, ...] = ()
    draws: Draws = field(default_factory=Draws)
    """How the intervals were drawn, and how differences are."""

    @property
    def protocol(self) -> Protocol:
        """The noise of the tables."""
        return self.manifest.protocol

    def runs(
        self,
        dataset: str | None = None,
        architecture: str | None = None,
        decoding: str | None = None,
        split: str = TEST,
        weights: str = FINAL,
    ) -> list[AttributedModel]:
        """Returns the models of a dataset, an architecture and a decoding: what training ended in, on the test text."""
        return [
            run
            for run in self.models
            if dataset in (None, run.dataset)
            and architecture in (None, run.architecture)
            and decoding in (None, run.decoding)
            and (run.split, run.weights) == (split, weights)
        ]

    def matrices(self, run: AttributedModel, direction: str) -> Path | None:
        """Returns the folder of a model's scores for every pair of pieces, or None if there is none."""
        return self.manifest.path(ATTRIBUTED, direction=direction, **run.names)

    def names(self, dataset: str, architecture: str) -> list[str]:
        """Returns the models of an architecture on a dataset."""
        return list(dict.fromkeys(run.model for run in self.runs(dataset, architecture)))

    def aligner(self, dataset: str, name: str, text: str) -> ScoredAligner | None:
        """Returns an aligner that was trained on all text, or on the most there is."""
        wanted = (dataset, name, text)
        runs = [run for run in self.aligners if (run.id.dataset, run.id.aligner, run.id.text) == wanted]
        return max(runs, key=lambda run: (run.id.size == "all", run.train_pairs), default=None)
