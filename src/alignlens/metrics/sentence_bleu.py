"""BLEU of single sentences against one reference, as a share from 0 to 1, on tokens of any kind.

Two forms, which differ in what they do about n-grams that are never right: a sentence has few n-grams, and a plain
product of precisions would often be 0.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Form = Literal["sacrebleu", "nltk1"]

_ORDER = 4
_EPSILON = 0.1  # of nltk's smoothing


class SentenceBleu:
    """What candidates are worth against one reference, whose n-grams are counted once."""

    def __init__(self, reference: Sequence[Hashable], form: Form) -> None:
        self._length, self._form = len(reference), form
        self._counts = [_counts(reference, order) for order in range(1, _ORDER + 1)]

    def __call__(self, candidate: Sequence[Hashable]) -> float:
        """Returns the BLEU of a candidate; 0 if none of its tokens is right."""
        right, all_of_them = self._found(candidate)
        if not right[0]:
            return 0.0
        smoothed = _by_halves(right, all_of_them) if self._form == "sacrebleu" else _by_epsilon(right, all_of_them)
        brevity = min(0.0, 1 - self._length / len(candidate))
        return math.exp(brevity + math.fsum(map(math.log, smoothed)) / len(smoothed))

    def _found(self, candidate: Sequence[Hashable]) -> tuple[list[int], list[int]]:
        """Returns how many n-grams are right, none more often than the reference has it, and how many there are."""
        right = []
        for order, known in enumerate(self._counts, 1):
            found = _counts(candidate, order)
            right.append(sum(min(number, known[gram]) for gram, number in found.items() if gram in known))
        return right, [max(0, len(candidate) - order) for order in range(_ORDER)]


def _counts(tokens: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def _by_halves(right: list[int], all_of_them: list[int]) -> list[float]:
    """Returns precisions as sacreBLEU's ``exp``: the first without a right one counts 1/2, the next 1/4, and so on.

    With its effective order: those that the candidate is too short for do not count.
    """
    precisions, share = [], 1.0
    for number, total in zip(right, all_of_them, strict=True):
        if total:
            share = share if number else share / 2
            precisions.append((number or share) / total)
    return precisions


def _by_epsilon(right: list[int], all_of_them: list[int]) -> list[float]:
    """Returns precisions as nltk's ``method1``: 0.1 in place of no right one, also where the candidate is too short."""
    return [(number or _EPSILON) / max(total, 1) for number, total in zip(right, all_of_them, strict=True)]
