"""Word vectors from a local text file, a word and its numbers a line (as GloVe's are)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from alignlens.errors import InputError
from alignlens.io.text import stream_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_SHOWN = 40


def read_vectors(path: Path | str, places: Mapping[str, int], width: int) -> tuple[NDArray[np.float32], int]:
    """Returns vectors by place, nan where the file has none, and how many it has; of a word twice the first counts."""
    vectors = np.full((len(places), width), np.nan, np.float32)
    seen: set[str] = set()
    number = 0
    for number, line in enumerate(stream_lines(path), start=1):
        cells = line.rstrip(" ").split(" ")
        if len(cells) != width + 1:
            problem = f"a vector of {len(cells) - 1} numbers, expected {width}."
            raise InputError(
                problem, path, number, "Give the width of the file with --width, and as the width of the model."
            )
        word = cells[0]
        numbers = [_number(cell, path, number) for cell in cells[1:]]
        if word in places and word not in seen:
            seen.add(word)
            vectors[places[word]] = numbers
    if number == 0:
        raise InputError("the file is empty.", path, advice="Expected a word and its numbers on each line.")
    return vectors, len(seen)


def _number(text: str, path: Path | str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > float(np.finfo(np.float32).max):
        raise InputError(f"{text[:_SHOWN]!r} is not a number.", path, line, "Check the file.")
    return value
