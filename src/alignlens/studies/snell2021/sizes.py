"""Table 9: how many texts there are, how long they are, and how many words are known; printed and ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.text import read_lines, words
from alignlens.results.paths import CLASSES_PREPARED, PIECES, SUBWORDS
from alignlens.studies.snell2021.layout import DEV, TRAIN, printed_task
from alignlens.studies.snell2021.published import Size, sizes, vocabularies
from alignlens.studies.tables import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from alignlens.results.manifest import Manifest

COLUMNS = ("table", "printed_task", "task", "split", "name", "published", "ours", "difference")
NOTHING = Size(math.nan, math.nan, math.nan)
_ADVICE = "Delete it and run the pipeline again."
_SUBWORDS_FILE = "subwords.json"


@dataclass(frozen=True)
class Text:
    """A set of texts of ours: its splits, and how many words or pieces are known; nan if unknown."""

    task: str
    splits: dict[str, Size]
    vocabulary: float


@dataclass(frozen=True)
class SizeLine:
    """A split: what the paper says of it, and what there is here."""

    printed: str | None
    task: str | None
    split: str
    published: Size
    ours: Size
    published_vocabulary: float
    vocabulary: float

    def pairs(self) -> dict[str, tuple[float, float]]:
        """Returns print and ours by name."""
        both = zip(Size._fields, self.published, self.ours, strict=True)
        named = {name: (printed, ours) for name, printed, ours in both}
        return {**named, "vocabulary": (self.published_vocabulary, self.vocabulary)}


def read_texts(manifest: Manifest, tasks: Iterable[str]) -> list[Text]:
    """Returns the texts of classification, and of those tasks that translate; what is damaged is an InputError."""
    classified = [_classified(path, names["corpus"]) for path, names in manifest.find(CLASSES_PREPARED)]
    known = {text.task for text in classified}
    translated = (_translated(manifest, task) for task in tasks if task not in known)
    return [*classified, *(text for text in translated if text is not None)]


def _classified(path: Path, corpus: str) -> Text:
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        splits = values.mapping(content, "splits")
        return Text(
            corpus,
            {split: _size(values.mapping(splits, split)) for split in (TRAIN, DEV)},
            values.whole(values.mapping(content, "vocabulary"), "words", least=1),
        )


def _size(split: dict[str, Any]) -> Size:
    return Size(values.number(split, "median_words", 0), math.nan, values.whole(split, "texts", least=1))


def _translated(manifest: Manifest, dataset: str) -> Text | None:
    """Returns the pieces of a dataset, without BEGIN and END; None if none are among the files."""
    splits = {}
    for split in (TRAIN, DEV):
        sides = [manifest.path(PIECES, dataset=dataset, split=split, side=side) for side in ("source", "target")]
        lengths = [[len(words(line)) for line in read_lines(path)] if path else [] for path in sides]
        if all(lengths):
            source, target = (float(median(side)) for side in lengths)
            splits[split] = Size(source, target, len(lengths[0]))
    folder = manifest.path(SUBWORDS, dataset=dataset)
    return Text(dataset, splits, _pieces(folder / _SUBWORDS_FILE) if folder else math.nan) if splits else None


def _pieces(path: Path) -> float:
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        return values.whole(values.mapping(values.mapping(content, "statistics"), "source"), "vocabulary", least=1)


def size_lines(texts: Iterable[Text]) -> list[SizeLine]:
    """Returns Table 9: the tasks of print with ours beside them, then ours that are not in print."""
    listed, printed, known = list(texts), sizes(), vocabularies()
    lines = []
    for task in dict.fromkeys(task for task, _ in printed):
        of_task = [text for text in listed if printed_task(text.task) == task]
        for split in (TRAIN, DEV):
            about = task, split, printed[task, split], known[task]
            lines += [_line(*about, text.task, text.splits.get(split, NOTHING), text.vocabulary) for text in of_task]
            if not of_task:
                lines.append(_line(*about, None, NOTHING, math.nan))
    for text in listed:
        if printed_task(text.task) is None:
            lines += [
                SizeLine(None, text.task, split, NOTHING, size, math.nan, text.vocabulary)
                for split, size in text.splits.items()
            ]
    return lines


def _line(
    printed: str, split: str, published: Size, known: int, task: str | None, ours: Size, vocabulary: float
) -> SizeLine:
    return SizeLine(printed, task, split, published, ours, known, vocabulary)


def size_records(lines: Iterable[SizeLine]) -> list[dict[str, Any]]:
    """Returns one record per number, keys in the order of COLUMNS."""
    return [
        dict(
            zip(
                COLUMNS,
                ("9", line.printed or "", line.task or "", line.split, name, *map(rounded, (*pair, pair[1] - pair[0]))),
                strict=True,
            )
        )
        for line in lines
        for name, pair in line.pairs().items()
    ]
