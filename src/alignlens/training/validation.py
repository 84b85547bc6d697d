"""How good a model is on the dev text: loss, accuracy, BLEU, what the objective measures, and translations to read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.corpora.batches import ordered_batches
from alignlens.decoding.forced import force_all
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import translate
from alignlens.metrics.bleu import corpus_bleu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from alignlens.corpora.batches import Batch
    from alignlens.corpora.tokens import TokenStore
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Objective

_SAMPLES = 3
_GREEDY = BeamSettings(beam=1)


@dataclass(frozen=True)
class DevText:
    """The dev text: ids of both sides, and the target side as people read it."""

    source: TokenStore
    target: TokenStore
    references: Sequence[str]
    spell: Callable[[Iterable[int]], str]  # target ids to text
    source_begin: bool
    batch_tokens: int
    translated: int  # how many of its first sentences are translated, and asked by the objective
    translates: bool = True  # or they are only asked


@dataclass(frozen=True)
class Validation:
    """Measures of one checkpoint, in nats per label and shares of labels; BLEU by greedy search."""

    loss: float
    accuracy: float
    bleu: float | None
    samples: tuple[tuple[str, str], ...]  # reference and translation
    measured: Mapping[str, float]  # by the objective

    def measures(self) -> dict[str, float]:
        """Returns the numbers under the names of the learning curves."""
        numbers = {"dev_loss": self.loss, "dev_accuracy": self.accuracy, "dev_perplexity": math.exp(min(self.loss, 99))}
        numbers |= {} if self.bleu is None else {"dev_bleu": self.bleu}
        return numbers | {f"dev_{name}": value for name, value in self.measured.items()}


def validate(model: Seq2Seq, dev: DevText, objective: Objective) -> Validation:
    """Returns the measures of a model; its training mode is left unchanged."""
    was_training = model.training
    model.eval()
    try:
        forced = force_all(
            model,
            dev.source,
            dev.target,
            vocabulary=dev.target.vocabulary_size,
            tokens=dev.batch_tokens,
            source_begin=dev.source_begin,
        ).summary()
        texts = _translations(model, dev) if dev.translates else []
        measured = objective.validation(model, (batch.framed(model.frame) for batch in _pairs(dev)))
    finally:
        model.train(was_training)
    references = dev.references[: len(texts)]
    bleu = corpus_bleu(texts, references, "none").bleu if texts else None
    samples = tuple(zip(references[:_SAMPLES], texts[:_SAMPLES], strict=True))
    return Validation(forced["loss"], forced["accuracy"], bleu, samples, measured)


def _pairs(dev: DevText) -> Iterator[Batch]:
    """Yields the pairs that are translated, without those that have an empty side."""
    first = np.arange(min(dev.translated, len(dev.source)))
    filled = first[(dev.source.lengths(first) > 0) & (dev.target.lengths(first) > 0)]
    tokens, begin = dev.batch_tokens, dev.source_begin
    return ordered_batches(dev.source, dev.target, tokens=tokens, source_begin=begin, indices=filled)


def _translations(model: Seq2Seq, dev: DevText) -> list[str]:
    sources = [dev.source[number] for number in range(min(dev.translated, len(dev.source)))]
    hypotheses = translate(model, sources, _GREEDY, tokens=dev.batch_tokens, source_begin=dev.source_begin)
    return [dev.spell(hypothesis.ids) for hypothesis in hypotheses]
