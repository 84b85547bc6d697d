"""The Transformer with calibrated attention of Lu et al. 2021, as released or as printed.

In every decoder layer and head a mask net compares the target position with all of the source: ``m`` is near 0 where a
perturbation hurts the translation, so where the source matters. Of the usual weights ``a`` it makes

    perturbed   m a + (1 - m) / n     what the mask net learns from: its masks should hurt, and be few
    calibrated  a exp(1 - m)          what matters gets more

and a fusion of ``a`` and the calibrated weights mixes the values. What trains the masks is ``mask_game`` of the
objectives. The released code divides by the padded length in place of n, and gives weight to padding; here padding has
none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from alignlens.models.attention import (
    FUSED_GAIN,
    CrossAttention,
    attention_weights,
    by_head,
    mixed,
    projection,
    scaled_products,
)
from alignlens.models.contract import Attention, to_one
from alignlens.models.settings import CalibratedSettings, TransformerSettings
from alignlens.models.transformer import DecoderLayer, Transformer


class Calibrated(Transformer):
    """A Transformer whose decoder layers calibrate their attention to the source."""

    def mask_parameters(self) -> list[nn.Parameter]:
        """Returns the weights of all mask nets; the gates are not among them."""
        return [parameter for cross in self._cross() for parameter in cross.mask_net.parameters()]

    def at_update(self, update: int) -> None:
        """Moves the fusion on, if it depends on how long the model was trained."""
        for cross in self._cross():
            cross.fusion.at_update(update)

    @contextmanager
    def perturbed(self, masks: Sequence[Tensor] | None = None) -> Iterator[None]:
        """Within the block, perturbed weights take the place of calibrated ones in all layers and heads.

        ``masks`` by layer, (batch, head, query, key) each, take the place of the model's own.
        """
        layers = list(self._cross())
        for number, cross in enumerate(layers):
            cross.perturbs, cross.given = True, None if masks is None else masks[number]
        try:
            yield
        finally:
            for cross in layers:
                cross.perturbs, cross.given = False, None

    def _cross(self) -> Iterator[CalibratedAttention]:
        for layer in cast("Iterable[DecoderLayer]", self.decoder):
            yield cast("CalibratedAttention", layer.cross)

    def _cross_attention(self, settings: TransformerSettings) -> CrossAttention:
        return CalibratedAttention(cast("CalibratedSettings", settings))


class CalibratedAttention(CrossAttention):
    """Attention to the source whose weights are changed by a mask."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__(settings.dim, settings.heads, settings.attention_dropout)
        self.mask_net = MaskNet(settings)
        self.fusion = FUSIONS[settings.fusion](settings)
        self.renormalises = settings.rows == "renorm"
        self.perturbs = False
        self.given: Tensor | None = None

    def read(self, states: Tensor) -> Tensor:
        """Returns keys, values and the keys of the mask net, side by side (batch, key, 3 * dim)."""
        keys_values = super().read(states)
        return torch.cat((keys_values, self.mask_net.keys(states, keys_values)), -1)

    def forward(
        self, inputs: Tensor, source: Tensor, visible: Tensor, trace: bool = False
    ) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim), and the layer by name if traced, with its softmax and its mask."""
        keys, values, mask_keys = (by_head(part, self.heads) for part in source.chunk(3, dim=-1))
        query = self.query(inputs)
        mask_query = by_head(self.mask_net.queries(inputs, query), self.heads)
        query = by_head(query, self.heads)
        original = attention_weights(query, keys, visible, exact_zeros=trace)
        mask = self.given
        if mask is None:
            mask = torch.sigmoid(scaled_products(mask_query, mask_keys)).to(original.dtype)
        weights = perturbed(original, mask, visible) if self.perturbs else self._calibrated(original, mask, query)
        output, seen = mixed(self, weights, values, trace)
        if seen is None:
            return output, None
        return output, replace(seen, original=original, mask=mask.masked_fill(~visible, 0.0))

    def _calibrated(self, original: Tensor, mask: Tensor, query: Tensor) -> Tensor:
        # kept * a + added * a * exp(1 - m), written so that a mask of ones changes nothing, not even by rounding.
        rows = original * (self.fusion.total + self.fusion.added(query) * torch.expm1(1 - mask))
        return to_one(rows) if self.renormalises else rows


def perturbed(original: Tensor, mask: Tensor, visible: Tensor) -> Tensor:
    """Returns weights (batch, head, query, key) moved to equal ones at all real positions, as far as masks are low."""
    real = visible.to(original.dtype)
    equal = real / real.sum(-1, keepdim=True).clamp(min=1)
    return torch.lerp(equal, original, mask)


class MaskNet(nn.Module):
    """Queries and keys whose scaled products are the logits of masks."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self.as_printed = settings.mask_input == "printed"
        self.query, self.key = (
            HeadProjection(settings) if self.as_printed else projection(settings.dim, 1, gain=FUSED_GAIN)
            for _ in range(2)
        )

    def queries(self, inputs: Tensor, query: Tensor) -> Tensor:
        """Returns (batch, query, dim), of what enters the attention layer, or of its queries."""
        return cast("Tensor", self.query(query if self.as_printed else inputs))

    def keys(self, states: Tensor, keys_values: Tensor) -> Tensor:
        """Returns (batch, key, dim), of the encoder output, or of the keys of the attention layer."""
        return cast("Tensor", self.key(keys_values[..., : states.shape[-1]] if self.as_printed else states))


