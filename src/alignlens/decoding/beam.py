"""Beam search over any model of the contract: batched, with cached states, exact about when to stop.

At every step the best ``beam`` of all continuations are looked at. Those that end are finished hypotheses; the best
``beam`` of the others run on. The search of a sentence is over when ``beam`` hypotheses have finished, or when no
running one can become better than those wanted. With a beam of one this is greedy search. (The same search space as
in fairseq, Ott et al. 2019, but for the length limit, which is each sentence's own.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.symbols import END_ID
from alignlens.decoding.hypothesis import NEVER, Hypothesis, check_numbers, check_ready, most_pieces, read_frame
from alignlens.errors import ToolError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from alignlens.decoding.settings import BeamSettings
    from alignlens.models.contract import Seq2Seq

_IMPOSSIBLE = float("-inf")
_SHARE_LEAVING = 0.1  # of the sentences of a batch


def beam_search(model: Seq2Seq, source: Tensor, mask: Tensor, settings: BeamSettings) -> list[list[Hypothesis]]:
    """Returns the best hypotheses of each source sentence (batch, source), best first, at most ``n_best``.

    Of equal candidates the one of the earlier hypothesis wins, then the one of the lower id; of equally good finished
    hypotheses the shorter one.
    """
    check_ready(model)
    finished = _Finished(most_pieces(mask, settings, model.longest_target), settings)
    with torch.inference_mode():
        _search(model, source, mask, finished, settings.beam)
    return finished.best()


def _search(model: Seq2Seq, source: Tensor, mask: Tensor, finished: _Finished, beam: int) -> None:
    state = model.begin(model.encode(model.embed_source(source), mask))
    never = torch.tensor(NEVER, device=source.device)
    state, first = read_frame(model, state, len(source))
    # All hypotheses begin alike: one row per sentence reads BEGIN, and the rows multiply from there.
    sentences = np.arange(len(source))  # those still searched: a block of rows each
    prefix = torch.full((len(source), 1), first, device=source.device)  # (rows, read)
    log_prob = torch.zeros((len(source), 1), device=source.device)  # (sentences, hypotheses)
    while len(sentences):
        decoded, state = model.step(state, model.embed_target(prefix[:, -1:]))
        scores = torch.log_softmax(model.logits(decoded.states[:, 0]).float(), dim=-1)
        scores.index_fill_(1, never, _IMPOSSIBLE)
        vocabulary, width = scores.shape[1], log_prob.shape[1]
        scores = scores.view(len(sentences), width, vocabulary).add_(log_prob[:, :, None])
        _only_end(scores, prefix.shape[1] > finished.limits[sentences])

        # One END per hypothesis at most, so among twice as many candidates at least ``beam`` run on.
        log_prob, places = _best(scores.flatten(1), 2 * beam)
        blocks = torch.arange(len(sentences), device=source.device)[:, None] * width
        rows, tokens = blocks + places // vocabulary, places % vocabulary
        is_end = tokens == END_ID
        ended = log_prob.masked_fill(~is_end, _IMPOSSIBLE)[:, :beam]
        running = is_end.byte().sort(dim=1, stable=True).indices[:, :beam]
        log_prob = log_prob.masked_fill(is_end, _IMPOSSIBLE).gather(1, running)

        # Everything a step needs on the CPU, in one transfer: waiting for it costs more than computing it.
        report = torch.cat((ended, log_prob[:, :1]), dim=1).cpu().numpy()
        check_numbers(report)
        slots, ranks = np.nonzero(report[:, :-1] > _IMPOSSIBLE)
        if len(slots):
            where = torch.from_numpy(slots).to(rows), torch.from_numpy(ranks).to(rows)
            prefixes = prefix.index_select(0, rows[where])[:, 1:].tolist()
            for slot, rank, ids in zip(slots, ranks, prefixes, strict=True):
                finished.add(sentences[slot], ids, float(report[slot, rank]))

        rows, tokens = rows.gather(1, running), tokens.gather(1, running)
        going_on = finished.can_improve(sentences, report[:, -1])
        # Removing sentences means copying the batch, so it waits until enough are done. Until then nothing can follow.
        leaving = np.count_nonzero(~going_on) >= _SHARE_LEAVING * len(sentences)
        if leaving:
            kept = torch.from_numpy(np.flatnonzero(going_on)).to(rows)
            sentences, log_prob, rows, tokens = sentences[going_on], log_prob[kept], rows[kept], tokens[kept]
        elif not going_on.all():
            log_prob[torch.from_numpy(~going_on).to(rows.device)] = _IMPOSSIBLE
        prefix = torch.cat((prefix.index_select(0, rows.flatten()), tokens.view(-1, 1)), dim=1)
        if leaving or running.shape[1] != width:
            state = state.select(rows.flatten())
        elif width > 1:
            state = state.follow(rows.flatten())


def _only_end(scores: Tensor, must_end: NDArray[np.bool_]) -> None:
    """Makes everything but END impossible, in place, for sentences whose hypotheses are as long as they may be."""
    if must_end.any():
        full = torch.from_numpy(np.flatnonzero(must_end)).to(scores.device)
        ends = scores[full, :, END_ID]
        scores[full] = _IMPOSSIBLE
        scores[full, :, END_ID] = ends


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the ``count`` highest scores of each row and their places, best first; ties go to the first place."""
    count = min(count, scores.shape[1])
    values, places = scores.topk(min(count + 1, scores.shape[1]))
    # ``topk`` takes any of several equal values. Only equal values at the border change what is taken.
    tied = (values[:, count - 1] == values[:, -1]) & (values[:, -1] > _IMPOSSIBLE)
    if values.shape[1] > count and tied.any():
        ordered = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], places[tied] = ordered.values[:, : count + 1], ordered.indices[:, : count + 1]
    places, order = places[:, :count].sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, places.gather(1, order)


