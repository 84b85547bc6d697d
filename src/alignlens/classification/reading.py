"""Labelled texts from tables: each line has a label and a text, or is an error with its line number."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

from alignlens.corpora.cleaning import normalise, tokenise
from alignlens.errors import InputError, nearest
from alignlens.io.text import stream_lines, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from alignlens.corpora.labelled import LabelledFile, LabelledSet

# The rules for apostrophes; all the sets on record are in English.
_LANGUAGE = "en"
_LONGEST_CELL = 1 << 24
_ESCAPED_BREAK = "\\n"


class Text(NamedTuple):
    """A labelled text, in words."""

    positive: bool
    words: list[str]


class Reading:
    """The texts of one split, and how many were left out for which reason."""

    def __init__(self) -> None:
        self.texts: list[Text] = []
        self.read = 0
        self.left_out = {"label": 0, "empty": 0, "too_long": 0}

    def add(self, entry: LabelledSet, part: LabelledFile, path: Path | str) -> None:
        """Reads one file; the first line that is wrong is an error."""
        for number, label, raw in _rows(entry, part, path):
            self.read += 1
            positive = _class(entry, label, path, number)
            if positive is None:
                self.left_out["label"] += 1
                continue
            text_words = words(normalise(tokenise(raw, _LANGUAGE) if entry.tokenise else raw, entry.lowercase))
            if not text_words and not entry.leave_out_empty:
                advice = "Remove the line, or set leave_out_empty: true."
                raise InputError("an empty text.", path, number, advice)
            reason = (
                "empty"
                if not text_words
                else "too_long"
                if len(text_words) > (entry.max_words or len(text_words))
                else None
            )
            if reason is None:
                self.texts.append(Text(positive, text_words))
            else:
                self.left_out[reason] += 1


def read_split(entry: LabelledSet, parts: Sequence[tuple[LabelledFile, Path | str]]) -> Reading:
    """Returns the texts of all parts of a split, one after the other."""
    reading = Reading()
    for part, path in parts:
        reading.add(entry, part, path)
    return reading


def _class(entry: LabelledSet, label: str, path: Path | str, line: int) -> bool | None:
    """Returns whether a label is one of the positive ones, or None for those that are left out."""
    if label in entry.positive or label in entry.negative:
        return label in entry.positive
    if label in entry.left_out:
        return None
    known = [*entry.positive, *entry.negative, *entry.left_out]
    problem = f"unknown label {label[:60]!r}; known: {', '.join(known)}{nearest(label[:60], known)}."
    raise InputError(problem, path, line, "Correct it, or add it to positive, negative or left_out.")


def _rows(entry: LabelledSet, part: LabelledFile, path: Path | str) -> Iterator[tuple[int, str, str]]:
    """Yields line number, label and text of every line of a file."""
    if part.label is not None:
        yield from ((number, part.label, line) for number, line in enumerate(stream_lines(path), start=1))
        return
    cells = _csv_cells(path) if entry.format == "csv" else _tsv_cells(path)
    width, label_place, text_places = 0, 0, [0]
    for place, (number, row) in enumerate(cells):
        if place == 0:
            width = len(row)
            label_place, *text_places = _places(entry, row, path)
            if entry.header:
                continue
        if len(row) != width:
            problem = f"{len(row)} columns, but line 1 has {width}."
            raise InputError(problem, path, number, "Every line needs the same columns.")
        yield number, row[label_place].strip(), " ".join(row[each] for each in text_places)
    if width == 0:
        raise InputError("the file is empty.", path, advice="Expected a table of labels and texts.")


def _tsv_cells(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(stream_lines(path), start=1):
        if "\t" not in line:
            problem = "no tab; there must be one between label and text."
            raise InputError(problem, path, number, "Check the file, or set format: csv.")
        yield number, line.split("\t")


def _csv_cells(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    usual = csv.field_size_limit(_LONGEST_CELL)  # of the whole process, so it is set back
    try:
        reader = csv.reader((f"{line}\n" for line in stream_lines(path)), strict=True)
        for row in reader:
            yield reader.line_num, [cell.replace(_ESCAPED_BREAK, " ") for cell in row]
    except csv.Error as error:
        raise InputError(f"not a table ({error}).", path, reader.line_num, "Check its quotes.") from None
    finally:
        csv.field_size_limit(usual)


def _places(entry: LabelledSet, first: Sequence[str], path: Path | str) -> list[int]:
    """Returns where the label and the texts stand in a line."""
    if entry.header and len(set(first)) < len(first):
        twice = next(name for name in first if first.count(name) > 1)
        raise InputError(f"two columns have the same name, {twice[:60]!r}.", path, 1, "Rename one of them.")
    return [_place(column, entry, first, path) for column in (entry.label_column, *entry.text_columns)]


def _place(column: str | int, entry: LabelledSet, first: Sequence[str], path: Path | str) -> int:
    if isinstance(column, int):
        if column > len(first):
            raise InputError(
                f"no column {column}; the table has {len(first)}.", path, 1, "Check label_column and text_column."
            )
        return column - 1
    if column not in first:
        shown = ", ".join(name[:30] for name in first[:10])
        advice = "Check label_column and text_column, or set header: false."
        raise InputError(f"no column {column!r}; the table has {shown}{nearest(column, first)}.", path, 1, advice)
    return first.index(column)
