"""What a results folder has to say: the scores of attributed models and of word aligners, by name."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.limits import RESAMPLES
from alignlens.metrics.sampled import Draws
from alignlens.metrics.sentences import row_name
from alignlens.studies.protocol import DEV, DING, FORCED, FREE, Protocol, published_pair
from alignlens.studies.samples import SentenceFile, SentenceRow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MODEL_FILES = "attributions/*/*/*/*/metrics.json"
ALIGNER_FILES = "scores/*/*/*/*/metrics.json"
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

    aer: float
    low: float
    high: float
    precision: float
    recall: float
    links: int
    entropy: float
    noise_seed: int
    sentences: SentenceRow
    """What was counted sentence by sentence."""
    score_mean: float = math.nan
    """Mean of all scores before links were read off them."""
    causes: CauseScore | None = None
    """None where the causes are unknown: text that nobody generated, the reverse direction, free decoding."""


@dataclass(frozen=True)
class Dataset:
    """A dataset of the results folder and its counterpart in print, if there is one."""

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
class ModelRun:
    """All scores of one model, seed and decoding; scores that differ in the seed of the noise stand together."""

    dataset: str
    model: str
    architecture: str
    seed: str
    decoding: str
    scores: dict[tuple[str, str, str], list[Score]]
    """By method without the seed of its noise, extraction and links."""

    def find(self, method: str, links: str, extraction: str = DING) -> list[Score]:
        """Returns the scores of all noise seeds of a method."""
        return self.scores.get((method, extraction, links), [])

    def methods(self) -> set[str]:
        """Returns the methods, without the seeds of their noise."""
        return {method for method, _, _ in self.scores}


@dataclass(frozen=True)
class AlignerRun:
    """All scores of one word aligner."""

    dataset: str
    aligner: str
    text: str
    size: str
    train_pairs: int
    scores: dict[str, Score]


@dataclass(frozen=True)
class Results:
    """Everything read, in a fixed order."""

    folder: Path
    datasets: tuple[Dataset, ...] = ()
    models: tuple[ModelRun, ...] = ()
    aligners: tuple[AlignerRun, ...] = ()
    intervals: tuple[str, ...] = ()
    draws: Draws = field(default_factory=Draws)
    """How the intervals were drawn, and how differences are."""
    protocol: Protocol = field(default_factory=Protocol)

    def runs(
        self, dataset: str | None = None, architecture: str | None = None, decoding: str | None = None
    ) -> list[ModelRun]:
        """Returns the model runs of a dataset, an architecture and a decoding."""
        return [
            run
            for run in self.models
            if dataset in (None, run.dataset)
            and architecture in (None, run.architecture)
            and decoding in (None, run.decoding)
        ]

    def names(self, dataset: str, architecture: str) -> list[str]:
        """Returns the models of an architecture on a dataset."""
        return list(dict.fromkeys(run.model for run in self.runs(dataset, architecture)))

    def aligner(self, dataset: str, name: str, text: str) -> AlignerRun | None:
        """Returns the run of an aligner on all text, or on the most there is."""
        found = [run for run in self.aligners if (run.dataset, run.aligner, run.text) == (dataset, name, text)]
        return max(found, key=lambda run: (run.size == "all", run.train_pairs), default=None)


def read_results(folder: Path) -> Results:
    """Returns the scores below a results folder; what is not there is missing, what is damaged an InputError."""
    aligners, models = [], []
    datasets: dict[str, Dataset] = {}
    intervals: list[dict[str, Any]] = []
    noise: Counter[tuple[float, int]] = Counter()
    for path in [*sorted(folder.glob(ALIGNER_FILES)), *sorted(folder.glob(MODEL_FILES))]:
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            dataset = _dataset(content)
            if "aligner" in content:
                aligners.append(_aligner_run(content, _sentences(path, content)))
                datasets.setdefault(dataset.name, dataset)
            else:
                models.append(_model_run(content, _sentences(path, content)))
                if content["decoding"] != DEV:  # it has sentences of its own
                    datasets[dataset.name] = dataset
                noise.update(_noise(values.mappings(content, "rows")))
            intervals.append(interval_of(content))
    return Results(
        folder,
        tuple(datasets[name] for name in sorted(datasets)),
        tuple(sorted(models, key=lambda run: (run.dataset, run.model, _natural(run.seed), run.decoding))),
        tuple(aligners),
        tuple(dict.fromkeys(_told(found) for found in intervals if found)),
        Draws(**next(filter(None, intervals), {})),
        Protocol(*noise.most_common(1)[0][0]) if noise else Protocol(),
    )


def score_folder(results: Path, dataset: str, model: str, seed: str, decoding: str, direction: str) -> Path:
    """Returns where the matrices of a model's scores are."""
    return results / "attributions" / dataset / model / seed / decoding / direction / "scores"


