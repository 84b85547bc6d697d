"""Paragraphs of running text, and sequences of two of them as BERT reads them (Kobayashi et al. 2020, section 4)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from alignlens.io.text import stream_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

FEWEST_WORDS = 20
_FEWEST_LETTERS = 0.9  # letters and spaces, as a share of all characters: less is code
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_COLUMNS = re.compile(r"\S {3,}\S")


def read_paragraphs(path: Path | str) -> Iterator[str]:
    """Yields the paragraphs of a text file, plain or gzip, each as one line; blank lines separate them."""
    lines: list[str] = []
    for line in stream_lines(path):
        if stripped := line.strip():
            lines.append(stripped)
        elif lines:
            yield " ".join(lines)
            lines = []
    if lines:
        yield " ".join(lines)


def manual_paragraphs() -> list[str]:
    """Returns the paragraphs of prose in the manual that comes with Python, by topic: the same on every machine."""
    # Half a megabyte that only this function needs.
    from pydoc_data.topics import topics

    parts = (part for name in sorted(topics) for part in _BLANK_LINE.split(topics[name]))
    # Topics quote each other: every paragraph once, where it came first.
    return list(dict.fromkeys(" ".join(part.split()) for part in parts if is_prose(part)))


def is_prose(text: str) -> bool:
    """Returns whether a paragraph is running text: long enough, a full stop at its end, no code, no table."""
    line = " ".join(text.split())
    if len(line.split(" ")) < FEWEST_WORDS or not line.endswith("."):
        return False
    if ">>>" in line or any(_COLUMNS.search(row) for row in text.splitlines()):
        return False
    return sum(character.isalpha() or character == " " for character in line) >= _FEWEST_LETTERS * len(line)


def paragraph_pairs(
    paragraphs: Iterable[str], ids_of: Callable[[str], Sequence[int]], begin: int, separator: int, tokens: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields ids and segments of ``begin p1 separator p2 separator`` for every two paragraphs, in their order.

    A sequence has at most ``tokens`` tokens; paragraphs without any token are passed over.
    """
    tokenised = (ids for paragraph in paragraphs if (ids := ids_of(paragraph)))
    for first, second in zip(tokenised, tokenised, strict=False):
        kept = shortened(len(first), len(second), tokens - 3)
        left = [begin, *first[: kept[0]], separator]
        right = [*second[: kept[1]], separator]
        yield left + right, [0] * len(left) + [1] * len(right)


def shortened(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns how many tokens two paragraphs keep if the longer one loses its last until both fit.

    Of two that are equally long the second loses first.
    """
    if first + second <= room:
        return first, second
    if min(first, second) > room // 2:
        return room - room // 2, room // 2
    return (room - second, second) if first > second else (first, room - first)
