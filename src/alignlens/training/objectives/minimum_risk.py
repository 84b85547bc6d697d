"""Minimum risk training (Shen et al. 2016), as Voita et al. 2021 fine-tune with it (their appendix B.2).

Of every pair, translations are drawn from the model as it is. They and the reference, each once, are the candidates;
their weights are a softmax of ``sharpness`` times their log probability. The risk of the pair is minus the weighted
mean of the candidates' BLEU, and its gradient goes through the weights alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from alignlens.corpora.batches import ordered_batches
from alignlens.decoding.sampling import sample
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.decoding.settings import SamplingSettings
from alignlens.metrics.sentence_bleu import SentenceBleu
from alignlens.training.objectives.contract import Objective, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from alignlens.corpora.batches import Batch, Integers
    from alignlens.metrics.sentence_bleu import Form
    from alignlens.models.contract import Memory, Seq2Seq
    from alignlens.training.objectives.contract import Material, Moment
    from alignlens.training.objectives.registry import MinimumRiskOptions

    Ids = tuple[int, ...]

_DEV_SEED = 1  # checkpoints differ by their weights, not by luck
#: How many times the tokens of a micro-batch are drawn at once: without gradients, a token takes that much less memory.
_DRAWN_AT_ONCE = 8


@dataclass(frozen=True)
class Candidates:
    """Distinct translations of all sentences of a batch, sentence by sentence: its reference, then what was drawn."""

    ids: list[Ids]
    sentence: Integers  # which row of the batch each belongs to
    place: Integers  # which candidate of its sentence it is
    bleu: NDArray[np.float64]  # a share
    drawn: Integers  # how often

    @classmethod
    def of(cls, references: Iterable[Ids], drawn: Iterable[Iterable[Ids]], form: Form) -> Candidates:
        """Returns the references and what was drawn for each."""
        candidates = []
        for row, (reference, draws) in enumerate(zip(references, drawn, strict=True)):
            bleu, counted = SentenceBleu(reference, form), Counter({reference: 0})
            counted.update(draws)
            candidates += [(ids, row, place, bleu(ids), times) for place, (ids, times) in enumerate(counted.items())]
        ids, sentence, place, values, times = zip(*candidates, strict=True)
        return cls(list(ids), np.array(sentence), np.array(place), np.array(values), np.array(times))

    def risks(self, log_p: Tensor, sharpness: float) -> Tensor:
        """Returns the risk of every sentence, from the log probabilities of all candidates."""
        rows, columns = (torch.from_numpy(each).to(log_p.device) for each in (self.sentence, self.place))
        shape = int(self.sentence[-1]) + 1, int(self.place.max()) + 1
        scores = log_p.new_full(shape, -torch.inf).index_put((rows, columns), sharpness * log_p)
        worth = log_p.new_zeros(shape).index_put((rows, columns), torch.from_numpy(self.bleu).to(log_p))
        return -(scores.softmax(1) * worth).sum(1)


class MinimumRisk(Objective):
    """Fine-tuning by the expected BLEU of sampled translations.

    Measured are, in percent, ``expected_bleu``, the weighted mean over candidates, whose negative is the risk, and
    ``sampled_bleu``, the mean over what was drawn; and ``candidates``, how many distinct ones a sentence has.
    """

    metrics = ("expected_bleu", "sampled_bleu", "candidates")
    dev_metrics = metrics

    def __init__(self, options: MinimumRiskOptions, material: Material) -> None:
        super().__init__(options, material)
        self._tokens = material.training.batch_tokens

    def forward(self, model: Seq2Seq, batch: Batch, moment: Moment) -> Outcome:
        """Returns the summed risk of all pairs."""
        return self._outcome(model, batch, seed=int(moment.generator("samples").integers(2**31)))

    def validation(self, model: Seq2Seq, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the same measures of the dev text, always with the same random numbers."""
        totals: dict[str, list[float]] = {}
        with torch.no_grad():
            for batch in batches:
                for name, numbers in self._outcome(model, batch, _DEV_SEED).measured.items():
                    totals[name] = [sum(pair) for pair in zip(totals.get(name, (0, 0)), numbers, strict=True)]
        return {name: value / number for name, (value, number) in totals.items()}

    def _outcome(self, model: Seq2Seq, batch: Batch, seed: int) -> Outcome:
        candidates = self.candidates(model, batch, seed)
        risk = candidates.risks(self.log_p(model, batch, candidates), self.options.sharpness).sum()
        measured = {
            "expected_bleu": (-100 * float(risk.detach()), batch.sentences),
            "sampled_bleu": (100 * float(candidates.drawn @ candidates.bleu), int(candidates.drawn.sum())),
            "candidates": (len(candidates.ids), batch.sentences),
        }
        return Outcome({"model": risk}, measured)

    def candidates(self, model: Seq2Seq, batch: Batch, seed: int) -> Candidates:
        """Returns references and draws; dropout is off while these are drawn, so they come from the model itself."""
        lengths = batch.labels_mask.sum(axis=1)
        references = [tuple(row[: length - 1].tolist()) for row, length in zip(batch.labels, lengths, strict=True)]
        was_training = model.training
        model.eval()
        try:
            drawn = list(self._drawn(model, batch, lengths, seed))
        finally:
            model.train(was_training)
        return Candidates.of(references, drawn, self.options.bleu)

    def _drawn(self, model: Seq2Seq, batch: Batch, lengths: Integers, seed: int) -> Iterator[list[Ids]]:
        """Yields what is drawn for each sentence, at most so much longer than its reference as the options say."""
        options = self.options
        settings = SamplingSettings(
            options.samples, options.temperature, seed, options.length_ratio, options.length_extra
        )
        device = next(model.parameters()).device
        width = max(batch.source.shape[1], batch.labels.shape[1])
        together = max(1, _DRAWN_AT_ONCE * self._tokens // (options.samples * width))
        for start in range(0, batch.sentences, together):
            rows = slice(start, start + together)
            source, mask = (torch.from_numpy(side[rows]).to(device) for side in (batch.source, batch.source_mask))
            for hypotheses in sample(model, source, mask, settings, batch.indices[rows].tolist(), lengths[rows]):
                yield [hypothesis.ids for hypothesis in hypotheses]

    def log_p(self, model: Seq2Seq, batch: Batch, candidates: Candidates) -> Tensor:
        """Returns the log probability of every candidate.

        Sentences are encoded once. The decoder reads candidates of like length together, no more padded tokens at once
        than a micro-batch may have; of several such parts none is kept for the backward pass, which computes it again.
        So memory is that of a micro-batch with any number of samples.
        """
        device = next(model.parameters()).device
        with self.in_precision(model):
            source, mask = (torch.from_numpy(each).to(device) for each in (batch.source, batch.source_mask))
            memory = model.encode(model.embed_source(source), mask)
        log_p, order = [], []
        parts = list(self._parts(batch, candidates))
        for part in parts:
            asked = model, memory, torch.from_numpy(candidates.sentence[part.indices]).to(device), part
            if len(parts) > 1 and torch.is_grad_enabled():
                log_p.append(checkpoint(self._log_p_of, *asked, use_reentrant=False))
            else:
                log_p.append(self._log_p_of(*asked))
            order.append(part.indices)
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(device)
        return torch.cat(log_p)[back]

    def _parts(self, batch: Batch, candidates: Candidates) -> Iterator[Batch]:
        """Yields all candidates, whose numbers are the indices of the batches, as targets."""
        # The source side is not read, but counts: a row of the memory is as wide as the widest source.
        sources = SentencesInMemory(list(batch.source[candidates.sentence, :-1]))
        return ordered_batches(sources, SentencesInMemory(candidates.ids), tokens=self._tokens)

    def _log_p_of(self, model: Seq2Seq, memory: Memory, sentences: Tensor, part: Batch) -> Tensor:
        """Returns the log probabilities of the candidates of a part."""
        prefix, labels, keep = (
            torch.from_numpy(each).to(sentences.device) for each in (part.prefix, part.labels, part.labels_mask)
        )
        with self.in_precision(model):
            states = model.decode(memory.select(sentences), model.embed_target(prefix)).states[keep]
            logits = model.logits(states)
        smoothing = self._smoothing if self.options.log_p == "smoothed" else 0.0
        values = label_scores(logits, labels[keep], smoothing)
        return values.new_zeros(keep.shape).masked_scatter(keep, values).sum(1)


def label_scores(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Returns log p(label) of each row of logits (rows, vocabulary).

    With smoothing it is the released code's: minus the divergence of the model from labels that leave ``smoothing`` to
    all other pieces. Half precision is summed in single precision.
    """
    log_p = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
    of_labels = log_p.gather(-1, labels[:, None])[:, 0]
    if not smoothing:
        return of_labels
    others = log_p.shape[-1] - 1
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / others)
    return (1 - smoothing) * of_labels + smoothing / others * (log_p.sum(-1) - of_labels) + entropy
