"""Methods that read gradients of source embeddings: they differ only in how they use the same backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.contract import product
from alignlens.attribution.outputs import outputs_of
from alignlens.attribution.rows import check_finite, normalised
from alignlens.attribution.spec import Contributions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

    from alignlens.attribution.gradients.contract import Forward, Gradients, Products, SourceGradients
    from alignlens.attribution.inputs import Inputs, PaddedSentences
    from alignlens.attribution.passes import Kind
    from alignlens.attribution.spec import GradientPasses
    from alignlens.attribution.statistics import Statistics
    from alignlens.models.contract import Seq2Seq

    OfVectors = Callable[[Tensor, Tensor], Tensor] | None


class _Backward(NamedTuple):
    """The key of a backward pass: kinds with equal keys share it."""

    true_gradient: bool
    runner_up: bool


class BackwardReader:
    """The gradient methods of one sweep."""

    def __init__(
        self, model: Seq2Seq, kinds: Sequence[tuple[Kind, GradientPasses]], usual: SourceGradients[Any]
    ) -> None:
        self._readings = {kind: passes.reading(kind.values) for kind, passes in kinds}
        self._normalised = {kind: passes.normalised for kind, passes in kinds}
        self._by_backward: dict[_Backward, list[Kind]] = {}
        for kind in self._readings:
            values = kind.values
            backward = _Backward(values["gradient"] == "true", values["label"] == "runner_up")
            self._by_backward.setdefault(backward, []).append(kind)
        self._passes = {False: usual}
        if any(backward.true_gradient for backward in self._by_backward):
            self._passes[True] = source_gradients(model, true_gradient=True)

    def scores(self, inputs: Inputs, forward: Forward) -> dict[Kind, Contributions]:
        """Returns the scores of every kind, as rows unless raw scores are averaged first."""
        contributions = {}
        for backward, kinds in self._by_backward.items():
            for kind, raw in self._raw(inputs, forward, backward, kinds).items():
                if not kind.averages_raw:
                    raw = self._row(kind, raw, inputs.source_mask, inputs.wanted, inputs.statistics)
                contributions[kind] = Contributions(raw)
        return contributions

    def finished(self, kind: Kind, mean: Tensor, sentences: PaddedSentences, statistics: Statistics) -> Tensor:
        """Returns the rows (sentence, target, source) of a mean of raw scores."""
        return self._row(kind, mean, sentences.source_mask, sentences.labels_mask, statistics)

    def _row(self, kind: Kind, raw: Tensor, source_mask: Tensor, wanted: Tensor, statistics: Statistics) -> Tensor:
        """Returns the scores of a kind from raw scores, normalised if it asks for that."""
        row = self._readings[kind].row(raw)
        if self._normalised[kind]:
            return normalised(row, raw, source_mask[:, None], wanted, statistics)
        check_finite(raw, "gradients")
        return row

    def _raw(self, inputs: Inputs, forward: Forward, backward: _Backward, kinds: Iterable[Kind]) -> dict[Kind, Tensor]:
        """Returns the raw scores (row, target, source) of kinds that share a backward pass."""
        wanted = inputs.wanted
        outputs = outputs_of(inputs.model, forward.states, inputs.labels, wanted, backward.runner_up)
        readings = {kind: self._readings[kind] for kind in kinds}
        shape = (*wanted.shape, inputs.vectors.shape[1])
        read = {reading.of_vectors: inputs.vectors.new_zeros(shape) for reading in readings.values()}
        passes = self._passes[backward.true_gradient]
        for piece, values in _read(passes, forward, outputs.cotangents, inputs, list(read)):
            row, start = (piece.positions >= 0).nonzero(as_tuple=True)
            for of_vectors, scores in zip(read, values, strict=True):
                read[of_vectors][piece.rows[row], piece.positions[row, start]] = scores[row, start]
            inputs.statistics.backward_passes += len(row)
        raw = {}
        for kind, reading in readings.items():
            scores = reading.raw(read[reading.of_vectors])
            if kind.values["score"] == "p":
                scores = scores * outputs.probabilities[..., None]
            raw[kind] = scores
        return raw


def _read(
    passes: SourceGradients[Any], forward: Forward, cotangents: Tensor, inputs: Inputs, ways: Sequence[OfVectors]
) -> Iterator[tuple[Gradients | Products, list[Tensor]]]:
    """Yields pieces of backward passes with what is read from each, (some, start, source) in every way."""
    if list(ways) == [None]:
        for products in passes.products(forward, cotangents, inputs.wanted, inputs.embeddings):
            yield products, [products.values]
        return
    for gradients in passes.backward(forward, cotangents, inputs.wanted):
        clean = inputs.embeddings[gradients.rows, None]
        yield gradients, [(way or product)(gradients.vectors, clean) for way in ways]
