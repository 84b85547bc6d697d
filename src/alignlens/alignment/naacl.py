"""Gold links in the format of the shared tasks of 2003 and 2005: one link per line, with the number of its sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.written import NUMBER, Written, shown
from alignlens.errors import InputError
from alignlens.io.text import words

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.alignment.written import Lengths

SURE, POSSIBLE = "S", "P"
_NUMBER = re.compile(NUMBER)
_CONFIDENCE = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_FORM = "Expected: sentence source target [S|P] [confidence]."
# Without a text nothing else limits the number, and a damaged one could request any amount of memory.
_MOST_SENTENCES = 1_000_000


def parse_naacl(
    lines: list[str], path: Path | str, base: int, lengths: Lengths | None, option: str
) -> tuple[Written, list[str]]:
    """Returns links as written, without those of the empty word, and the mark of each."""
    most = _MOST_SENTENCES if lengths is None else lengths.source.size
    rows: list[tuple[int, int, int, int]] = []
    marks: list[str] = []
    for number, line in enumerate(lines, start=1):
        fields = words(line)
        if not fields:
            continue
        if not 3 <= len(fields) <= 5 or not all(map(_NUMBER.fullmatch, fields[:3])):
            raise InputError(f"{shown(line)} is not a numbered link.", path, number, _FORM)
        mark = _mark(fields[3:], path, number)
        sentence, source, target = map(int, fields[:3])
        if sentence == 0:
            raise InputError("sentence number 0.", path, number, "This format counts sentences from 1.")
        if sentence > most:
            why = f"the text has {most}" if lengths is not None else f"only {most:,} are possible without the text"
            advice = "Check that links and text belong together, or give the text with --source and --target."
            raise InputError(f"sentence number {sentence}, but {why}.", path, number, advice)
        if base == 1 and source == target == 0:
            advice = f"If the file counts words from 0, set {option} 0."
            raise InputError("the link 0 0 connects two empty words.", path, number, advice)
        if base == 1 and 0 in (source, target):
            continue
        rows.append((number, sentence - 1, source, target))
        marks.append(mark)
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    sentences = most if lengths is not None else int(table[:, 1].max(initial=-1)) + 1
    return Written(path, table[:, 0], table[:, 1], table[:, 2], table[:, 3], sentences, option), marks


def _mark(fields: list[str], path: Path | str, number: int) -> str:
    """Returns the mark of a link; without one it is sure. A confidence stands after the mark, or alone."""
    mark = fields[0] if fields and fields[0] in (SURE, POSSIBLE) else None
    confidence = fields if mark is None else fields[1:]
    if len(confidence) > 1 or (confidence and not _is_confidence(confidence[0])):
        problem = f"{shown(' '.join(fields))} is not a mark (S or P), a confidence from 0 to 1, or both in this order."
        raise InputError(problem, path, number, _FORM)
    return mark or SURE


def _is_confidence(text: str) -> bool:
    return _CONFIDENCE.fullmatch(text) is not None and 0 <= float(text) <= 1
