"""What results hold of trained models: their cards, curves, translations and scores."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import read_seal
from alignlens.io.tables import read_table
from alignlens.io.text import check_equal_counts, read_lines
from alignlens.results.paths import BLEU, FORCED_SCORES, PREPARED, TEST, TEXT, TRAINED, TRANSLATION
from alignlens.tracking.records import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from alignlens.report.collect import Failure
    from alignlens.results.manifest import Manifest
    from alignlens.tracking.records import RunRecord

MEASURES = ("dev_loss", "dev_accuracy", "dev_bleu")
PREPARE_AGAIN = "Delete it and make it again with: alignlens data prepare, or run the pipeline again."
_AGAIN = "Delete its folder and make it again with: alignlens train, or run the pipeline again."
_BLEU_AGAIN = "Delete it and make it again with: alignlens bleu, or run the pipeline again."
_FORCE_AGAIN = "Delete it and make it again with: alignlens force, or run the pipeline again."
_WHOLE = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


@dataclass(frozen=True, order=True)
class ModelId:
    """The names that make the path of a trained model."""

    dataset: str
    direction: str
    model: str
    seed: int

    def __str__(self) -> str:
        return f"{self.dataset}/{self.direction}/{self.model}/{self.seed}"


@dataclass(frozen=True)
class ModelCard:
    """One model and what is known about it; nan where it was not measured."""

    id: ModelId
    architecture: str
    parameters: int
    updates: float
    epochs: float
    kept: str
    dev_loss: float
    accuracy: float
    perplexity: float
    bleu: float
    signature: str
    seconds: float
    tokens_per_second: float
    changed: float
    """When the model was written, in seconds since 1970."""
    imported: bool = False
    """Whether it is from elsewhere, so that nothing is known of its training."""


@dataclass(frozen=True)
class Curve:
    """The validations of one training: update by update, the measures that were taken."""

    id: ModelId
    points: dict[str, list[tuple[int, float]]]


@dataclass(frozen=True)
class Sample:
    """One test sentence of a direction: what was to be translated, the reference, and what the models made of it."""

    direction: str
    number: int
    source: str
    reference: str
    translations: dict[str, str]


def read_models(manifest: Manifest, records: Iterable[RunRecord]) -> list[ModelCard]:
    """Returns the models of a manifest, by dataset, direction (its own first), name and seed."""
    journals = {record.journal: record for record in records}
    cards = [_read_model(manifest, folder, _id_of(folder, names), journals) for folder, names in manifest.find(TRAINED)]
    return sorted(
        cards, key=lambda item: (item.id.dataset, _is_reverse(manifest, item.id.dataset, item.id.direction), item.id)
    )


def expected_models(manifest: Manifest) -> list[ModelId]:
    """Returns the models that a configuration trains."""
    return [
        ModelId(names["dataset"], names["direction"], names["model"], int(names["seed"]))
        for names in manifest.expected(TRAINED)
        if _WHOLE.fullmatch(names["seed"])
    ]


def _id_of(folder: Path, names: Mapping[str, str]) -> ModelId:
    """Returns which model a folder is."""
    if not _WHOLE.fullmatch(names["seed"]):
        raise InputError("is not the folder of a model: its seed is not a number.", folder, advice="Move it away.")
    return ModelId(names["dataset"], names["direction"], names["model"], int(names["seed"]))


def _read_model(manifest: Manifest, folder: Path, name: ModelId, journals: dict[Path, RunRecord]) -> ModelCard:
    record = journals.get(folder.with_name(f"{folder.name}{SUFFIX}"))
    path = folder / "model.json"
    card = read_json(path, _AGAIN)
    bleu, signature = _read_bleu(manifest.path(BLEU, **asdict(name)))
    accuracy, perplexity = _read_forced(manifest.path(FORCED_SCORES, **asdict(name)))
    with taking(path, _AGAIN):
        imported = "imported_from" in card
        return ModelCard(
            id=name,
            architecture=values.text(values.mapping(card, "spec"), "architecture"),
            parameters=values.whole(card, "parameters"),
            updates=math.nan if imported else values.whole(card, "updates"),
            epochs=math.nan if imported else values.number(card, "epochs", 0),
            kept="" if imported else values.text(card, "kept"),
            dev_loss=math.nan if imported else values.number(values.mapping(card, "best"), "dev_loss"),
            accuracy=accuracy,
            perplexity=perplexity,
            bleu=bleu,
            signature=signature,
            seconds=record.latest.get("seconds", math.nan) if record and not imported else math.nan,
            tokens_per_second=_usual_speed(record) if record else math.nan,
            changed=path.stat().st_mtime,
            imported=imported,
        )


def _read_bleu(path: Path | None) -> tuple[float, str]:
    """Returns BLEU and its signature; nan where it was not measured."""
    if path is None:
        return math.nan, ""
    content = read_json(path, _BLEU_AGAIN)
    with taking(path, _BLEU_AGAIN):
        # Rounding lets a perfect score be a little more than 100.
        return values.number(content, "bleu", 0, 100.001), values.text(content, "signature")


def _read_forced(path: Path | None) -> tuple[float, float]:
    """Returns accuracy and perplexity of forced decoding; nan where they were not measured."""
    if path is None:
        return math.nan, math.nan
    content = read_json(path, _FORCE_AGAIN)
    with taking(path, _FORCE_AGAIN):
        return values.number_or_nan(content, "accuracy", 0, 1), values.number_or_nan(content, "perplexity", 0)


def _usual_speed(record: RunRecord) -> float:
    """Returns the median speed of a training: validation and interruptions do not count."""
    speeds = [point.value for point in record.points if point.name == "target_tokens_per_second"]
    return median(speeds) if speeds else math.nan


def read_curve(manifest: Manifest, name: ModelId) -> Curve:
    """Returns the learning curve of a model; a measure that was never taken has no points."""
    path = manifest.root / TRAINED.of(**asdict(name)) / "curves.csv"
    points: dict[str, list[tuple[int, float]]] = {measure: [] for measure in MEASURES}
    if (seal := read_seal(path.parent)) is not None:
        seal.check(path.name)
    elif not path.exists():
        return Curve(name, points)
    for number, row in enumerate(read_table(path, _AGAIN, ("update", *MEASURES)), start=2):
        for measure in MEASURES:
            if row[measure]:
                points[measure].append((_update(row["update"], path, number), _measured(row[measure], path, number)))
    return Curve(name, points)


def _update(text: str, path: Path, line: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise InputError(f"update {text[:60]!r} is not a number.", path, line, _AGAIN)
    return int(text)


def _measured(text: str, path: Path, line: int) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise InputError(f"{text[:60]!r} is not a number.", path, line, _AGAIN)
    return number


def read_samples(manifest: Manifest, models: Sequence[ModelCard], dataset: str, count: int) -> list[Sample]:
    """Returns a few test sentences of every direction, evenly spaced over the text, with each model's translation.

    Of several seeds the first is shown.
    """
    samples = []
    own = [item.id for item in models if item.id.dataset == dataset]
    for direction in dict.fromkeys(name.direction for name in own):
        sides = _sides(manifest, dataset, direction)
        paths: dict[str, Path] = {}
        for name in own:
            path = manifest.path(TRANSLATION, **asdict(name))
            if name.direction == direction and path is not None:
                paths.setdefault(name.model, path)
        if not paths or len(sides) != 2:
            continue
        texts = [read_lines(path) for path in (*sides, *paths.values())]
        check_equal_counts([*sides, *paths.values()], [len(text) for text in texts])
        for k in evenly_spaced([len(line.split()) for line in texts[0]], count):
            translations = dict(zip(paths, (text[k] for text in texts[2:]), strict=True))
            samples.append(Sample(direction, k + 1, texts[0][k], texts[1][k], translations))
    return samples


def _sides(manifest: Manifest, dataset: str, direction: str) -> list[Path]:
    """Returns the test text that models of a direction read, and the one they should write, as far as it is there."""
    sides = ("target", "source") if _is_reverse(manifest, dataset, direction) else ("source", "target")
    paths = (manifest.path(TEXT, dataset=dataset, split=TEST, side=side) for side in sides)
    return [path for path in paths if path is not None]


def _is_reverse(manifest: Manifest, dataset: str, direction: str) -> bool:
    """Returns whether a direction translates from the dataset's target side, as its preparation report tells."""
    path = manifest.path(PREPARED, dataset=dataset)
    if path is None:
        return False
    content = read_json(path, PREPARE_AGAIN)
    with taking(path, PREPARE_AGAIN):
        return direction == "-".join(reversed(values.texts(content, "pair")))


def evenly_spaced(lengths: Sequence[int], count: int, shortest: int = 4, longest: int = 30) -> list[int]:
    """Returns the places of a few sentences of readable length (of any, if there are none), evenly spaced."""
    readable = [k for k, length in enumerate(lengths) if shortest <= length <= longest] or list(range(len(lengths)))
    count = min(count, len(readable))
    return [readable[(2 * k + 1) * len(readable) // (2 * count)] for k in range(count)]


def why_absent(name: ModelId, failures: Sequence[Failure]) -> str:
    """Returns why there is no such model: ``failed`` or ``killed`` if a journal says so, otherwise ``not run``."""
    wanted = {"dataset": name.dataset, "direction": name.direction, "model": name.model, "seed": str(name.seed)}
    for failure in failures:
        if all(str(failure.identity.get(key)) == value for key, value in wanted.items()):
            return failure.status.lower()
    return "not run"
