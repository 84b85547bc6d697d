"""What a study asks of the pipeline, as plain data. The plan builds the union of all requests, equal ones once.

A study is shown what the configuration has to offer. Models of the configuration are for every study that can use them.
A model that a study asks for is its own: no other study asks it anything, since none is shown it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.results.paths import DEV, FINAL, FORCED, FREE, SPLITS, TEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alignlens.results.protocol import Protocol


class OfferedDataset(NamedTuple):
    """A dataset, and whether its test and its dev text have gold links."""

    name: str
    gold: bool
    dev_gold: bool


class OfferedModel(NamedTuple):
    """A translation model of the configuration: its architecture and the sizes that tell layers and heads."""

    name: str
    architecture: str
    sizes: Mapping[str, Any]


class OfferedAligner(NamedTuple):
    """An aligner of the configuration, trained on all text or on the first pairs."""

    name: str
    text: str
    size: str


@dataclass(frozen=True)
class Offer:
    """What a configuration has, and what it varies."""

    datasets: tuple[OfferedDataset, ...]
    models: tuple[OfferedModel, ...]
    aligners: tuple[OfferedAligner, ...]
    seeds: tuple[int, ...]
    directions: str
    decodings: tuple[str, ...]
    protocol: Protocol

    @property
    def scored(self) -> list[OfferedDataset]:
        """The datasets whose test text has gold links."""
        return [dataset for dataset in self.datasets if dataset.gold]


@dataclass(frozen=True)
class ModelRequest:
    """A model to train besides those of the configuration, under a name of its own.

    ``model`` and ``training`` are changes of the preset; objective and snapshots are settings of the training. What is
    None is as in the configuration.
    """

    name: str
    preset: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    pairs: int | None = None
    """Training pairs, the first of the text; None for all."""
    start_from: str | None = None
    """The model whose weights it begins with, of the same dataset, direction and seed."""
    datasets: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    directions: str | None = None
    translates: bool = True
    """Whether it translates the test text; what only learns to attend need not."""


@dataclass(frozen=True)
class TextRequest:
    """Some pairs of a text, under a name that stands where ``test`` or ``dev`` may stand in an attribution.

    With partners exchanged, forced decoding gives a model prefixes that have nothing to do with what it reads.
    """

    name: str
    of: str = TEST
    lengths: tuple[int, int] | str | None = None
    """Pieces of source and target; ``common`` for those that most pairs have, None for any."""
    pairs: int | None = None
    exchanged: bool = False
    seed: int = 1
    skip: int = 0
    """First pairs that are left out, such as those that models are trained on."""

    def options(self) -> list[str]:
        """Returns what ``alignlens select`` is told."""
        lengths: list[str] = []
        if isinstance(self.lengths, tuple):
            lengths = [f"--source-length={self.lengths[0]}", f"--target-length={self.lengths[1]}"]
        elif self.lengths is not None:
            lengths = ["--common-length"]
        pairs = [] if self.pairs is None else [f"--pairs={self.pairs}"]
        lengths += [f"--skip={self.skip}"] if self.skip else []
        return [*lengths, *pairs, *(["--exchange"] if self.exchanged else []), f"--seed={self.seed}"]


@dataclass(frozen=True)
class AttributionRequest:
    """Methods to ask a model with, in every direction that it is trained in."""

    dataset: str
    model: str
    methods: tuple[str, ...]
    decoding: str = FORCED
    split: str = TEST
    """The test or dev text, or a text that was asked for."""
    weights: str = FINAL
    """The weights that training ended in, or the update of a snapshot."""
    seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.decoding == FREE and self.split in SPLITS and (self.split, self.weights) != (TEST, FINAL):
            raise ValueError(
                "a model translates selected texts, and the test text with the weights that its training ended in"
            )


@dataclass(frozen=True)
class TrajectoryRequest:
    """Methods to ask a model with at every snapshot that it keeps and at its end; the text is forced.

    With ``bleu`` it also translates the text at each of them. Without ``snapshots`` it is asked at its end alone.
    """

    dataset: str
    model: str
    methods: tuple[str, ...]
    split: str = DEV
    bleu: bool = False
    seeds: tuple[int, ...] | None = None
    snapshots: bool = True


@dataclass(frozen=True)
class ClassifierRequest:
    """A classifier of labelled texts, to be trained with each seed and asked at all its checkpoints."""

    corpus: str
    name: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    items: Mapping[str, int]
    """The splits it is asked about, and how many of their first texts."""


class TrainedRun(NamedTuple):
    """One training of a translation model or a classifier."""

    model: str
    seed: int


#: What ``alignlens agreement`` reads of a run, by the option that names it.
_READ = {
    "attention": ("attention", "grad_input"),
    "again": ("attention", "probe"),
    "uniform": ("probe",),
    "proxy": ("probe",),
    "frozen": ("attention",),
}


@dataclass(frozen=True)
class AgreementRequest:
    """How far trained runs agree on what matters in one text; what ``alignlens agreement`` is told."""

    task: str
    """A dataset, or a set of labelled texts."""
    split: str
    attention: TrainedRun
    again: tuple[TrainedRun, ...]
    uniform: TrainedRun
    proxy: TrainedRun
    frozen: TrainedRun | None = None
    logistic: bool = False
    classified: bool = False
    """Whether the runs are classifiers."""

    def runs(self) -> dict[str, tuple[TrainedRun, ...]]:
        """Returns the runs by the option that names them."""
        frozen = () if self.frozen is None else (self.frozen,)
        one = {"attention": (self.attention,), "again": self.again, "uniform": (self.uniform,)}
        return {**one, "proxy": (self.proxy,), "frozen": frozen}

    def reads(self, run: TrainedRun) -> set[str]:
        """Returns what is read of a classifier at each of its checkpoints."""
        return {quantity for option, runs in self.runs().items() if run in runs for quantity in _READ[option]}


@dataclass(frozen=True)
class CalibrationRequest:
    """What attention and masks of a model say of a text, in every direction that it is trained in."""

    dataset: str
    model: str
    split: str = TEST
    """The test or dev text, or a text that was asked for."""
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ComparisonRequest:
    """Models whose BLEU is compared with that of a baseline, with tests of significance.

    They are compared in every direction that all of them are trained in, with all seeds that all of them have. The
    baseline is one of ``models``, or one besides.
    """

    name: str
    dataset: str
    models: tuple[str, ...]
    baseline: str

    def systems(self) -> tuple[str, ...]:
        """Returns the baseline, then the others."""
        return (self.baseline, *(model for model in self.models if model != self.baseline))


def common_seeds(several: Iterable[Sequence[int]]) -> list[int]:
    """Returns the seeds that all have, in ascending order."""
    return sorted(set.intersection(*map(set, several)))


@dataclass(frozen=True)
class ToyRequest:
    """A generated task that small models learn, many seeds at a time."""

    name: str
    task: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class EncoderRequest:
    """Encoders to look into: pretrained ones by name, those of our own Transformers besides, and what they read."""

    pretrained: Mapping[str, str]
    text: str | None
    sequences: int
    tokens: int


@dataclass(frozen=True)
class Requests:
    """All that a study asks for; aligners are some of those that the configuration has."""

    models: Sequence[ModelRequest] = ()
    attributions: Sequence[AttributionRequest] = ()
    aligners: Sequence[OfferedAligner] = ()
    encoders: EncoderRequest | None = None
    texts: Sequence[TextRequest] = ()
    trajectories: Sequence[TrajectoryRequest] = ()
    classifiers: Sequence[ClassifierRequest] = ()
    agreements: Sequence[AgreementRequest] = ()
    toys: Sequence[ToyRequest] = ()
    counts: Sequence[str] = ()
    """Datasets whose words are counted together, source with target."""
    calibrations: Sequence[CalibrationRequest] = ()
    comparisons: Sequence[ComparisonRequest] = ()
