"""Attention and masks of a Transformer on given pairs, and which encoder states matter for the target.

A batch is encoded once. The decoder makes one pass for its attention, two with perturbed attention
if the model has masks, and the backward passes for the importance of encoder states: the length of the gradient of
log p(label) for each state that the encoder ends in. (That of p is p times as long, for all states of a label alike,
so that their ranks are the same.) The encoder is not part of any graph. What is kept of a sentence are sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from alignlens.attribution.frames import of_source
from alignlens.attribution.outputs import log_probabilities, outputs_of
from alignlens.attribution.settings import AttributionSettings
from alignlens.corpora.batches import ordered_batches
from alignlens.decoding.forced import check_labels
from alignlens.decoding.hypothesis import check_numbers, check_ready
from alignlens.decoding.sentences import stored
from alignlens.metrics.calibration import CLEAN, PERTURBED, SHUFFLED, Calibration
from alignlens.training.objectives.mask_game import shuffled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.corpora.batches import Batch
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.sentences import Pieces
    from alignlens.metrics.calibration import CalibrationSums
    from alignlens.models.calibrated import Calibrated
    from alignlens.models.contract import Attention, Decoded, Memory
    from alignlens.models.transformer import Transformer

    Numbers = NDArray[np.floating]

#: Target steps whose backward passes share a graph. Its pass goes no further than the last of them, and sentences that
#: have ended by the first are not in it; the fewer steps, the more graphs there are to make.
_STEPS_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class SentenceFound:
    """Everything measured on one sentence: attention and mask are (layer, head, target, source), both with END."""

    number: int  # in the corpus
    original: Numbers
    importance: Numbers  # (target, source)
    combined: Numbers | None  # None if the model does not change its attention
    mask: Numbers | None  # None if it has no masks
    losses: dict[str, float]  # sums over labels


def calibration_of(
    model: Transformer,
    sources: TokenStore | Sequence[Pieces],
    targets: TokenStore | Sequence[Pieces],
    *,
    tokens: int = AttributionSettings.batch_tokens,
    source_begin: bool = False,
    numbers: NDArray[np.int64] | None = None,
    advance: Callable[[int], None] | None = None,
) -> CalibrationSums:
    """Returns the sums of all quantities of a text, or of its sentences of these ``numbers``.

    ``tokens`` is the most padded tokens of a batch. Shuffled masks depend on the number of a sentence and on nothing
    else, so that parts can be joined. ``advance`` hears how many sentences were done.
    """
    check_ready(model)
    source_store, target_store = stored(sources), stored(targets)
    calibration = Calibration()
    for batch in ordered_batches(source_store, target_store, tokens=tokens, source_begin=source_begin, indices=numbers):
        check_labels(batch, target_store, model.output.out_features)
        for one in sentences_of(model, batch.framed(model.frame)):
            calibration.add(one.number, one.original, one.importance, one.combined, one.mask, one.losses)
        if advance is not None:
            advance(batch.sentences)
    return calibration.sums()


def sentences_of(model: Transformer, batch: Batch) -> Iterator[SentenceFound]:
    """Yields the measurements of every sentence of a batch, in order."""
    encoded = _Encoded.of(model, batch)
    with torch.no_grad():
        decoded = encoded.decode(trace=True)
        losses = {CLEAN: encoded.losses(decoded), **encoded.perturbed_losses(decoded.cross, batch)}
        cotangents = outputs_of(model, decoded.states, encoded.labels, encoded.keep, runner_up=False).cotangents
    importance = importance_of(model, encoded.memory, encoded.prefix, cotangents, encoded.keep).cpu().numpy()
    original, combined, mask = (
        None if layers is None else torch.stack(layers).cpu().numpy() for layers in _weights(decoded.cross)
    )
    lengths = zip(batch.labels_mask.sum(1).tolist(), batch.source_mask.sum(1).tolist(), strict=True)
    for row, (target, source) in enumerate(lengths):
        attention, changed, masks = (
            None if each is None else of_source(each[:, row, :, :target, :source], model.frame)
            for each in (original, combined, mask)
        )
        yield SentenceFound(
            int(batch.indices[row]),
            cast("Numbers", attention),
            of_source(importance[row, :target, :source], model.frame),
            changed,
            masks,
            {name: float(loss[row]) for name, loss in losses.items()},
        )


def importance_of(model: Transformer, memory: Memory, prefix: Tensor, cotangents: Tensor, keep: Tensor) -> Tensor:
    """Returns (batch, target, source): the length of the gradient of ``cotangents . decoder states`` for each state.

    States are those of the encoder in ``memory``. Prefix vectors and cotangents are (batch, target, dim), ``keep``
    (batch, target) is True where there is a label.
    """
    importance = memory.states.new_zeros(*keep.shape, memory.mask.shape[1])
    for start in range(0, keep.shape[1], _STEPS_AT_ONCE):
        stop = min(start + _STEPS_AT_ONCE, keep.shape[1])
        rows = keep[:, start].nonzero()[:, 0]
        some = memory.select(rows)
        leaf = some.states.detach().clone().requires_grad_()
        with torch.enable_grad():
            outputs = model.decode(replace(some, states=leaf), prefix[rows, :stop]).states.unbind(1)
        for step in range(start, stop):
            again = step + 1 < stop
            (gradient,) = torch.autograd.grad(outputs[step], leaf, cotangents[rows, step], retain_graph=again)
            importance[rows, step] = torch.linalg.vector_norm(gradient, dim=-1)
    return importance


@dataclass(frozen=True)
class _Encoded:
    """A batch with its encoded source, for passes of the decoder."""

    model: Transformer
    memory: Memory
    prefix: Tensor  # (batch, target, dim): token vectors
    keep: Tensor  # (batch, target): True where there is a label
    labels: Tensor  # (batch, target)

    @classmethod
    def of(cls, model: Transformer, batch: Batch) -> _Encoded:
        """Returns a batch after the pass of the encoder, which no graph is kept of."""
        arrays = (batch.source, batch.source_mask, batch.prefix, batch.labels_mask, batch.labels)
        device = model.output.weight.device
        source, mask, prefix, keep, labels = (torch.from_numpy(each).to(device) for each in arrays)
        with torch.no_grad():
            memory = model.encode(model.embed_source(source), mask)
            return cls(model, memory, model.embed_target(prefix), keep, labels)

    def decode(self, trace: bool) -> Decoded:
        """Returns a pass of the decoder."""
        return self.model.decode(self.memory, self.prefix, trace)

    def losses(self, decoded: Decoded) -> Numbers:
        """Returns the sum over the labels of every sentence of minus log p."""
        states, keep = decoded.states[:, :, None], self.keep[:, :, None].clone()
        keep[:, : self.model.frame.lead] = False
        values = log_probabilities(self.model, states, self.labels, keep)[..., 0].double().sum(1).neg().cpu().numpy()
        check_numbers(values)
        return cast("Numbers", values)

    def perturbed_losses(self, cross: Sequence[Attention], batch: Batch) -> dict[str, Numbers]:
        """Returns the losses with attention that masks perturb, and their values in another order; none without."""
        if cross[0].mask is None:
            return {}
        game = cast("Calibrated", self.model)
        with game.perturbed():
            decoded = self.decode(trace=True)
        # The masks of that pass, as in training: a layer's masks depend on the perturbed layers below it.
        masks = [cast("Tensor", layer.mask) for layer in decoded.cross]
        with game.perturbed(shuffled(masks, batch)):
            by_luck = self.decode(trace=False)
        return {PERTURBED: self.losses(decoded), SHUFFLED: self.losses(by_luck)}


def _weights(cross: Sequence[Attention]) -> tuple[list[Tensor], list[Tensor] | None, list[Tensor] | None]:
    """Returns original and combined attention and masks by layer; None stands for what the model does not have."""
    weights = [layer.weights for layer in cross]
    original = [layer.weights if layer.original is None else layer.original for layer in cross]
    changed = any(one is not other for one, other in zip(weights, original, strict=True))
    masks = [layer.mask for layer in cross if layer.mask is not None]
    return original, weights if changed else None, masks or None
