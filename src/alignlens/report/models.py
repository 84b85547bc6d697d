"""What a results folder holds of trained models: their cards, curves, translations and scores."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from alignlens.errors import InputError
from alignlens.io.text import check_equal_counts, read_lines
from alignlens.tracking.records import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from alignlens.report.collect import Failure
    from alignlens.tracking.records import RunRecord

MEASURES = ("dev_loss", "dev_accuracy", "dev_bleu")
_AGAIN = "Delete the folder and run the same command again."


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
class TrainedModel:
    """One model and what is known about it; nan where nobody measured."""

    id: ModelId
    architecture: str
    parameters: int
    updates: int
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


def read_models(
    results: Path, records: Iterable[RunRecord], folders: Sequence[Path] | None = None
) -> list[TrainedModel]:
    """Returns the models of some folders, or all found, by dataset, direction (its own first), name and seed."""
    journals = {record.journal: record for record in records}
    if folders is None:
        folders = [path.parent for path in results.glob("models/*/*/*/*/model/model.json")]
    found = [_read_model(results, folder, journals) for folder in folders]
    return sorted(
        found, key=lambda item: (item.id.dataset, _is_reverse(results, item.id.dataset, item.id.direction), item.id)
    )


def _id_of(results: Path, folder: Path) -> ModelId:
    """Returns which model a folder ``models/{dataset}/{direction}/{model}/{seed}/model`` is."""
    parts = folder.relative_to(results).parts if folder.is_relative_to(results) else ()
    if len(parts) != 6 or not parts[4].isdecimal():
        raise InputError(
            "is not a model of these results.",
            folder,
            advice=f"Expected {results}/models/dataset/direction/model/seed/model.",
        )
    return ModelId(parts[1], parts[2], parts[3], int(parts[4]))


def _read_model(results: Path, folder: Path, journals: dict[Path, RunRecord]) -> TrainedModel:
    name = _id_of(results, folder)
    scores = results / "translations" / str(name)
    bleu, forced = scores / "bleu.json", scores / "forced.json"
    record = journals.get(folder.with_name(f"{folder.name}{SUFFIX}"))
    card = folder / "model.json"
    return TrainedModel(
        id=name,
        architecture=str(_value(card, "spec", "architecture")),
        parameters=int(_number(card, "parameters")),
        updates=int(_number(card, "updates")),
        epochs=_number(card, "epochs"),
        kept=str(_value(card, "kept")),
        dev_loss=_number(card, "best", "dev_loss"),
        accuracy=_number(forced, "accuracy") if forced.is_file() else math.nan,
        perplexity=_number(forced, "perplexity") if forced.is_file() else math.nan,
        bleu=_number(bleu, "bleu") if bleu.is_file() else math.nan,
        signature=str(_value(bleu, "signature")) if bleu.is_file() else "",
        seconds=record.latest.get("seconds", math.nan) if record else math.nan,
        tokens_per_second=_usual_speed(record) if record else math.nan,
        changed=card.stat().st_mtime,
    )


def _value(path: Path, *keys: str) -> Any:
    """Returns what a JSON file has under a key, or under a key of a key."""
    value: Any = _read_json(path)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"{'.'.join(keys)} is missing.", path, advice=_AGAIN)
        value = value[key]
    return value


def _number(path: Path, *keys: str) -> float:
    value = _value(path, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{'.'.join(keys)} is {value!r}, not a number.", path, advice=_AGAIN)
    return float(value)


def _read_json(path: Path) -> dict[str, Any]:
    """Returns the mapping in a file."""
    try:
        content = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg}).", path, error.lineno, _AGAIN) from None
    if not isinstance(content, dict):
        raise InputError("not a mapping.", path, 1, _AGAIN)
    return content


def _usual_speed(record: RunRecord) -> float:
    """Returns the median speed of a training: validation and interruptions do not count."""
    speeds = [point.value for point in record.points if point.name == "target_tokens_per_second"]
    return median(speeds) if speeds else math.nan


def read_curve(results: Path, name: ModelId) -> Curve:
    """Returns the learning curve of a model; a measure that was never taken has no points."""
    path = results / "models" / str(name) / "model" / "curves.csv"
    points: dict[str, list[tuple[int, float]]] = {measure: [] for measure in MEASURES}
    if not path.is_file():
        return Curve(name, points)
    rows = csv.DictReader(read_lines(path))
    if not {"update", *MEASURES} <= set(rows.fieldnames or ()):
        raise InputError(f"no columns update, {', '.join(MEASURES)}.", path, 1, _AGAIN)
    for number, row in enumerate(rows, start=2):
        try:
            for measure in MEASURES:
                if row[measure]:
                    points[measure].append((int(row["update"]), float(row[measure])))
        except (TypeError, ValueError) as error:
            raise InputError(f"not a number ({error}).", path, number, _AGAIN) from None
    return Curve(name, points)


def read_samples(results: Path, models: Sequence[TrainedModel], dataset: str, count: int) -> list[Sample]:
    """Returns a few test sentences of every direction, evenly spaced over the text, with each model's translation.

    Of several seeds the first is shown.
    """
    samples = []
    mine = [item.id for item in models if item.id.dataset == dataset]
    for direction in dict.fromkeys(name.direction for name in mine):
        sides = _sides(results, dataset, direction)
        paths: dict[str, Path] = {}
        for name in mine:
            path = results / "translations" / str(name) / "test.txt"
            if name.direction == direction and path.is_file():
                paths.setdefault(name.model, path)
        if not paths or not all(path.is_file() for path in sides):
            continue
        texts = [read_lines(path) for path in (*sides, *paths.values())]
        check_equal_counts([*sides, *paths.values()], [len(text) for text in texts])
        for k in evenly_spaced([len(line.split()) for line in texts[0]], count):
            translations = dict(zip(paths, (text[k] for text in texts[2:]), strict=True))
            samples.append(Sample(direction, k + 1, texts[0][k], texts[1][k], translations))
    return samples


def _sides(results: Path, dataset: str, direction: str) -> tuple[Path, Path]:
    """Returns the test text that models of a direction read, and the one they should write."""
    folder = results / "data" / dataset
    source, target = folder / "test.source", folder / "test.target"
    return (target, source) if _is_reverse(results, dataset, direction) else (source, target)


def _is_reverse(results: Path, dataset: str, direction: str) -> bool:
    """Returns whether a direction translates from the dataset's target side, as its preparation report tells."""
    path = results / "data" / dataset / "preparation.json"
    pair = _read_json(path).get("pair") if path.is_file() else None
    return isinstance(pair, list) and direction == "-".join(reversed(pair))


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
