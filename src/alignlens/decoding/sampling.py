"""Translations drawn from a model, the same ones however sentences are batched.

Every sentence has uniform numbers of its own, one per sample and position, drawn from its number and a seed. A token
is where its number falls in the cumulated probabilities, so that nothing depends on the other rows of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.symbols import END_ID
from alignlens.decoding.hypothesis import NEVER, Hypothesis, check_numbers, check_ready, most_pieces, read_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from alignlens.decoding.settings import SamplingSettings
    from alignlens.models.contract import Seq2Seq

_SHARE_LEAVING = 0.1  # of the rows of a batch


def sample(
    model: Seq2Seq,
    source: Tensor,
    mask: Tensor,
    settings: SamplingSettings,
    numbers: Sequence[int],
    lengths: NDArray[np.int64] | None = None,
) -> list[list[Hypothesis]]:
    """Returns ``samples`` draws for each source sentence (batch, source), in the order of drawing.

    ``numbers`` are the sentences' own numbers in their corpus. Draws come from the model's distribution at the given
    temperature, over the tokens that may be part of a translation; ``log_prob`` and ``score`` are the model's own, at
    temperature 1 and over all tokens, so that they can be compared with forced scores. How long a draw may be is
    counted from the source, or from ``lengths``, one for each sentence: those of references, with END, say.
    """
    check_ready(model)
    if len(numbers) != len(source):
        raise ValueError(f"{len(numbers)} numbers for {len(source)} sentences")
    limits = most_pieces(mask, settings, model.longest_target, lengths)
    with torch.inference_mode():
        drawn, log_probs = _draw(model, source, mask, settings, _uniforms(numbers, limits, settings), limits)
    hypotheses = []
    for row, (ids, log_prob) in enumerate(zip(drawn, log_probs, strict=True)):
        finished = len(ids) < limits[row // settings.samples]
        hypotheses.append(Hypothesis(tuple(ids), log_prob, log_prob, finished))
    return [hypotheses[start : start + settings.samples] for start in range(0, len(hypotheses), settings.samples)]


def _uniforms(numbers: Sequence[int], limits: NDArray[np.int64], settings: SamplingSettings) -> NDArray[np.float64]:
    """Returns one number per row and position (sentences * samples, longest); sample k is the same for any count."""
    uniforms = np.zeros((len(numbers), settings.samples, int(limits.max())))
    for place, (number, limit) in enumerate(zip(numbers, limits, strict=True)):
        generator = np.random.default_rng([settings.seed, int(number)])
        uniforms[place, :, :limit] = generator.random((settings.samples, int(limit)))
    return uniforms.reshape(-1, uniforms.shape[-1])


def _draw(
    model: Seq2Seq,
    source: Tensor,
    mask: Tensor,
    settings: SamplingSettings,
    uniforms: NDArray[np.float64],
    limits: NDArray[np.int64],
) -> tuple[list[list[int]], list[float]]:
    """Returns ids and log probability of every row; a sentence has as many rows as samples."""
    device = source.device
    never = torch.tensor(NEVER, device=device)
    uniform, limit = torch.from_numpy(uniforms).to(device), np.repeat(limits, settings.samples)
    drawn: list[list[int]] = [[] for _ in limit]
    log_probs = [0.0] * len(limit)

    state = model.begin(model.encode(model.embed_source(source), mask))
    state = state.select(torch.arange(len(source), device=device).repeat_interleave(settings.samples))
    state, first = read_frame(model, state, len(limit))
    rows = torch.arange(len(limit), device=device)  # those still drawn from
    prefix = torch.full((len(rows), 1), first, device=device)  # (rows, read)
    log_prob = torch.zeros(len(rows), device=device)
    running = np.ones(len(rows), dtype=bool)
    while len(rows):
        decoded, state = model.step(state, model.embed_target(prefix[:, -1:]))
        logits = model.logits(decoded.states[:, 0]).float()
        full = prefix.shape[1] > limit
        if full.all():
            tokens = torch.full((len(rows),), END_ID, device=device)
        else:
            tokens = _where(uniform[rows, prefix.shape[1] - 1], logits / settings.temperature, never)
            tokens[torch.from_numpy(full).to(device)] = END_ID
        chosen = logits.gather(1, tokens[:, None])[:, 0]
        log_prob = log_prob + chosen - logits.logsumexp(dim=1)

        ended = (tokens == END_ID).cpu().numpy() & running
        if ended.any():
            places = torch.from_numpy(np.flatnonzero(ended)).to(device)
            finished = zip(rows[places].tolist(), prefix[places, 1:].tolist(), log_prob[places].tolist(), strict=True)
            for row, ids, value in finished:
                drawn[row], log_probs[row] = ids, value
            running &= ~ended
        prefix = torch.cat((prefix, tokens[:, None]), dim=1)
        if np.count_nonzero(~running) >= _SHARE_LEAVING * len(running):
            kept = torch.from_numpy(np.flatnonzero(running)).to(device)
            rows, prefix, log_prob, state = rows[kept], prefix[kept], log_prob[kept], state.select(kept)
            limit, running = limit[running], running[running]
    return drawn, log_probs


def _where(uniform: Tensor, logits: Tensor, never: Tensor) -> Tensor:
    """Returns the token of each row whose share of the probabilities holds the row's uniform number."""
    cumulated = logits.double().index_fill_(1, never, -torch.inf).softmax(dim=1).cumsum(dim=1)
    total = cumulated[:, -1]
    check_numbers(total.cpu().numpy())
    # Strictly below the total, whatever rounding does: only tokens with a share of their own can be found.
    wanted = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulated, wanted[:, None], right=True)[:, 0]
