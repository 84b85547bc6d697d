"""Encoders by their attention: inputs, weights and outputs of every layer, whatever library computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.attention import projection_by_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch
    from torch import Tensor

    from alignlens.models.contract import Attention
    from alignlens.models.transformer import EncoderLayer, Transformer


@dataclass(frozen=True)
class HeadMaps:
    """What the heads of a layer make of its inputs: ``f(x) = (x @ value + value_bias) @ output``."""

    value: Tensor  # (head, dim, head_dim)
    value_bias: Tensor  # (head, head_dim)
    output: Tensor  # (head, head_dim, dim)


class Encoder(Protocol):
    """A stack of self-attention layers in evaluation mode."""

    layers: int
    heads: int
    dim: int
    #: The id to pad with.
    padding: int
    #: Longest sequence that positions exist for; None for no limit.
    longest: int | None

    @property
    def device(self) -> torch.device:
        """Returns the device of the model."""

    def attention(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Attention, ...]:
        """Returns every layer with inputs and output, for ids, segments and mask (batch, position).

        The output is the output projection's, before dropout, residual and norm. An encoder without segments does not
        look at them.
        """

    def maps(self) -> tuple[HeadMaps, ...]:
        """Returns the maps of every layer."""


class TransformerEncoder:
    """The encoder of our own Transformer."""

    padding = PADDING_ID

    def __init__(self, model: Transformer) -> None:
        self._model = model.eval()
        self._layers = list(cast("Iterable[EncoderLayer]", model.encoder))
        self.layers, self.heads = len(self._layers), self._layers[0].own.heads
        self.dim: int = self._layers[0].own.output.in_features
        self.longest = model.longest

    @property
    def device(self) -> torch.device:
        """Returns the device of the model."""
        return next(self._model.parameters()).device

    def attention(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Attention, ...]:
        """Returns every layer; there are no segments to look at."""
        return self._model.encode(self._model.embed_source(ids), mask, trace=True).attention

    def maps(self) -> tuple[HeadMaps, ...]:
        """Returns the maps of every layer."""
        maps = []
        for layer in self._layers:
            # One matrix makes queries, keys and values, stacked in this order.
            weight, bias = (
                part.detach()[2 * self.dim :] for part in (layer.own.project.weight, layer.own.project.bias)
            )
            output = projection_by_head(layer.own).detach()
            maps.append(HeadMaps(value_by_head(weight, self.heads), bias.view(self.heads, -1), output))
        return tuple(maps)


def value_by_head(weight: Tensor, heads: int) -> Tensor:
    """Returns a value projection, stored (output, input), as (head, dim, head_dim)."""
    return weight.view(heads, -1, weight.shape[1]).transpose(1, 2)