def pair_of(content: dict[str, Any]) -> tuple[str, str]:
    """Returns the two languages of a metrics file."""
    pair = content["pair"]
    first, second = pair.split("-") if isinstance(pair, str) else values.texts(content, "pair")
    return first, second


def _dataset(content: dict[str, Any]) -> Dataset:
    return Dataset(values.text(content, "dataset"), pair_of(content), values.whole(content, "sentences", least=1))


def _sentences(path: Path, content: dict[str, Any]) -> SentenceFile:
    names = tuple(map(row_name, values.mappings(content, "rows")))
    return SentenceFile(path, names, values.whole(content, "sentences", least=1))


def _aligner_run(content: dict[str, Any], file: SentenceFile) -> AlignerRun:
    return AlignerRun(
        dataset=values.text(content, "dataset"),
        aligner=values.text(content, "aligner"),
        text=values.text(content, "text"),
        size=values.name(content, "size"),
        train_pairs=values.whole(content, "train_pairs"),
        scores={
            values.text(row, "links"): _score(row, SentenceRow(file, place))
            for place, row in enumerate(values.mappings(content, "rows"))
        },
    )


def _model_run(content: dict[str, Any], file: SentenceFile) -> ModelRun:
    if content["decoding"] not in (FORCED, FREE, DEV):
        raise ValueError(f"decoding {content['decoding']!r}")
    scores: dict[tuple[str, str, str], list[Score]] = {}
    for place, row in enumerate(values.mappings(content, "rows")):
        method, extraction, links = (values.text(row, name) for name in ("method", "extraction", "links"))
        parse(method)  # a name that nobody knows is damage
        found = scores.setdefault((without_noise_seed(method), extraction, links), [])
        found.append(_score(row, SentenceRow(file, place)))
    return ModelRun(
        dataset=values.text(content, "dataset"),
        model=values.text(content, "model"),
        architecture=values.text(content, "architecture"),
        seed=values.name(content, "seed"),
        decoding=values.text(content, "decoding"),
        scores={key: sorted(found, key=lambda score: score.noise_seed) for key, found in scores.items()},
    )


def without_noise_seed(method: str) -> str:
    """Returns a canonical method as it would be with the first noise seed."""
    return ",".join(part for part in method.split(",") if not part.startswith("seed="))


def _score(row: dict[str, Any], sentences: SentenceRow) -> Score:
    parameters = values.mapping(row, "parameters") if "parameters" in row else {}
    return Score(
        aer=_percent(row, "aer"),
        low=_percent(row, "aer_low"),
        high=_percent(row, "aer_high"),
        precision=_percent(row, "precision"),
        recall=_percent(row, "recall"),
        links=values.whole(row, "links_count"),
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


def interval_of(content: dict[str, Any]) -> dict[str, Any]:
    """Returns level, samples and seed of the interval of a metrics file; nothing if it does not tell all three."""
    found = values.mapping(content, "interval") if "interval" in content else {}
    if not {"level", "samples", "seed"} <= found.keys():
        return {}
    level = values.number(found, "level", 0, 100)
    samples = values.whole(found, "samples", least=1, most=int(RESAMPLES.most))
    return {"level": level, "samples": samples, "seed": values.whole(found, "seed")}


def _told(found: dict[str, Any]) -> str:
    return f"{found['level']:g} % bootstrap interval over sentences ({found['samples']} samples, seed {found['seed']})"


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if _NATURAL.fullmatch(text) else (1 << 62, text)


def _noise(rows: Iterable[dict[str, Any]]) -> list[tuple[float, int]]:
    """Returns the noise of the tables: that of methods which no curve varies."""
    smoothed = (row["parameters"] for row in rows if row.get("name") in ("smoothed_attention", "li_smoothgrad"))
    return [(values.number(each, "sigma", 0), values.whole(each, "n", least=1)) for each in smoothed]
