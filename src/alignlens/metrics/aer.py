"""Alignment error rate (Och and Ney 2003) of a corpus, with precision, recall and F1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.alignment.gold import Gold
    from alignlens.alignment.links import Alignment


@dataclass(frozen=True)
class Scores:
    """Percentages; ``nan`` where the denominator is zero."""

    aer: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Counts:
    """Per sentence pair: links found that are sure, links found that are possible, links found, sure links."""

    per_sentence: NDArray[np.int64]
    """Sentences x 4."""

    def scores(self) -> Scores:
        """Returns the corpus scores: ratios of sums over all sentences, not means over sentences."""
        return scores_of(*(int(total) for total in self.per_sentence.sum(axis=0)))

    def sentence_scores(self) -> list[Scores]:
        """Returns the scores of every sentence pair alone."""
        return [scores_of(*row) for row in self.per_sentence.tolist()]


def count_hits(links: Alignment, gold: Gold) -> Counts:
    """Returns how the links of each sentence pair meet its gold links."""
    if len(links) != len(gold):
        raise ValueError(f"links of {len(links)} and gold of {len(gold)} sentence pairs")
    return Counts(
        np.stack(
            [
                (links & gold.sure).counts(),
                (links & gold.possible).counts(),
                links.counts(),
                gold.sure.counts(),
            ],
            axis=1,
        )
    )


def scores_of(sure_hits: float, possible_hits: float, links: float, sure: float) -> Scores:
    """Returns AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision |A & P| / |A|, recall |A & S| / |S|, F1."""
    precision = _percent(possible_hits, links)
    recall = _percent(sure_hits, sure)
    total = precision + recall
    f1 = 0.0 if total == 0 else 2 * precision * recall / total
    return Scores(100 - _percent(sure_hits + possible_hits, links + sure), precision, recall, f1)


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else math.nan