class HeadProjection(nn.Module):
    """A square matrix for every head."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        width = settings.dim // settings.heads
        self.weight = nn.Parameter(torch.empty(settings.heads, width, width))
        for matrix in self.weight.detach():
            nn.init.xavier_uniform_(matrix)

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns vectors (batch, position, dim), the part of every head projected by itself."""
        return (by_head(vectors, len(self.weight)) @ self.weight).transpose(1, 2).flatten(2)


class Fusion(nn.Module, ABC):
    """How weights and calibrated weights are added up: ``total`` of both, ``added`` of the calibrated ones."""

    total: float = 1.0

    @abstractmethod
    def added(self, query: Tensor) -> Tensor | float:
        """Returns what calibrated weights are multiplied with, for queries (batch, head, query, head_dim)."""

    def at_update(self, update: int) -> None:
        """Is told the number of an update before it is made."""


class Fixed(Fusion):
    """The same share always; the total is more than one."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self.weight, self.total = settings.fixed_weight, 1 + settings.fixed_weight

    def added(self, query: Tensor) -> float:
        """Returns the fixed weight."""
        return self.weight


class Anneal(Fusion):
    """A share that grows with the updates of the training, whose number is saved with the weights."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self._scale, self._at_inference = settings.anneal_updates, settings.inference_updates
        self.updates = nn.Parameter(torch.zeros(()), requires_grad=False)

    def added(self, query: Tensor) -> Tensor:
        """Returns one minus exp(-updates / anneal_updates)."""
        updates: Tensor = self.updates
        if not self.training and self._at_inference is not None:
            updates = torch.full_like(updates, self._at_inference)
        return -torch.expm1(-updates / self._scale)

    def at_update(self, update: int) -> None:
        """Keeps the number."""
        self.updates.fill_(update)


class Gate(Fusion):
    """A share that a learned map of the query decides, between none and all."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        width = settings.dim // settings.heads
        by_itself = settings.gate == "printed"
        self._scale = 1.0 if by_itself else width**-0.5
        maps = settings.heads if by_itself else 1
        self.weight, self.bias = nn.Parameter(torch.empty(maps, width)), nn.Parameter(torch.zeros(maps))
        nn.init.uniform_(self.weight, -(bound := (6 / (width + 1)) ** 0.5), bound)  # Xavier's for one output

    def added(self, query: Tensor) -> Tensor:
        """Returns one minus the gate (batch, head, query, 1)."""
        logits = (query * self._scale) @ self.weight[..., None] + self.bias[:, None, None]
        return torch.sigmoid(-logits)


FUSIONS: dict[str, type[Fixed | Anneal | Gate]] = {"fixed": Fixed, "anneal": Anneal, "gate": Gate}
