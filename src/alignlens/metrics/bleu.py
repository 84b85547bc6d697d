"""Corpus BLEU by sacreBLEU, never without its signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Bleu:
    """BLEU in percent, and the signature that says how it was computed."""

    bleu: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Bleu:
    """Returns the BLEU of hypotheses against one reference each; ``tokenize="none"`` for tokenised text."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(float(score.score), str(metric.get_signature()))
