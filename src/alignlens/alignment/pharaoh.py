"""Pharaoh files: one line per sentence pair, links ``i-j`` (or ``i-j:score``) separated by blanks."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import LONGEST_SENTENCE, Alignment
from alignlens.errors import InputError
from alignlens.io.atomic import write_lines
from alignlens.io.text import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

# Five digits reach past the longest sentence an Alignment can hold; more would be a damaged file.
_PLAIN_LINE = re.compile(r" *(?:\d{1,5}-\d{1,5}(?: +\d{1,5}-\d{1,5})*)? *")
_LINK = re.compile(r"(\d+)([-p?])(\d+)(?::([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))?")


def read_links(
    path: Path | str,
    base: int = 0,
    source_lengths: Sequence[int] | None = None,
    target_lengths: Sequence[int] | None = None,
) -> Alignment:
    """Returns the links of a Pharaoh file whose words are counted from ``base``.

    With sentence lengths given, the number of lines and every index are checked against them.
    """
    lines = read_lines(path, allow_empty_file=source_lengths is not None and len(source_lengths) == 0)
    alignment = _parse_plain(lines, path, base)
    if alignment is None:
        alignment = _parse_general(lines, path, base)
    if source_lengths is not None and target_lengths is not None:
        check_ranges(alignment, source_lengths, target_lengths, path, base)
    return alignment


def write_links(path: Path | str, alignment: Alignment) -> None:
    """Writes ``i-j`` per link, zero-based and sorted; ``i-j:score`` where the alignment has scores."""
    write_lines(path, format_lines(alignment))


def format_lines(alignment: Alignment) -> Iterator[str]:
    """Yields one Pharaoh line per sentence pair."""
    if alignment.scores is None:
        texts = [f"{i}-{j}" for i, j in zip(alignment.source.tolist(), alignment.target.tolist(), strict=True)]
    else:
        texts = [
            f"{i}-{j}:{score:.6g}"
            for i, j, score in zip(
                alignment.source.tolist(), alignment.target.tolist(), alignment.scores.tolist(), strict=True
            )
        ]
    offsets = alignment.offsets().tolist()
    return (" ".join(texts[low:high]) for low, high in pairwise(offsets))


def parse_marked(
    lines: Sequence[str], path: Path | str, marks: str
) -> tuple[Integers, Integers, Integers, list[str], list[float | None]]:
    """Returns sentence, source, target (as written), mark and score of every link; errors name file and line."""
    rows: list[tuple[int, int, int]] = []
    kinds: list[str] = []
    scores: list[float | None] = []
    for number, line in enumerate(lines):
        for token in line.split():
            match = _LINK.fullmatch(token)
            if match is None or match[2] not in marks:
                wanted = ", ".join(f"i{mark}j" for mark in marks)
                raise InputError(f"{token!r} is not a link.", path, number + 1, f"Expected {wanted}.")
            rows.append((number, int(match[1]), int(match[3])))
            kinds.append(match[2])
            scores.append(float(match[4]) if match[4] else None)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2], kinds, scores


def shifted(
    sentence: Integers,
    source: Integers,
    target: Integers,
    sentences: int,
    path: Path | str,
    base: int,
    scores: NDArray[np.float64] | None = None,
) -> Alignment:
    """Returns the alignment of indices as written in a file that counts words from ``base``."""
    too_low = (source < base) | (target < base)
    if too_low.any():
        worst = int(np.flatnonzero(too_low)[0])
        raise InputError(
            f"link {source[worst]}-{target[worst]} with words counted from {base}.",
            path,
            int(sentence[worst]) + 1,
            "The file counts from 0: say --base 0.",
        )
    too_high = (source - base >= LONGEST_SENTENCE) | (target - base >= LONGEST_SENTENCE)
    if too_high.any():
        worst = int(np.flatnonzero(too_high)[0])
        raise InputError(
            f"link {source[worst]}-{target[worst]} beyond word {LONGEST_SENTENCE}.",
            path,
            int(sentence[worst]) + 1,
            "The file is damaged.",
        )
    return Alignment.from_arrays(sentence, source - base, target - base, sentences, scores)


def check_ranges(
    alignment: Alignment,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    path: Path | str,
    base: int = 0,
) -> None:
    """Raises unless every link lies inside its sentence pair and there is one line per pair."""
    if len(alignment) != len(source_lengths):
        raise InputError(
            f"{len(alignment)} lines for {len(source_lengths)} sentence pairs.",
            path,
            min(len(alignment), len(source_lengths)) + 1,
            "There must be one line per pair; a pair without links has an empty line.",
        )
    sentence, source, target = alignment.sentence, alignment.source, alignment.target
    rows = np.asarray(source_lengths, dtype=np.int64)[sentence]
    columns = np.asarray(target_lengths, dtype=np.int64)[sentence]
    outside = (source >= rows) | (target >= columns)
    if not outside.any():
        return
    worst = int(np.flatnonzero(outside)[0])
    where = f"link {source[worst] + base}-{target[worst] + base}"
    lengths = f"{rows[worst]} source and {columns[worst]} target words"
    line = int(sentence[worst]) + 1
    if rows[worst] == 0 or columns[worst] == 0:
        raise InputError(f"{where} on an empty sentence ({lengths}).", path, line, "Leave this line empty.")
    if base == 0 and int(source.min()) > 0 and int(target.min()) > 0:
        advice = "No link of the file is 0 on either side: it counts from 1, say --base 1."
    elif (source < columns).all() and (target < rows).all():
        advice = "Every link fits with the sides exchanged: swap source and target."
    else:
        advice = "Check that links and text belong together and the order of source and target."
    raise InputError(f"{where} is out of range ({lengths}).", path, line, advice)


def _parse_plain(lines: list[str], path: Path | str, base: int) -> Alignment | None:
    """Returns the alignment of lines that hold ``i-j`` only, or None if there is anything else in them."""
    if not all(map(_PLAIN_LINE.fullmatch, lines)):
        return None
    counts = [line.count("-") for line in lines]
    numbers = np.array(" ".join(lines).replace("-", " ").split(), dtype=np.int64).reshape(-1, 2)
    sentence = np.repeat(np.arange(len(lines), dtype=np.int64), counts)
    return shifted(sentence, numbers[:, 0], numbers[:, 1], len(lines), path, base)


def _parse_general(lines: list[str], path: Path | str, base: int) -> Alignment:
    """Returns the alignment of lines that may carry scores; raises at the first thing that is no link."""
    sentence, source, target, _, scores = parse_marked(lines, path, "-")
    given = [score for score in scores if score is not None]
    if given and len(given) != len(scores):
        worst = int(sentence[scores.index(None)]) + 1
        raise InputError("a link without a score among links with scores.", path, worst, "Give all or none.")
    values = np.array(given, dtype=np.float64) if given else None
    return shifted(sentence, source, target, len(lines), path, base, values)
