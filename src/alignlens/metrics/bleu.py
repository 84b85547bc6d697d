"""Corpus BLEU by sacreBLEU, never without its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ORDER = 4
COUNTS = 2 * _ORDER + 2
"""Numbers that are counted in every sentence."""


@dataclass(frozen=True)
class Bleu:
    """BLEU in percent, the signature that says how it was computed, and what it is made of."""

    bleu: float
    signature: str
    precisions: tuple[float, ...]  # of n-grams of 1 to 4 words, in percent
    brevity_penalty: float
    hypothesis_words: int
    reference_words: int


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Bleu:
    """Returns the BLEU of hypotheses against one reference each; ``tokenize="none"`` for tokenised text."""
    _check_pairs(hypotheses, references)
    metric = _metric(tokenize)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(
        float(score.score),
        str(metric.get_signature()),
        tuple(map(float, score.precisions)),
        float(score.bp),
        int(score.sys_len),
        int(score.ref_len),
    )


def signature(tokenize: str = "13a", **drawn: int) -> str:
    """Returns how BLEU against one reference is computed; ``drawn`` is parameters that tests add: seed, bs and ar."""
    metric = _metric(tokenize)
    metric.corpus_score(["a"], [["a"]])  # before that it does not know the number of references
    described = metric.get_signature()
    for name, number in drawn.items():
        described.update(name, number)
    return str(described)


def sentence_counts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> NDArray[np.int64]:
    """Returns, per sentence, right and all n-grams of each order, and the words of hypothesis and reference."""
    _check_pairs(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    # The effective order changes a sentence's own score, which is not used, and silences a warning about it.
    metric = BLEU(tokenize=tokenize, effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.int64)


def bleu_of(totals: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the corpus BLEU of each row of summed counts, as sacreBLEU's ``compute_bleu`` does of one."""
    right, all_of = (totals[:, start : start + _ORDER].astype(np.float64) for start in (0, _ORDER))
    words, reference_words = (totals[:, place].astype(np.float64) for place in (2 * _ORDER, 2 * _ORDER + 1))
    # The smoothing of the corpus score, which matters only where no 4-gram is right: 1/2, 1/4, ... of an n-gram.
    smoothed = np.where(right > 0, right, 1 / np.cumprod(np.where(right > 0, 1, 2), axis=1))
    known = (right > 0).any(axis=1) & (all_of > 0).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(smoothed / all_of).mean(axis=1)
        brevity = np.minimum(0, 1 - reference_words / words)
        return np.where(known, 100 * np.exp(logs + brevity), 0.0)


def _metric(tokenize: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # Silences sacreBLEU's warning that the text looks tokenised: the caller said that it is.
    return BLEU(tokenize=tokenize, force=tokenize == "none")


def _check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
