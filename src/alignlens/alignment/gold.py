"""Gold alignments: sure and possible links, in the two formats gold sets come in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.bases import Base, base_of
from alignlens.alignment.naacl import parse_naacl
from alignlens.alignment.pharaoh import LINE, parse_marked
from alignlens.alignment.written import Lengths, link_lines
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.atomic import write_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignlens.alignment.links import Alignment

FORMATS = ("pharaoh", "naacl")
_SURE = ("-", "S")


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
    option: str = "--base",
) -> Gold:
    """Returns the gold links of a file that counts words from ``base`` (0 or 1); see ``read_gold_and_base``."""
    lengths = Lengths.of(source_lengths, target_lengths)
    return read_gold_and_base(path, base, format, lengths, option)[0]


def read_gold_and_base(
    path: Path | str,
    base: int | None = None,
    format: str = "pharaoh",  # noqa: A002 - the word the config and the command line use
    lengths: Lengths | None = None,
    option: str = "--base",
) -> tuple[Gold, Base]:
    """Returns the gold links of a file, and the base that it counts words from: ``base`` if given.

    ``pharaoh``: one line per pair, ``i-j`` sure, ``ipj`` or ``i?j`` possible.
    ``naacl``: one line per link, ``sentence source target [S|P] [confidence]``, sentences and words counted from one,
    no mark meaning sure; word 0 there is the empty word and such links are left out.
    In both, a link that is given several times is sure if it is sure once. ``option`` is the option that sets the base.
    """
    stated = Base.stated(base, f"{option} {base}") if base is not None else None
    if format not in FORMATS:
        raise ConfigError(unknown_name("gold format", format, FORMATS))
    lines = link_lines(path, LINE if format == "pharaoh" else "one line per link")
    if format == "pharaoh":
        written, marks = parse_marked(lines, path, "-p?", option)
        origin = stated or base_of(written, lengths)
    else:
        origin = stated or Base(1, "this format counts from 1")
        written, marks = parse_naacl(lines, path, origin.number, lengths, option)
    is_sure = np.array([mark in _SURE for mark in marks], dtype=bool)
    possible = replace(written, scores=None).alignment(origin.number, lengths)
    return Gold(written.only(is_sure).alignment(origin.number), possible), origin


def write_gold(path: Path | str, gold: Gold) -> None:
    """Writes the canonical form: zero-based ``i-j`` sure, ``ipj`` possible only, sorted, a line per pair."""
    is_sure = gold.sure.contains(gold.possible).tolist()
    texts = [
        f"{i}{'-' if sure else 'p'}{j}"
        for i, j, sure in zip(gold.possible.source.tolist(), gold.possible.target.tolist(), is_sure, strict=True)
    ]
    offsets = gold.possible.offsets().tolist()
    write_lines(path, (" ".join(texts[low:high]) for low, high in pairwise(offsets)))
