"""An encoder at work on sequences: weights and norms of every layer, sequence by sequence, and singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from alignlens.attribution.methods.norms import transformed
from alignlens.encoders.sequences import padded_batches
from alignlens.encoders.statistics import Observation
from alignlens.metrics.singular_values import stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from alignlens.encoders.contract import Encoder
    from alignlens.encoders.sequences import TokenSequence
    from alignlens.models.contract import Attention

BATCH_TOKENS = 1024


def observe(
    encoder: Encoder,
    sequences: Sequence[TokenSequence],
    tokens: int = BATCH_TOKENS,
    advance: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Observation]]:
    """Yields every sequence's number with what was observed, in batches of at most ``tokens`` padded tokens."""
    for batch in padded_batches(sequences, tokens, encoder.padding):
        given = (torch.from_numpy(part).to(encoder.device) for part in (batch.ids, batch.segments, batch.mask))
        ids, segments, mask = given
        with torch.inference_mode():
            layers = [_Layer(seen) for seen in encoder.attention(ids, segments, mask)]
        for row, number in enumerate(batch.numbers):
            yield number, _observation(layers, row, len(sequences[number]))
        del layers  # before the next batch asks for as much memory again
        if advance is not None:
            advance(len(batch.numbers))


class _Layer:
    """A layer's numbers on the CPU; its vectors are forgotten."""

    def __init__(self, seen: Attention) -> None:
        if seen.inputs is None or seen.output is None:
            raise ValueError("an encoder must report what its attention read and returned")
        vectors = transformed(seen)  # (batch, head, key, dim)
        given = (seen.weights @ vectors).sum(1)
        errors = (given if seen.bias is None else given + seen.bias).sub_(seen.output).abs_().amax(-1)
        self.weights, self.errors = _numbers(seen.weights), _numbers(errors)
        self.norms = _numbers(torch.linalg.vector_norm(vectors, dim=-1))
        self.input_norms = _numbers(torch.linalg.vector_norm(seen.inputs, dim=-1))


def _numbers(tensor: Tensor) -> Any:
    return tensor.float().cpu().numpy()


def _observation(layers: Sequence[_Layer], row: int, length: int) -> Observation:
    return Observation(
        np.stack([layer.weights[row, :, :length, :length] for layer in layers]),
        np.stack([layer.norms[row, :, :length] for layer in layers]),
        np.stack([layer.input_norms[row, :length] for layer in layers]),
        np.array([layer.errors[row, :length].max() for layer in layers], np.float64),
    )


def singular_values(encoder: Encoder) -> dict[str, Any]:
    """Returns the largest and the smallest non-zero singular value of every head's map, and their ratio."""
    heads = [
        [stretch(*(part.double().cpu().numpy() for part in parts)) for parts in _by_head(maps)]
        for maps in encoder.maps()
    ]
    names = ("largest", "smallest", "ratio", "rank")
    values: dict[str, Any] = {name: [[getattr(head, name) for head in layer] for layer in heads] for name in names}
    ratios = np.array(values["ratio"])
    return {**values, "smallest_ratio": float(ratios.min()), "mean_ratio": float(ratios.mean())}


def _by_head(maps: Any) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    return cast("Iterator[tuple[Tensor, Tensor, Tensor]]", zip(maps.value, maps.value_bias, maps.output, strict=True))
