"""Corpus BLEU by sacreBLEU, never without its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ORDER = 4


@dataclass(frozen=True)
class Bleu:
    """BLEU in percent, the signature that says how it was computed, and what it is made of."""

    bleu: float
    signature: str
    precisions: tuple[float, ...]  # of n-grams of 1 to 4 words, in percent
    brevity_penalty: float
    hypothesis_words: int
    reference_words: int


@dataclass(frozen=True)
class BleuInterval:
    """Percentile interval of corpus BLEU over resampled corpora (Koehn 2004)."""

    low: float
    high: float
    level: float
    samples: int
    seed: int


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Bleu:
    """Returns the BLEU of hypotheses against one reference each; ``tokenize="none"`` for tokenised text."""
    _check_pairs(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    # Who says that the text is tokenised need not be warned that it looks like it.
    metric = BLEU(tokenize=tokenize, force=tokenize == "none")
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(
        float(score.score),
        str(metric.get_signature()),
        tuple(map(float, score.precisions)),
        float(score.bp),
        int(score.sys_len),
        int(score.ref_len),
    )


def bleu_interval(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    level: float = 95,
    samples: int = 1000,
    seed: int = 1,
) -> BleuInterval:
    """Returns the interval that holds corpus BLEU in ``level`` percent of resampled corpora."""
    _check_pairs(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    counts = _counts(hypotheses, references, tokenize)
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(samples):
        drawn = generator.integers(0, len(counts), size=len(counts))
        sums = (np.bincount(drawn, minlength=len(counts)) @ counts).tolist()
        correct, total, (words, reference_words) = sums[:_ORDER], sums[_ORDER : 2 * _ORDER], sums[2 * _ORDER :]
        # The smoothing of the corpus score, which matters only where no 4-gram is right.
        values.append(BLEU.compute_bleu(correct, total, words, reference_words, smooth_method="exp").score)
    low, high = np.percentile(values, [(100 - level) / 2, (100 + level) / 2]).tolist()
    return BleuInterval(low, high, level, samples, seed)


def _counts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str) -> NDArray[np.int64]:
    """Returns, per sentence, right and all n-grams of each order, and the words of hypothesis and reference."""
    from sacrebleu.metrics.bleu import BLEU

    # The effective order changes a sentence's own score, which is not used, and silences a warning about it.
    metric = BLEU(tokenize=tokenize, effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.int64)


def _check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
