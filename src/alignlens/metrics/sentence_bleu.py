"""BLEU of single sentences against one reference, as a share from 0 to 1, on tokens of any kind.

Two forms, which differ in what they do about n-grams that are never right: a sentence has few n-grams, and a plain
product of precisions would often be 0. ``sacrebleu`` is sacreBLEU's own, with its exponential smoothing and effective
order; ``nltk1`` is what nltk calls method 1.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Form = Literal["sacrebleu", "nltk1"]

_ORDER = 4
_EPSILON = 0.1  # of nltk's smoothing


class SentenceBleu:
    """What candidates are worth against one reference."""

    def __init__(self, reference: Sequence[Hashable], form: Form) -> None:
        self._reference, self._form = reference, form

    def __call__(self, candidate: Sequence[Hashable]) -> float:
        """Returns the BLEU of a candidate; 0 if none of its tokens is right."""
        if self._form == "nltk1":
            return _nltk1(candidate, self._reference)
        return float(_metric().sentence_score(_text(candidate), [_text(self._reference)]).score) / 100


@cache
def _metric() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", effective_order=True, force=True)


def _text(tokens: Sequence[Hashable]) -> str:
    return " ".join(map(str, tokens))


def _nltk1(candidate: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """Returns BLEU with 0.1 in place of no right n-gram, also where the candidate is too short for any."""
    precisions = []
    for order in range(1, _ORDER + 1):
        right = (_counts(candidate, order) & _counts(reference, order)).total()
        if order == 1 and not right:
            return 0.0
        precisions.append((right or _EPSILON) / max(1, len(candidate) - order + 1))
    brevity = min(0.0, 1 - len(reference) / len(candidate))
    return math.exp(brevity + math.fsum(map(math.log, precisions)) / _ORDER)


def _counts(tokens: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))