class _Finished:
    """The finished hypotheses of all sentences of a batch."""

    def __init__(self, limits: NDArray[np.int64], settings: BeamSettings) -> None:
        self.limits = limits  # most pieces, by sentence
        self._settings = settings
        self._ended: list[list[Hypothesis]] = [[] for _ in limits]
        self._full = np.zeros(len(limits), dtype=bool)  # whether there is a beam of them
        self._to_beat = np.full(len(limits), _IMPOSSIBLE)  # the worst score among those wanted
        self._most_divided = (limits + 1.0) ** settings.length_penalty

    def add(self, sentence: int, ids: list[int], log_prob: float) -> None:
        """Adds one more, unless there is a beam of them already; those of a step come best first."""
        finished = self._ended[sentence]
        if len(finished) == self._settings.beam:
            return
        score = log_prob / (len(ids) + 1) ** self._settings.length_penalty
        finished.append(Hypothesis(tuple(ids), log_prob, score, len(ids) < self.limits[sentence]))
        self._full[sentence] = len(finished) == self._settings.beam
        if len(finished) >= self._settings.n_best:
            self._to_beat[sentence] = self._ranked(finished)[-1].score

    def can_improve(self, sentences: NDArray[np.int64], log_prob: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Returns whether each sentence's best running hypothesis may still end as one of those wanted.

        Log probabilities only fall, and dividing by the longest length is the best that can happen to them: no later
        score is above ``log P / (limit + 1) ** length_penalty``. A later one that is only as good would not win.
        """
        bound = log_prob.astype(np.float64) / self._most_divided[sentences]
        possible = (bound > self._to_beat[sentences]) & (log_prob > _IMPOSSIBLE)
        return possible & ~self._full[sentences]

    def best(self) -> list[list[Hypothesis]]:
        """Returns those wanted of each sentence, best first."""
        if not all(self._ended):
            raise ToolError("the model gives the end symbol no probability at all, so no translation can end.")
        return [self._ranked(finished) for finished in self._ended]

    def _ranked(self, finished: list[Hypothesis]) -> list[Hypothesis]:
        return sorted(finished, key=lambda hypothesis: -hypothesis.score)[: self._settings.n_best]
