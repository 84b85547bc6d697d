"""Gold alignments: sure and possible links, in the two formats gold sets come in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import Alignment
from alignlens.alignment.pharaoh import check_ranges, parse_marked, shifted
from alignlens.errors import ConfigError, InputError, unknown_name
from alignlens.io.atomic import write_lines
from alignlens.io.text import read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS = ("pharaoh", "naacl")


@dataclass(frozen=True)
class Gold:
    """Sure links and possible links; every sure link is possible too."""

    sure: Alignment
    possible: Alignment

    def __post_init__(self) -> None:
        if not self.possible.contains(self.sure).all():
            raise ValueError("a sure link that is not possible")

    def __len__(self) -> int:
        return len(self.sure)


def read_gold(
    path: Path | str,
    base: int,
    format: str = "pharaoh",  # noqa: A002 - the word the config and the command line use
    source_lengths: Sequence[int] | None = None,
    target_lengths: Sequence[int] | None = None,
) -> Gold:
    """Returns the gold links of a file that counts words from ``base`` (0 or 1).

    ``pharaoh``: a line per pair, ``i-j`` sure, ``ipj`` or ``i?j`` possible.
    ``naacl``: a line per link, ``sentence source target [S|P] [confidence]``, sentences counted from one,
    no mark meaning sure; word 0 there is the empty word and such links are left out.
    """
    if base not in (0, 1):
        raise ConfigError(f"index base {base!r} is not one of 0, 1")
    if format not in FORMATS:
        raise ConfigError(unknown_name("gold format", format, FORMATS))
    lines = read_lines(path)
    if format == "pharaoh":
        sentence, source, target, marks, _ = parse_marked(lines, path, "-p?")
        sentences, is_sure = len(lines), np.array([mark == "-" for mark in marks], dtype=bool)
    else:
        sentence, source, target, is_sure = _parse_naacl(lines, path, base)
        found = int(sentence.max()) + 1 if sentence.size else 0
        sentences = found if source_lengths is None else max(found, len(source_lengths))
    possible = shifted(sentence, source, target, sentences, path, base)
    sure = shifted(sentence[is_sure], source[is_sure], target[is_sure], sentences, path, base)
    if source_lengths is not None and target_lengths is not None:
        check_ranges(possible, source_lengths, target_lengths, path, base)
    return Gold(sure, possible)


def write_gold(path: Path | str, gold: Gold) -> None:
    """Writes the canonical form: zero-based ``i-j`` sure, ``ipj`` possible only, sorted, a line per pair."""
    is_sure = gold.sure.contains(gold.possible).tolist()
    texts = [
        f"{i}{'-' if sure else 'p'}{j}"
        for i, j, sure in zip(gold.possible.source.tolist(), gold.possible.target.tolist(), is_sure, strict=True)
    ]
    offsets = gold.possible.offsets().tolist()
    write_lines(path, (" ".join(texts[low:high]) for low, high in pairwise(offsets)))


def _parse_naacl(
    lines: list[str], path: Path | str, base: int
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
    np.ndarray[tuple[int], np.dtype[np.bool_]],
]:
    """Returns sentence (from zero), source, target (as written) and whether sure, of every link."""
    rows: list[tuple[int, int, int, bool]] = []
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        marks = [field for field in fields[3:4] if field in ("S", "P")]
        if len(fields) < 3 or len(fields) > 5 or not all(field.isdecimal() for field in fields[:3]):
            raise InputError(
                f"{line!r} is not a numbered link.", path, number, "Expected: sentence source target [S|P]."
            )
        sentence, source, target = map(int, fields[:3])
        if sentence == 0:
            raise InputError("sentence number 0.", path, number, "This format counts sentences from 1.")
        if base == 1 and (source == 0 or target == 0):
            continue
        rows.append((sentence - 1, source, target, marks != ["P"]))
    table = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2], np.array([row[3] for row in rows], dtype=bool)
