"""One sweep: copies of a few sentences through the model and back, and all methods that use them.

All methods of a sweep share its copies, which are noisy, or points of a path. Each copy is one forward pass, and the
backward passes of a copy serve every gradient method; what a method needs of them is declared in its spec. Methods with
passes of their own get the same copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from alignlens.attribution.adaptive import LOOK, Sampling
from alignlens.attribution.gradient_passes import BackwardReader
from alignlens.attribution.gradients.choice import scales_gradients, source_gradients
from alignlens.attribution.inputs import Inputs, PaddedSentences
from alignlens.attribution.noise import spread_of, unit_noise
from alignlens.attribution.passes import Kind, copies_of
from alignlens.attribution.spec import (
    Contributions,
    ForwardPass,
    GradientPasses,
    OwnPasses,
    TracedAttention,
    TracedMasks,
)
from alignlens.attribution.statistics import Statistics
from alignlens.attribution.traced_attention import read_attention, read_masks

if TYPE_CHECKING:
    from alignlens.attribution.passes import Copying
    from alignlens.attribution.registry import Method
    from alignlens.models.contract import Seq2Seq

Declared = TypeVar("Declared", TracedAttention, TracedMasks, ForwardPass, GradientPasses, OwnPasses)


class Sweep:
    """The methods of one kind of copies, ready for any number of batches."""

    def __init__(
        self,
        model: Seq2Seq,
        copying: Copying,
        methods: Sequence[Method],
        adaptive: float | None,
        masks: Seq2Seq | None = None,
    ) -> None:
        self._model, self._copying, self._methods = model, copying, methods
        self._copies = max(map(copies_of, methods))
        self._risk = adaptive if copying.sigma and self._copies > 1 else None
        #: For how many copies of a sentence a batch has room. Adaptive sampling draws fewer at a time, but batches of
        #: more sentences would have more padding.
        self.copies_at_once = self._copies if self._risk is None else min(self._copies, 2 * LOOK)
        scaled = scales_gradients(model)
        self._kinds = {method: Kind.of(method, scaled) for method in methods}
        kinds = list(dict.fromkeys(self._kinds.values()))
        self._own = _with(OwnPasses, kinds)
        self._shared = _SharedPasses(model, kinds, masks) if len(self._own) < len(kinds) else None
        #: Whether a few sentences are enough work for a job. A GPU has room for many.
        on_a_processor = next(model.parameters()).device.type == "cpu"
        self.is_long = on_a_processor and any(isinstance(kind.passes, (GradientPasses, OwnPasses)) for kind in kinds)

    def run(self, sentences: PaddedSentences, rows: int, statistics: Statistics) -> dict[Method, list[Tensor]]:
        """Returns the scores of every method, on at most ``rows`` rows at a time.

        They are (sentence, target, source), and (sentence, target, target) of methods that explain the prefix too.
        """
        model = self._model
        embeddings = model.embed_source(sentences.source)
        prefix = model.embed_target(sentences.prefix)
        spread = self._copying.sigma * spread_of(embeddings, sentences.source_mask)
        means = {method: self._means(method, sentences, embeddings) for method in self._methods}
        sampling = Sampling(sentences.labels_mask, sentences.source_mask, self._copies, self._risk, rows)
        for chosen, copies in sampling:
            some = sentences.select(chosen)
            vectors = self._copied(some, embeddings[chosen, None], spread[chosen, None], copies)
            wanted = sampling.active[chosen]
            inputs = Inputs(model, some, vectors, embeddings[chosen], prefix[chosen], wanted, rows, statistics)
            scored = self._scores(inputs)
            for method, kind in self._kinds.items():
                below = sum(copy < copies_of(method) for copy in copies)
                if below:
                    for mean, scores in zip(means[method], _sides(method, scored[kind]), strict=True):
                        mean.add(chosen, inputs.by_copy(scores)[:, :below], wanted)
            if self._risk is not None:
                sampling.see(chosen, [inputs.by_copy(scored[kind].source) for kind in self._settling()])
        return {method: self._finished(method, sides, sentences, statistics) for method, sides in means.items()}

    def _copied(self, sentences: PaddedSentences, vectors: Tensor, spread: Tensor, copies: range) -> Tensor:
        """Returns vectors (sentence, copy, source, dim) of some copies.

        ``vectors`` (sentence, 1, source, dim) are the sentences, ``spread`` (sentence, 1, 1, 1) is the size of noise.
        """
        if self._copying.points:
            shares = [self._copying.share(copy) for copy in copies]
            return vectors * vectors.new_tensor(shares)[:, None, None]
        copied = vectors.expand(-1, len(copies), -1, -1)
        if not self._copying.sigma:
            return copied
        drawn = self._draw(sentences, copies, *vectors.shape[2:]).to(vectors)
        return copied + drawn.mul_(spread)

    def _draw(self, sentences: PaddedSentences, copies: range, length: int, dim: int) -> Tensor:
        """Returns noise (sentence, copy, source, dim), zero at padding."""
        noise = torch.zeros(len(sentences.numbers), len(copies), length, dim)
        lengths = sentences.source_mask.sum(1).tolist()
        for place, (number, real) in enumerate(zip(sentences.numbers, lengths, strict=True)):
            noise[place, :, :real] = unit_noise(self._copying.seed, number, copies, real, dim)
        return noise

    def _scores(self, inputs: Inputs) -> dict[Kind, Contributions]:
        """Returns the scores of every kind, row by row."""
        shared = self._shared.scores(inputs) if self._shared is not None else {}
        return shared | {kind: passes.score(inputs, kind.values) for kind, passes in self._own}

    def _means(self, method: Method, sentences: PaddedSentences, like: Tensor) -> list[_Mean]:
        """Returns a mean over copies for every matrix of a method."""
        kept = _Only if self._copying.is_single else _Mean
        widths = [sentences.source.shape[1], sentences.prefix.shape[1]][: len(method.matrices)]
        return [kept((*sentences.labels.shape, width), like) for width in widths]

    def _settling(self) -> list[Kind]:
        """Returns the kinds whose highest scores must have settled before sampling stops."""
        return [kind for kind in dict.fromkeys(self._kinds.values()) if not kind.averages_raw]

    def _finished(
        self, method: Method, means: Sequence[_Mean], sentences: PaddedSentences, statistics: Statistics
    ) -> list[Tensor]:
        if self._risk is not None:
            used = int((means[0].used * sentences.labels_mask).sum())
            statistics.copies[method.text] = statistics.copies.get(method.text, 0) + used
        sides = [mean.value() for mean in means]
        kind = self._kinds[method]
        if self._shared is not None and kind.averages_raw:
            sides = [self._shared.backward.finished(kind, scores, sentences, statistics) for scores in sides]
        return [scores.float() for scores in sides]


class _SharedPasses:
    """One forward pass of every copy, backward passes if any method wants them, and who reads what.

    ``masks`` is the model with its mask nets; without it, the model itself has them if it is asked for any.
    """

    def __init__(self, model: Seq2Seq, kinds: Sequence[Kind], masks: Seq2Seq | None) -> None:
        self._passes = source_gradients(model)
        self._attention, self._forward = _with(TracedAttention, kinds), _with(ForwardPass, kinds)
        self._masks, self._masked = _with(TracedMasks, kinds), masks
        self._only_masks = masks is not None and len(self._masks) == len(kinds)
        self.backward = BackwardReader(model, _with(GradientPasses, kinds), self._passes)

    def scores(self, inputs: Inputs) -> dict[Kind, Contributions]:
        """Returns the scores of all kinds that share these passes."""
        scores = {}
        if self._masks and self._masked is not None:
            memory = self._masked.encode(inputs.vectors, inputs.source_mask)
            cross = self._masked.decode(memory, inputs.prefix_vectors, trace=True).cross
            inputs.statistics.forward_passes += len(inputs.vectors)
            scores = read_masks(self._masks, inputs, cross)
        if self._only_masks:
            return scores
        forward = self._passes.forward(inputs.vectors, inputs.source_mask, inputs.prefix_vectors)
        inputs.statistics.forward_passes += len(inputs.vectors)
        if self._masked is None:
            scores = read_masks(self._masks, inputs, forward.cross)
        return {
            **scores,
            **read_attention(self._attention, inputs, forward),
            **{kind: passes.score(inputs, forward, kind.values) for kind, passes in self._forward},
            **self.backward.scores(inputs, forward),
        }


class _Mean:
    """A running mean over copies, per target position: with adaptive sampling they have different numbers of copies."""

    def __init__(self, shape: tuple[int, ...], like: Tensor) -> None:
        self._sum = like.new_zeros(shape, dtype=torch.float64)
        self.used = like.new_zeros(shape[:-1], dtype=torch.int64)

    def add(self, chosen: Tensor, rows: Tensor, wanted: Tensor) -> None:
        """Adds rows (sentence, copy, target, source) of chosen sentences at the target positions that are wanted."""
        total = rows.sum(1, dtype=torch.float64)
        self._sum[chosen] += total.masked_fill(~wanted[..., None], 0.0)
        self.used[chosen] += wanted * rows.shape[1]

    def value(self) -> Tensor:
        """Returns the mean (sentence, target, source)."""
        return self._sum / self.used.clamp(min=1)[..., None]


class _Only(_Mean):
    """The single copy without noise and path."""

    def __init__(self, shape: tuple[int, ...], like: Tensor) -> None:
        self._rows = like.new_zeros(shape)

    def add(self, chosen: Tensor, rows: Tensor, wanted: Tensor) -> None:
        """Keeps rows (sentence, 1, target, source) of chosen sentences."""
        self._rows[chosen] = rows[:, 0]

    def value(self) -> Tensor:
        """Returns them (sentence, target, source)."""
        return self._rows


def _with(passes: type[Declared], kinds: Iterable[Kind]) -> list[tuple[Kind, Declared]]:
    """Returns the kinds that declare such passes, with their declaration."""
    return [(kind, kind.passes) for kind in kinds if isinstance(kind.passes, passes)]


def _sides(method: Method, scores: Contributions) -> list[Tensor]:
    """Returns the matrices of a method; raises unless it returned those that it declares."""
    sides = [side for side in scores if side is not None]
    if len(sides) != len(method.matrices):
        raise ValueError(f"method {method.name} declares {len(method.matrices)} matrices, but gave {len(sides)}")
    return sides
