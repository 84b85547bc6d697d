"""How good a model is on the dev text: loss, token accuracy, BLEU, and a few translations to read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.batches import ordered_batches
from alignlens.decoding.beam import beam_search
from alignlens.decoding.settings import BeamSettings
from alignlens.metrics.bleu import corpus_bleu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alignlens.corpora.tokens import TokenStore
    from alignlens.models.contract import Seq2Seq

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
    translated: int  # how many of its first sentences are translated


@dataclass(frozen=True)
class Validation:
    """Measures of one checkpoint, in nats per label and shares of labels; BLEU by greedy search."""

    loss: float
    accuracy: float
    bleu: float | None
    samples: tuple[tuple[str, str], ...]  # reference and translation

    def measures(self) -> dict[str, float]:
        """Returns the numbers under the names of the learning curves."""
        numbers = {"dev_loss": self.loss, "dev_accuracy": self.accuracy, "dev_perplexity": math.exp(min(self.loss, 99))}
        return numbers if self.bleu is None else {**numbers, "dev_bleu": self.bleu}


def validate(model: Seq2Seq, dev: DevText) -> Validation:
    """Returns the measures of a model, which is left in training mode as it was found."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            loss, accuracy = _forced(model, dev)
            texts = _translations(model, dev)
    finally:
        model.train(was_training)
    references = dev.references[: len(texts)]
    bleu = corpus_bleu(texts, references, "none").bleu if texts else None
    return Validation(loss, accuracy, bleu, tuple(zip(references[:_SAMPLES], texts[:_SAMPLES], strict=True)))


def _forced(model: Seq2Seq, dev: DevText) -> tuple[float, float]:
    """Returns loss per label and share of labels that are the model's first choice, given the labels before."""
    device = next(model.parameters()).device
    loss = correct = labels_seen = 0.0
    for batch in ordered_batches(dev.source, dev.target, tokens=dev.batch_tokens, source_begin=dev.source_begin):
        keep = torch.from_numpy(batch.labels_mask).to(device)
        labels = torch.from_numpy(batch.labels).to(device)[keep]
        logits = model(
            torch.from_numpy(batch.source).to(device),
            torch.from_numpy(batch.source_mask).to(device),
            torch.from_numpy(batch.prefix).to(device),
            keep,
        ).float()
        loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        correct += float((logits.argmax(-1) == labels).sum())
        labels_seen += len(labels)
    return loss / labels_seen, correct / labels_seen


def _translations(model: Seq2Seq, dev: DevText) -> list[str]:
    if not dev.translated:
        return []
    texts = [""] * min(dev.translated, len(dev.source))
    device = next(model.parameters()).device
    for batch in ordered_batches(
        dev.source, None, tokens=dev.batch_tokens, source_begin=dev.source_begin, indices=np.arange(len(texts))
    ):
        source, mask = torch.from_numpy(batch.source).to(device), torch.from_numpy(batch.source_mask).to(device)
        for index, found in zip(batch.indices, beam_search(model, source, mask, _GREEDY), strict=True):
            texts[index] = dev.spell(found[0].ids)
    return texts
