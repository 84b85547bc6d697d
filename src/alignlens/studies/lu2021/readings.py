"""What the files of a results folder say: comparisons of BLEU, translations, trained models and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.errors import InputError
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.text import read_parallel
from alignlens.metrics.bleu import bleu_of, sentence_counts
from alignlens.metrics.calibration import CalibrationSums
from alignlens.results.paths import (
    BLEU,
    CALIBRATION_SENTENCES,
    COMPARISON,
    PREPARED,
    TEST,
    TEXT,
    TRAINED,
    TRANSLATION,
)
from alignlens.studies.lu2021.runs import rank
from alignlens.studies.tally import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest

    Counts = NDArray[np.int64]

_AGAIN = "Delete it and run the pipeline again."
_TOKENIZER = re.compile(r"(?:^|\|)tok:([a-z0-9]+)")
_CARD = "model.json"
_ROUNDING = 1e-6


class Run(NamedTuple):
    """A model of the study in one direction, all its seeds."""

    dataset: str
    direction: str
    model: str

    @property
    def test_set(self) -> Bitext:
        """What it translates."""
        return Bitext(self.dataset, self.direction)


class Bitext(NamedTuple):
    """A dataset in one direction: what its test text is translated in."""

    dataset: str
    direction: str

    def __str__(self) -> str:
        return f"{self.dataset} {self.direction}"

    def run(self, model: str) -> Run:
        """Returns a model that translates it."""
        return Run(self.dataset, self.direction, model)

    def place(self, what: str = "") -> Place:
        """Returns where a comparison of it happens."""
        return Place(self.dataset, self.direction, what)


@dataclass(frozen=True)
class Text:
    """How many pairs a dataset has, and which languages, the source first."""

    pair: tuple[str, str]
    train: int
    dev: int
    test: int


@dataclass(frozen=True)
class Card:
    """What a trained model says of itself; ``alpha`` is None without masks."""

    parameters: int
    updates: int
    vocabulary: tuple[int, int]
    alpha: float | None


class Compared(NamedTuple):
    """A system of a comparison: BLEU with its interval, the same of its difference from the baseline, and p-values.

    What is not known is nan: all about differences for the baseline, the last two p-values for several seeds.
    """

    model: str
    bleu: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    p_value: float
    p_bootstrap: float
    p_randomisation: float
    seeds: int


@dataclass(frozen=True)
class BleuComparison:
    """Systems on one test set, and how their BLEU was computed."""

    name: str
    test_set: Bitext
    baseline: str
    signature: str
    sentences: int
    systems: tuple[Compared, ...]

    def of(self, model: str) -> Compared | None:
        """Returns a system."""
        return next((system for system in self.systems if system.model == model), None)


def read_texts(manifest: Manifest) -> dict[str, Text]:
    """Returns the sizes of datasets by name."""
    texts = {}
    for path, names in manifest.find(PREPARED):
        content = read_json(path, _AGAIN)
        with taking(path, _AGAIN):
            splits = values.mapping(content, "splits")
            sizes = [values.whole(values.mapping(splits, name), "pairs") for name in ("train", "dev", "test")]
            source, target = values.texts(content, "pair")
            texts[names["dataset"]] = Text((source, target), *sizes)
    return texts


def read_comparisons(manifest: Manifest) -> list[BleuComparison]:
    """Returns the comparisons of models of this study."""
    comparisons = []
    for path, names in manifest.find(COMPARISON):
        if not names["comparison"].startswith("lu_"):
            continue
        content = read_json(path, _AGAIN)
        with taking(path, _AGAIN):
            systems = [_compared(entry) for entry in values.mappings(content, "systems")]
            if not systems:
                raise ValueError("no systems")
            systems.sort(key=lambda each: rank(each.model))
            stated = (values.text(content, "baseline"), values.text(content, "signature"))
            test_set = Bitext(names["dataset"], names["direction"])
            sentences = values.whole(content, "sentences", least=1)
            comparisons.append(BleuComparison(names["comparison"], test_set, *stated, sentences, tuple(systems)))
    return sorted(comparisons, key=lambda each: rank(each.systems[-1].model))


def _compared(entry: dict[str, Any]) -> Compared:
    known = {name: values.number_or_nan(entry, name) for name in Compared._fields[2:-1]}
    model, bleu = values.text(entry, "system"), values.number(entry, "bleu", 0, 100)
    return Compared(model, bleu, seeds=len(values.mappings(entry, "seeds")), **known)


def read_cards(manifest: Manifest) -> dict[Run, Card]:
    """Returns what the models of this study are; of several seeds the first speaks."""
    cards: dict[Run, Card] = {}
    for path, run, _ in _of_study(manifest.find(TRAINED)):
        if run not in cards:
            cards[run] = _card(path / _CARD)
    return cards


def _card(path: Path) -> Card:
    content = read_json(path, _AGAIN)
    with taking(path, _AGAIN):
        spec, training = values.mapping(content, "spec"), values.mapping(content, "training")
        objective = values.mapping(training, "objective")
        return Card(
            values.whole(content, "parameters", least=1),
            values.whole(content, "updates"),
            (values.whole(spec, "source_vocab", least=1), values.whole(spec, "target_vocab", least=1)),
            values.number(objective, "alpha") if objective.get("name") == "mask_game" else None,
        )


def read_translations(manifest: Manifest, texts: dict[str, Text]) -> dict[Run, dict[str, Counts]]:
    """Returns what BLEU counts in every sentence, by model and seed; it must come to the BLEU that was scored."""
    translations: dict[Run, dict[str, Counts]] = {}
    for path, run, seed in _of_study(manifest.find(BLEU)):
        translation = manifest.path(TRANSLATION, **run._asdict(), seed=seed)
        if translation is None or run.dataset not in texts:
            continue
        side = "target" if run.direction == "-".join(texts[run.dataset].pair) else "source"
        reference = manifest.path(TEXT, dataset=run.dataset, split=TEST, side=side)
        if reference is None:
            continue
        content = read_json(path, _AGAIN)
        with taking(path, _AGAIN):
            scored, tokenizer = values.number(content, "bleu"), _TOKENIZER.search(values.text(content, "signature"))
            if tokenizer is None:
                raise ValueError("a signature without tok")
        hypotheses, references = read_parallel(translation, reference)
        counts = sentence_counts(hypotheses, references, tokenizer[1])
        if abs(float(bleu_of(counts.sum(axis=0)[None])[0]) - scored) > _ROUNDING:
            raise InputError("is not the BLEU of the translation beside it.", path, advice=_AGAIN)
        translations.setdefault(run, {})[seed] = counts
    return translations


def read_calibrations(manifest: Manifest) -> dict[Run, dict[str, CalibrationSums]]:
    """Returns what attention and masks say of a text, by model and seed."""
    calibrations: dict[Run, dict[str, CalibrationSums]] = {}
    for path, run, seed in _of_study(manifest.find(CALIBRATION_SENTENCES)):
        calibrations.setdefault(run, {})[seed] = CalibrationSums.load(path)
    return calibrations


def _of_study(files: list[tuple[Path, dict[str, str]]]) -> Iterator[tuple[Path, Run, str]]:
    """Yields files of models of this study, with seeds, in the order of tables."""
    for path, names in sorted(files, key=lambda file: rank(file[1]["model"])):
        if names["model"].startswith("lu_"):
            yield path, Run(names["dataset"], names["direction"], names["model"]), names["seed"]
