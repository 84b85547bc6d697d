"""Pharaoh files: one line per sentence pair, links ``i-j`` (or ``i-j:score``) separated by blanks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.written import NUMBER, Lengths, Written, link_lines, shown
from alignlens.errors import InputError
from alignlens.io.atomic import write_lines
from alignlens.io.text import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from alignlens.alignment.links import Alignment

LINE = "a line of links per sentence pair, empty where there are none"
# Five digits reach past the longest sentence an Alignment can hold; lines with more go through the careful parser.
_PLAIN_LINE = re.compile(r" *(?:[0-9]{1,5}-[0-9]{1,5}(?: +[0-9]{1,5}-[0-9]{1,5})*)? *")
_LINK = re.compile(rf"({NUMBER})([-p?])({NUMBER})(?::([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?))?")


def read_links(
    path: Path | str,
    base: int = 0,
    source_lengths: Sequence[int] | None = None,
    target_lengths: Sequence[int] | None = None,
) -> Alignment:
    """Returns the links of a Pharaoh file whose words are counted from ``base``.

    With sentence lengths given, the number of lines and every index are checked against them.
    """
    lengths = Lengths.of(source_lengths, target_lengths)
    return read_written(path, lengths).alignment(base, lengths)


def read_written(path: Path | str, lengths: Lengths | None, option: str = "") -> Written:
    """Returns the links of a Pharaoh file as written; ``option`` is the option that sets their base, if any."""
    lines = link_lines(path, LINE, may_be_empty=lengths is not None and lengths.source.size == 0)
    return _parse_plain(lines, path, option) or _parse_general(lines, path, option)


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


def parse_marked(lines: Sequence[str], path: Path | str, marks: str, option: str) -> tuple[Written, list[str]]:
    """Returns links as written, nan for a missing score, and the mark of each; errors name file and line."""
    rows: list[tuple[int, int, int]] = []
    kinds: list[str] = []
    scores: list[float] = []
    for number, line in enumerate(lines):
        for token in words(line):
            match = _LINK.fullmatch(token)
            score = float(match[4]) if match and match[4] else math.nan
            if match is None or match[2] not in marks or math.isinf(score):
                wanted = ", ".join(f"i{mark}j" for mark in marks)
                advice = f"Expected {wanted} with word numbers, and spaces between links."
                raise InputError(f"{shown(token)} is not a link.", path, number + 1, advice)
            rows.append((number, int(match[1]), int(match[3])))
            kinds.append(match[2])
            scores.append(score)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    sentence, source, target = table[:, 0], table[:, 1], table[:, 2]
    return Written(path, sentence + 1, sentence, source, target, len(lines), option, np.array(scores)), kinds


def _parse_plain(lines: list[str], path: Path | str, option: str) -> Written | None:
    """Returns lines that hold ``i-j`` only, or None if there is anything else in them."""
    if not all(map(_PLAIN_LINE.fullmatch, lines)):
        return None
    counts = [line.count("-") for line in lines]
    numbers = np.array(" ".join(lines).replace("-", " ").split(), dtype=np.int64).reshape(-1, 2)
    sentence = np.repeat(np.arange(len(lines), dtype=np.int64), counts)
    return Written(path, sentence + 1, sentence, numbers[:, 0], numbers[:, 1], len(lines), option)


def _parse_general(lines: list[str], path: Path | str, option: str) -> Written:
    """Returns lines that may have scores; raises at the first token that is not a link."""
    written, _ = parse_marked(lines, path, "-", option)
    if written.scores is None:
        return written
    without = np.isnan(written.scores)
    if without.all():
        return replace(written, scores=None)
    if without.any():
        worst = int(written.lines[np.flatnonzero(without)[0]])
        raise InputError(
            "a link without a score among links with scores.",
            path,
            worst,
            "Give a score with every link, or with none.",
        )
    return written
