"""What results have to say: the scores of attributed models and of word aligners, by name."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.metrics.sampled import Draws
from alignlens.metrics.sentences import row_name
from alignlens.results.paths import ALIGNER_METRICS, ATTRIBUTED, DECODINGS, FINAL, METHOD_METRICS, TEST
from alignlens.results.protocol import DING, Protocol, interval_of, published_pair
from alignlens.results.samples import SentenceFile, SentenceRow

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.results.manifest import Manifest

_ADVICE = "Delete it and make it again with: alignlens score or alignlens score-methods, or run the pipeline again."
_NATURAL = re.compile("[0-9]{1,18}")


@dataclass(frozen=True)
class CauseScore:
    """Percentage of linked target words whose source word is a true cause: ours, its interval, and by chance."""

    hits: float
    low: float
    high: float
    chance: float


@dataclass(frozen=True)
class Score:
    """One row of a metrics file: percentages, and the mean entropy of soft rows; nan where nobody measured."""

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
    """What was counted sentence by sentence."""
    entropy: float = math.nan
    noise_seed: int = 1
    score_mean: float = math.nan
    """Mean of all scores before links were read off them."""
    causes: CauseScore | None = None
    """None where the causes are unknown: text that nobody generated, the reverse direction, free decoding."""

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
        found = [run for run in self.aligners if (run.id.dataset, run.id.aligner, run.id.text) == wanted]
        return max(found, key=lambda run: (run.id.size == "all", run.train_pairs), default=None)


def read_results(manifest: Manifest) -> Results:
    """Returns the scores of a manifest; what is not there is missing, what is damaged an InputError."""
    aligners = [read_aligner(path) for path, _ in manifest.find(ALIGNER_METRICS)]
    intervals = [run.interval for run in aligners]
    datasets = {run.id.dataset: ScoredDataset(run.id.dataset, run.pair, run.sentences) for run in reversed(aligners)}
    models = []
    for path, _ in manifest.find(METHOD_METRICS):
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            run = _attributed(content, _sentences(path, content))
            models.append(run)
            if run.split == TEST:
                datasets[run.dataset] = _dataset(content)
            intervals.append(interval_of(content))
    told = [found for found in intervals if found]
    return Results(
        manifest,
        tuple(datasets[name] for name in sorted(datasets)),
        tuple(sorted(models, key=lambda run: (run.dataset, run.model, _natural(run.seed), run.decoding))),
        tuple(aligners),
        tuple(dict.fromkeys(map(_told, told))),
        Draws(**(manifest.interval or next(iter(told), {}))),
    )


def read_aligner(path: Path) -> ScoredAligner:
    """Returns the content of an aligner's metrics file; what is missing or no number is an error with its name."""
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        names = AlignerId(*(values.name(content, name) for name in ("dataset", "aligner", "text", "size")))
        file = _sentences(path, content)
        return ScoredAligner(
            id=names,
            pair=pair_of(content),
            train_pairs=values.whole(content, "train_pairs"),
            sentences=values.whole(content, "sentences", least=1),
            rows=tuple(_score(row, SentenceRow(file, k)) for k, row in enumerate(values.mappings(content, "rows"))),
            interval=interval_of(content),
            changed=path.stat().st_mtime,
        )


def pair_of(content: dict[str, Any]) -> tuple[str, str]:
    """Returns the two languages of a metrics file."""
    pair = content["pair"]
    first, second = pair.split("-") if isinstance(pair, str) else values.texts(content, "pair")
    return first, second


def _dataset(content: dict[str, Any]) -> ScoredDataset:
    return ScoredDataset(values.text(content, "dataset"), pair_of(content), values.whole(content, "sentences", least=1))


def _sentences(path: Path, content: dict[str, Any]) -> SentenceFile:
    names = tuple(map(row_name, values.mappings(content, "rows")))
    return SentenceFile(path, names, values.whole(content, "sentences", least=1))


def _attributed(content: dict[str, Any], file: SentenceFile) -> AttributedModel:
    if content["decoding"] not in DECODINGS:
        raise ValueError(f"decoding {content['decoding']!r}")
    scores: dict[tuple[str, str, str], list[Score]] = {}
    for place, row in enumerate(values.mappings(content, "rows")):
        method, extraction, links = (values.text(row, name) for name in ("method", "extraction", "links"))
        parse(method)  # a name that nobody knows is damage
        found = scores.setdefault((without_noise_seed(method), extraction, links), [])
        found.append(_score(row, SentenceRow(file, place)))
    return AttributedModel(
        dataset=values.text(content, "dataset"),
        model=values.text(content, "model"),
        architecture=values.text(content, "architecture"),
        seed=values.name(content, "seed"),
        decoding=values.text(content, "decoding"),
        scores={key: sorted(found, key=lambda score: score.noise_seed) for key, found in scores.items()},
        weights=values.name(content, "weights") if "weights" in content else FINAL,
        split=values.text(content, "split") if "split" in content else TEST,
    )


def without_noise_seed(method: str) -> str:
    """Returns a canonical method as it would be with the first noise seed."""
    return ",".join(part for part in method.split(",") if not part.startswith("seed="))


def _score(row: dict[str, Any], sentences: SentenceRow) -> Score:
    parameters = values.mapping(row, "parameters") if "parameters" in row else {}
    return Score(
        links=values.text(row, "links"),
        kind=values.text(row, "kind"),
        aer=_percent(row, "aer"),
        low=_percent(row, "aer_low"),
        high=_percent(row, "aer_high"),
        precision=_percent(row, "precision"),
        recall=_percent(row, "recall"),
        f1=_percent(row, "f1"),
        links_count=values.whole(row, "links_count"),
        sure=values.whole(row, "sure"),
        possible=values.whole(row, "possible"),
        entropy=_optional(row, "entropy"),
        noise_seed=values.whole(parameters, "seed") if "seed" in parameters else 1,
        sentences=sentences,
        score_mean=_optional(row, "score_mean"),
        causes=_causes(row),
    )


def _causes(row: dict[str, Any]) -> CauseScore | None:
    if row.get("cause_hits") is None:
        return None
    return CauseScore(*(_percent(row, f"cause_{name}") for name in ("hits", "low", "high", "chance")))


def _percent(row: dict[str, Any], key: str) -> float:
    return values.number_or_nan(row, key, 0, 100)


def _optional(row: dict[str, Any], key: str) -> float:
    return values.number_or_nan(row, key) if key in row else math.nan


def _told(found: dict[str, Any]) -> str:
    return f"{found['level']:g} % bootstrap interval over sentences ({found['samples']} samples, seed {found['seed']})"


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if _NATURAL.fullmatch(text) else (1 << 62, text)
