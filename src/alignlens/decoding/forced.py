"""Forced decoding: the probability of a given translation under a model, label by label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.batches import ordered_batches
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.hypothesis import check_numbers, check_ready
from alignlens.decoding.sentences import stored
from alignlens.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from alignlens.corpora.batches import Batch
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.sentences import Pieces
    from alignlens.models.contract import Seq2Seq

_POSITIONS_AT_ONCE = 512  # whose logits exist at the same time: bounds memory for large vocabularies


@dataclass(frozen=True)
class Forced:
    """Per sentence, for every label: all pieces of the translation, then END."""

    log_probs: list[NDArray[np.float32]]  # natural log of P(label), given the source and all labels before it
    correct: list[NDArray[np.bool_]]  # whether the label is the model's first choice

    def summary(self) -> dict[str, float]:
        """Returns measures over all labels: ``loss`` in nats per label, ``accuracy`` as a share."""
        tokens = sum(map(len, self.log_probs))
        if not tokens:
            raise ValueError("no sentences were scored")
        loss = -sum(float(row.sum(dtype=np.float64)) for row in self.log_probs) / tokens
        return {
            "sentences": len(self.log_probs),
            "tokens": tokens,
            "accuracy": sum(int(row.sum()) for row in self.correct) / tokens,
            "sentence_accuracy": sum(bool(row.all()) for row in self.correct) / len(self.correct),
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),  # a float ends at exp(709)
        }


def force(model: Seq2Seq, batch: Batch) -> Forced:
    """Returns the scores of the batch's labels, a row per sentence of the batch, in single precision.

    Row ``t`` of the decoder has read prefix token ``t`` and predicts label ``t``; no label is left out. That the
    labels are the intended ones is checked by ``check_labels``.
    """
    check_ready(model)
    device = next(model.parameters()).device
    labels_mask = batch.labels_mask
    with torch.inference_mode():
        source, mask, prefix, keep, labels = (
            torch.from_numpy(array).to(device)
            for array in (batch.source, batch.source_mask, batch.prefix, labels_mask, batch.labels[labels_mask])
        )
        memory = model.encode(model.embed_source(source), mask)
        states = model.decode(memory, model.embed_target(prefix)).states[keep]
        log_probs, correct = [], []
        parts = (torch.split(tensor, _POSITIONS_AT_ONCE) for tensor in (states, labels))
        for some_states, some_labels in zip(*parts, strict=True):
            scores = torch.log_softmax(model.logits(some_states).float(), dim=-1)
            log_probs.append(scores.gather(1, some_labels[:, None])[:, 0])
            correct.append(scores.argmax(dim=-1) == some_labels)
        values, hits = torch.cat(log_probs).cpu().numpy(), torch.cat(correct).cpu().numpy()
    check_numbers(values)
    borders = np.cumsum(labels_mask.sum(axis=1))[:-1]
    return Forced(np.split(values, borders), np.split(hits, borders))


def check_labels(batch: Batch, references: TokenStore | Sequence[Pieces], vocabulary: int) -> None:
    """Raises unless the labels are the references: sentence ``n`` of the batch is ``references[indices[n]]``.

    A shifted row or a lost piece would still give plausible numbers, so this is checked and not assumed.
    """
    for row, number in enumerate(batch.indices.tolist()):
        reference = np.asarray(references[number], dtype=np.int64)
        length = len(reference)
        labels, prefix = batch.labels[row], batch.prefix[row]
        problem = ""
        if not (batch.labels.shape == batch.prefix.shape and len(labels) > length):
            problem = f"{batch.labels.shape[1]} labels and {batch.prefix.shape[1]} prefix positions for {length} pieces"
        elif (reference == PADDING_ID).any():
            problem = "padding inside the reference"
        elif length and not (reference.min() >= 0 and reference.max() < vocabulary):
            problem = f"id {reference.max()} in a vocabulary of {vocabulary}"
        elif not np.array_equal(labels[:length], reference):
            problem = "the labels are not the reference"
        elif labels[length] != END_ID or (labels[length + 1 :] != PADDING_ID).any():
            problem = "the labels do not end where the reference does"
        elif prefix[0] != BEGIN_ID or not np.array_equal(prefix[1 : length + 1], labels[:length]):
            problem = "the decoder would not read the labels, shifted by one"
        if problem:
            raise ToolError(f"sentence {number}: {problem}; its forced scores would be wrong.")


def force_all(
    model: Seq2Seq,
    sources: TokenStore | Sequence[Pieces],
    targets: TokenStore | Sequence[Pieces],
    *,
    vocabulary: int,
    tokens: int = 4000,
    source_begin: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Forced:
    """Returns the scores of all targets given their sources, in the order they are given in.

    ``tokens`` is the most padded tokens of a batch; ``vocabulary`` the number of target pieces. Every batch is checked
    against the targets. ``advance`` hears how many sentences were done.
    """
    empty: NDArray[np.float32] = np.empty(0, np.float32)
    lead = model.frame.lead  # the frame's own labels, which are not predicted
    log_probs, correct = [empty] * len(targets), [empty.astype(bool)] * len(targets)
    for batch in ordered_batches(stored(sources), stored(targets), tokens=tokens, source_begin=source_begin):
        check_labels(batch, targets, vocabulary)
        forced = force(model, batch.framed(model.frame))
        for row, number in enumerate(batch.indices.tolist()):
            log_probs[number], correct[number] = forced.log_probs[row][lead:], forced.correct[row][lead:]
        if advance is not None:
            advance(batch.sentences)
    return Forced(log_probs, correct)
