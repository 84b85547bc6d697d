"""Links against gold links, and two directions as one, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from alignlens.alignment import symmetrize as symmetrization
from alignlens.alignment.gold import Gold, read_gold_and_base
from alignlens.alignment.links import Alignment
from alignlens.io.text import check_equal_counts
from alignlens.metrics.aer import count_hits
from alignlens.metrics.bootstrap import aer_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Links = Sequence[Iterable[Sequence[float]]]


class Scored(NamedTuple):
    """Percentages over a text, and the 95 % bootstrap interval of the AER."""

    aer: float
    low: float
    high: float
    precision: float
    recall: float
    f1: float


def score(links: Links, gold: Gold | Path | str, base: int | None = None) -> Scored:
    """Returns AER, precision, recall and F1 of the links of every sentence pair against gold links.

    A gold file counts words from ``base``, 0 or 1; without it the file itself must tell.
    """
    against = gold if isinstance(gold, Gold) else read_gold_and_base(gold, base)[0]
    check_equal_counts(["links", "gold"], [len(links), len(against)])
    counts = count_hits(_alignment(links), against)
    scores, interval = counts.scores(), aer_interval(counts)
    return Scored(scores.aer, interval.low, interval.high, scores.precision, scores.recall, scores.f1)


def symmetrize(forward: Links, reverse: Links, method: str = "grow-diag-final-and") -> list[list[tuple[int, int]]]:
    """Returns one alignment of two, both as (source, target); ``docs/conventions.md`` has the methods."""
    check_equal_counts(["forward", "reverse"], [len(forward), len(reverse)])
    return list(symmetrization.symmetrize(_alignment(forward), _alignment(reverse), method))


def _alignment(links: Links) -> Alignment:
    return Alignment.from_pairs([[(int(link[0]), int(link[1])) for link in map(tuple, each)] for each in links])
