"""One sweep: noisy copies of a few sentences through the model and back, and every method that lives on them.

All methods of a sweep share its noise. Each copy is one forward pass; the backward passes of a copy serve every
gradient method, since they differ only in what they make of the same gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from alignlens.attribution.adaptive import LOOK, Sampling
from alignlens.attribution.gradients.choice import scales_gradients, source_gradients
from alignlens.attribution.methods import attention, ding_grad, layers, li_grad, norms
from alignlens.attribution.methods.smoothgrad import NORMALISED_FIRST
from alignlens.attribution.noise import spread_of, unit_noise
from alignlens.attribution.outputs import outputs_of
from alignlens.attribution.passes import copies_of
from alignlens.attribution.rows import Statistics, normalised

if TYPE_CHECKING:
    from alignlens.attribution.gradients.contract import Forward, Gradients, Products, SourceGradients
    from alignlens.attribution.passes import Noise
    from alignlens.attribution.registry import Method
    from alignlens.models.contract import Attention, Seq2Seq


#: Read off a forward pass, layer by layer.
_READ_OFF = {"attention": attention.of_layer, "norms": norms.of_layer}


class _Kind(NamedTuple):
    """What decides a row of one copy: equal for methods that differ in the number of copies only."""

    name: str
    settings: tuple[tuple[str, Any], ...]


class _Backward(NamedTuple):
    """What decides a backward pass."""

    true_gradient: bool
    runner_up: bool


@dataclass(frozen=True)
class Sentences:
    """Padded sentences, longest targets first; ``numbers`` are their places in the corpus."""

    numbers: Sequence[int]
    source: Tensor  # (sentence, source)
    source_mask: Tensor
    prefix: Tensor  # (sentence, target)
    labels: Tensor
    labels_mask: Tensor


class Sweep:
    """The methods of one noise, ready for any number of batches."""

    def __init__(self, model: Seq2Seq, noise: Noise, methods: Sequence[Method], adaptive: float | None) -> None:
        self._model, self._noise, self._methods = model, noise, methods
        self._copies = max(map(copies_of, methods))
        self._risk = adaptive if noise.sigma and self._copies > 1 else None
        #: For how many copies of a sentence a batch has room. Adaptive sampling draws fewer at a time, but batches of
        #: more sentences would have more padding.
        self.copies_at_once = self._copies if self._risk is None else min(self._copies, 2 * LOOK)
        scaled = scales_gradients(model)
        self._kinds = {method: _kind(method, scaled) for method in methods}
        passes = {_backward(kind) for kind in self._kinds.values() if kind.name not in _READ_OFF}
        self._backwards = sorted(passes)
        self.has_gradients = bool(passes)
        self._passes: dict[bool, SourceGradients[Any]] = {
            true: source_gradients(model, true) for true in {False, *(each.true_gradient for each in passes)}
        }

    def run(self, sentences: Sentences, rows: int, statistics: Statistics) -> dict[Method, Tensor]:
        """Returns the scores (sentence, target, source) of every method, on at most ``rows`` rows at a time."""
        model = self._model
        embeddings = model.embed_source(sentences.source)
        prefix = model.embed_target(sentences.prefix)
        spread = self._noise.sigma * spread_of(embeddings, sentences.source_mask)
        kept = _Mean if self._noise.sigma else _Only
        shape = (*sentences.labels.shape, sentences.source.shape[1])
        means = {method: kept(shape, embeddings) for method in self._methods}
        sampling = Sampling(sentences.labels_mask, sentences.source_mask, self._copies, self._risk, rows)
        for chosen, copies in sampling:
            some = _select(sentences, chosen)
            length, dim = embeddings.shape[1:]
            vectors = embeddings[chosen, None].expand(-1, len(copies), -1, -1)
            if self._noise.sigma:
                drawn = self._draw(some, copies, length, dim).to(vectors)
                vectors = vectors + drawn.mul_(spread[chosen, None])
            wanted = sampling.active[chosen]
            found = self._rows(some, vectors, embeddings[chosen], prefix[chosen], wanted, statistics)
            for method, kind in self._kinds.items():
                below = sum(copy < copies_of(method) for copy in copies)
                if below:
                    means[method].add(chosen, found[kind][:, :below], wanted)
            if self._risk is not None:
                sampling.see(chosen, [found[kind] for kind in self._settling()])
        return {method: self._finished(method, mean, sentences, statistics) for method, mean in means.items()}

    def _draw(self, sentences: Sentences, copies: range, length: int, dim: int) -> Tensor:
        """Returns noise (sentence, copy, source, dim), zero at padding."""
        noise = torch.zeros(len(sentences.numbers), len(copies), length, dim)
        lengths = sentences.source_mask.sum(1).tolist()
        for place, (number, real) in enumerate(zip(sentences.numbers, lengths, strict=True)):
            noise[place, :, :real] = unit_noise(self._noise.seed, number, copies, real, dim)
        return noise

    def _rows(
        self,
        sentences: Sentences,
        vectors: Tensor,
        embeddings: Tensor,
        prefix: Tensor,
        wanted: Tensor,
        statistics: Statistics,
    ) -> dict[_Kind, Tensor]:
        """Returns the rows (sentence, copy, target, source) of every kind, of vectors (sentence, copy, source, dim)."""
        count, copies = vectors.shape[:2]
        mask = _repeat(sentences.source_mask, copies)
        flat = vectors.flatten(0, 1)
        prefix = _repeat(prefix, copies)
        forward = self._passes[False].forward(flat, mask, prefix)
        statistics.forward_passes += len(flat)
        by_copy = (count, copies)
        kinds = set(self._kinds.values())
        found: dict[_Kind, Tensor] = {}
        labels_mask = _repeat(sentences.labels_mask, copies)
        cross = cache(lambda label: self._cross(label, forward, flat, mask, sentences, copies))
        of_layer = cache(lambda name, label, head, number: _READ_OFF[name](cross(label)[number], head))
        for kind in kinds:
            if kind.name in _READ_OFF:
                settings = dict(kind.settings)
                which = kind.name, settings.get("label", "reference"), settings["head"]
                scores = layers.read(
                    len(forward.cross),
                    partial(of_layer, *which),
                    labels_mask,
                    self._model.paper_attention,
                    settings["layer"],
                    settings["step"],
                )
                found[kind] = scores.view(*by_copy, *scores.shape[1:])
        for backward in self._backwards:
            passes = self._passes[backward.true_gradient]
            mine = [kind for kind in kinds if kind.name not in _READ_OFF and _backward(kind) == backward]
            raw = self._raw(passes, forward, backward, mine, sentences, embeddings, _repeat(wanted, copies), statistics)
            visible = sentences.source_mask[:, None, None]
            for kind, scores in raw.items():
                scores = scores.view(*by_copy, *scores.shape[1:])
                clipped = _row_of(kind)(scores)
                if dict(kind.settings)["per_copy"]:
                    clipped = normalised(clipped, scores, visible, wanted[:, None].expand(-1, copies, -1), statistics)
                    found[kind] = clipped
                else:
                    found[kind] = scores
        return found

    def _raw(
        self,
        passes: SourceGradients[Any],
        forward: Forward,
        backward: _Backward,
        kinds: Iterable[_Kind],
        sentences: Sentences,
        embeddings: Tensor,
        wanted: Tensor,
        statistics: Statistics,
    ) -> dict[_Kind, Tensor]:
        """Returns the raw scores (row, target, source) of gradient methods."""
        copies = len(wanted) // len(embeddings)
        outputs = outputs_of(self._model, forward.states, _repeat(sentences.labels, copies), wanted, backward.runner_up)
        shape = (*wanted.shape, embeddings.shape[1])
        readings = {_reading(kind) for kind in kinds}
        raw = {reading: embeddings.new_zeros(shape) for reading in readings}
        every = _repeat(embeddings, copies)
        arguments = (forward, outputs.cotangents, wanted)
        pieces: Iterable[tuple[Gradients | Products, dict[str, Tensor]]]
        if readings == {"dot"}:
            pieces = ((each, {"dot": each.values}) for each in passes.products(*arguments, every))
        else:
            pieces = ((each, _read(each, readings, every)) for each in passes.backward(*arguments))
        for piece, by_reading in pieces:
            row, start = (piece.positions >= 0).nonzero(as_tuple=True)
            for reading, values in by_reading.items():
                raw[reading][piece.rows[row], piece.positions[row, start]] = values[row, start]
            statistics.backward_passes += len(row)
        found = {}
        for kind in kinds:
            scores = raw[_reading(kind)]
            if kind.name == "li":
                scores = scores.abs()
            if dict(kind.settings)["score"] == "p":
                scores = scores * outputs.probabilities[..., None]
            found[kind] = scores
        return found

    def _cross(
        self, label: str, forward: Forward, vectors: Tensor, mask: Tensor, sentences: Sentences, copies: int
    ) -> Sequence[Attention]:
        """Returns the attention of every layer; for runner-ups, its weights at each step with the label replaced."""
        if label == "reference":
            return forward.cross
        labels = _repeat(sentences.labels, copies)
        wanted = _repeat(sentences.labels_mask, copies)
        others = outputs_of(self._model, forward.states, labels, wanted, runner_up=True).labels
        steps = []
        for step in range(labels.shape[1]):
            prefix = _repeat(sentences.prefix, copies).clone()
            if step + 1 < prefix.shape[1]:
                prefix[:, step + 1] = others[:, step]
            changed = self._passes[False].forward(vectors, mask, self._model.embed_target(prefix))
            steps.append([layer.weights[:, :, step] for layer in changed.cross])
        weights = [torch.stack(layer, 2) for layer in zip(*steps, strict=True)]
        return [replace(layer, weights=changed) for layer, changed in zip(forward.cross, weights, strict=True)]

    def _settling(self) -> list[_Kind]:
        """Returns the kinds whose highest scores must have settled before sampling stops."""
        return [kind for kind in dict.fromkeys(self._kinds.values()) if dict(kind.settings).get("per_copy", True)]

    def _finished(self, method: Method, mean: _Mean, sentences: Sentences, statistics: Statistics) -> Tensor:
        scores = mean.value()
        if self._risk is not None:
            used = int((mean.used * sentences.labels_mask).sum())
            statistics.copies[method.text] = statistics.copies.get(method.text, 0) + used
        kind = self._kinds[method]
        if kind.name not in _READ_OFF and not dict(kind.settings)["per_copy"]:
            clipped, visible = _row_of(kind)(scores), sentences.source_mask[:, None]
            scores = normalised(clipped, scores, visible, sentences.labels_mask, statistics)
        return scores.float()


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
    """The one copy that there is without noise."""

    def __init__(self, shape: tuple[int, ...], like: Tensor) -> None:
        self._rows = like.new_zeros(shape)

    def add(self, chosen: Tensor, rows: Tensor, wanted: Tensor) -> None:
        """Keeps rows (sentence, 1, target, source) of chosen sentences."""
        self._rows[chosen] = rows[:, 0]

    def value(self) -> Tensor:
        """Returns them (sentence, target, source)."""
        return self._rows


def _kind(method: Method, scaled: bool) -> _Kind:
    settings = {key: value for key, value in method.parameters.items() if key not in ("sigma", "n", "seed", "order")}
    if not method.name.endswith("grad"):
        return _Kind(method.name.removeprefix("smoothed_"), tuple(settings.items()))
    settings["per_copy"] = method.parameters.get("order", NORMALISED_FIRST[0]) in NORMALISED_FIRST
    if not scaled:
        settings["gradient"] = "train"  # the same backward pass
    if settings["per_copy"]:
        settings["score"] = "log_p"  # a factor that is the same for a whole row goes when the row is normalised
    return _Kind(method.name.split("_")[0], tuple(settings.items()))


def _backward(kind: _Kind) -> _Backward:
    settings: Mapping[str, Any] = dict(kind.settings)
    return _Backward(settings["gradient"] == "true", settings["label"] == "runner_up")


def _reading(kind: _Kind) -> str:
    return "mean_abs" if dict(kind.settings).get("reading") == "mean_abs" else "dot"


def _read(gradients: Gradients, readings: set[str], embeddings: Tensor) -> dict[str, Tensor]:
    """Returns what the methods read from gradients, each (some, start, source)."""
    found = {}
    if "mean_abs" in readings:
        found["mean_abs"] = li_grad.mean_abs(gradients.vectors)
    if "dot" in readings:
        found["dot"] = ding_grad.score(gradients.vectors, embeddings[gradients.rows, None])
    return found


def _row_of(kind: _Kind) -> Callable[[Tensor], Tensor]:
    return ding_grad.row if kind.name == "ding" else li_grad.row


def _repeat(tensor: Tensor, copies: int) -> Tensor:
    return tensor.repeat_interleave(copies, 0) if copies > 1 else tensor


def _select(sentences: Sentences, chosen: Tensor) -> Sentences:
    numbers = [sentences.numbers[place] for place in chosen.tolist()]
    names = ("source", "source_mask", "prefix", "labels", "labels_mask")
    return Sentences(numbers, *(getattr(sentences, name)[chosen] for name in names))
