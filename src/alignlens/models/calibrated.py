"""The Transformer with calibrated attention of Lu et al. 2021, as released or as printed.

In every decoder layer and head a mask net compares the target position with all of the source: ``m`` is near 0 where a
perturbation hurts the translation, so where the source matters. Of the usual weights ``a`` it makes

    perturbed   m a + (1 - m) / n     what the mask net learns from: its masks should hurt, and be few
    calibrated  a exp(1 - m)          what matters gets more

and a fusion of ``a`` and the calibrated weights mixes the values. What trains the masks is ``mask_game`` of the
objectives. With the fusion ``none`` the values are mixed by ``a``: this is the Transformer, and its mask nets, which
``mask_nets`` trains alone, only tell what matters.

The released code divides by the padded length in place of n, and gives weight to padding; here padding has none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

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

#: Logit of 1 - m at the beginning, where masks are trained alone.
_FIRST_STRENGTH = 2.0


class Calibrated(Transformer):
    """A Transformer whose decoder layers calibrate their attention to the source."""

    def mask_parameters(self) -> list[nn.Parameter]:
        """Returns the weights of all mask nets; the gates are not among them."""
        return [parameter for cross in self._cross() for parameter in cross.mask_net.parameters()]

    def freeze(self) -> None:
        """Freezes everything but the mask nets: no other gradients are computed, nor those of keys and values."""
        self.requires_grad_(False)
        for cross in self._cross():
            cross.mask_net.requires_grad_(True)
            cross.is_frozen = True

    def at_update(self, update: int) -> None:
        """Updates the fusion, if it depends on how long the model was trained."""
        for cross in self._cross():
            if cross.fusion is not None:
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
        self.fusion: Fusion | None = None if settings.fusion == "none" else FUSIONS[settings.fusion](settings)
        self.renormalises = settings.rows == "renorm"
        self.perturbs = self.is_frozen = False
        self.given: Tensor | None = None

    def read(self, states: Tensor) -> Tensor:
        """Returns keys, values and keys of the mask net, side by side by head (batch, head, key, 3 * head_dim)."""
        keys_values = super().read(states)
        parts = (*keys_values.chunk(2, dim=-1), self.mask_net.keys(states, keys_values))
        # By head in memory, too: else every step of a decoder would copy them for its products.
        return torch.cat([by_head(part, self.heads) for part in parts], -1)

    def forward(
        self, inputs: Tensor, source: Tensor, visible: Tensor, trace: bool = False
    ) -> tuple[Tensor, Attention | None]:
        """Returns the output (batch, query, dim), and the layer by name if traced, with its softmax and its mask."""
        keys, values, mask_keys = source.chunk(3, dim=-1)
        if self.is_frozen:  # They share a tensor with the mask nets, so autograd would think they depend on it.
            keys, values = keys.detach(), values.detach()
        query = self.query(inputs)
        original = attention_weights(by_head(query, self.heads), keys, visible, exact_zeros=trace)
        if self.fusion is None and not (self.perturbs or trace):
            return mixed(self, original, values, trace)
        strength = self._strength(inputs, query, mask_keys).to(original.dtype)
        if self.perturbs:
            weights = perturbed(original, strength, visible)
        elif self.fusion is None:
            weights = original
        else:
            weights = self.fusion(original, original * torch.expm1(strength), query)
            weights = to_one(weights) if self.renormalises else weights
        output, seen = mixed(self, weights, values, trace)
        if seen is None:
            return output, None
        return output, replace(seen, original=original, mask=(1 - strength).masked_fill(~visible, 0.0))

    def factors(self, inputs: Tensor, source: Tensor) -> Tensor | None:
        """Returns the factor of the softmax (batch, head, query, key) before rows are renormalised.

        ``source`` is what ``read`` gave. None if nothing is: without a fusion masks change no weight.
        """
        if self.fusion is None:
            return None
        query = self.query(inputs)
        strength = self._strength(inputs, query, source.chunk(3, dim=-1)[2])
        return cast("Tensor", self.fusion(torch.ones_like(strength), torch.expm1(strength), query))

    def _strength(self, inputs: Tensor, query: Tensor, mask_keys: Tensor) -> Tensor:
        """Returns 1 - m (batch, head, query, key): of the mask net, or of masks that are given."""
        if self.given is not None:
            return 1 - self.given
        mask_query = by_head(self.mask_net.queries(inputs, query), self.heads)
        return torch.sigmoid(-scaled_products(mask_query, mask_keys))


def perturbed(original: Tensor, strength: Tensor, visible: Tensor) -> Tensor:
    """Returns weights (batch, head, query, key), moved by ``strength`` (1 - m) to equal ones at real positions."""
    real = visible.to(original.dtype)
    equal = real / real.sum(-1, keepdim=True).clamp(min=1)
    return torch.lerp(original, equal.expand_as(original), strength)


class MaskNet(nn.Module):
    """Queries and keys whose scaled products are the logits of masks."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self.as_printed = settings.mask_input == "printed"
        self.query, self.key = (
            HeadProjection(settings) if self.as_printed else projection(settings.dim, 1, gain=FUSED_GAIN)
            for _ in range(2)
        )
        if settings.fusion == "none" and not self.as_printed:
            # A trained model may bear attention that is perturbed by half. Masks would have nothing to learn from, and
            # the penalty would take them all to one; so they begin where nearly everything is perturbed.
            bias = (_FIRST_STRENGTH / math.sqrt(settings.dim // settings.heads)) ** 0.5
            nn.init.constant_(cast("nn.Linear", self.query).bias, bias)
            nn.init.constant_(cast("nn.Linear", self.key).bias, -bias)

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
    """Adds weights ``a`` and calibrated weights ``a exp(1 - m)`` up.

    It is given ``more = a (exp(1 - m) - 1)``, by which the latter are larger: so masks of one change nothing at all.
    """

    @abstractmethod
    def forward(self, original: Tensor, more: Tensor, query: Tensor) -> Tensor:
        """Returns weights (batch, head, query, key) like the first two, for queries (batch, query, dim)."""

    def at_update(self, update: int) -> None:
        """Takes the number of an update before it is made."""


class Fixed(Fusion):
    """``a + w a exp(1 - m)``."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self._weight = settings.fixed_weight

    def forward(self, original: Tensor, more: Tensor, query: Tensor) -> Tensor:
        """Returns the sum, of which all is more than the original."""
        return torch.add(original * (1 + self._weight), more, alpha=self._weight)


class Anneal(Fusion):
    """``g a + (1 - g) a exp(1 - m)``, where g falls with the updates of the training; they are saved as a weight."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        self._scale, self._at_inference = settings.anneal_updates, settings.inference_updates
        self.updates = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, original: Tensor, more: Tensor, query: Tensor) -> Tensor:
        """Returns the sum for the updates so far."""
        return torch.addcmul(original, more, self.added())

    def added(self) -> Tensor:
        """Returns 1 - g."""
        updates: Tensor = self.updates
        if not self.training and self._at_inference is not None:
            updates = torch.full_like(updates, self._at_inference)
        return -torch.expm1(-updates / self._scale)

    def at_update(self, update: int) -> None:
        """Keeps the number."""
        self.updates.fill_(update)


class Gate(Fusion):
    """``g a + (1 - g) a exp(1 - m)``, where g is the sigmoid of a learned map of the query."""

    def __init__(self, settings: CalibratedSettings) -> None:
        super().__init__()
        width = settings.dim // settings.heads
        by_itself = settings.gate == "printed"
        self._scale = 1.0 if by_itself else width**-0.5
        maps = settings.heads if by_itself else 1
        self.weight, self.bias = nn.Parameter(torch.empty(maps, width)), nn.Parameter(torch.zeros(maps))
        nn.init.uniform_(self.weight, -(bound := (6 / (width + 1)) ** 0.5), bound)  # Xavier's for one output

    def forward(self, original: Tensor, more: Tensor, query: Tensor) -> Tensor:
        """Returns the sum as the gate of every head and query says."""
        return torch.addcmul(original, more, self.added(query).to(more.dtype))

    def added(self, query: Tensor) -> Tensor:
        """Returns 1 - g (batch, head, query, 1) of queries (batch, query, dim)."""
        heads = query.view(*query.shape[:2], -1, self.weight.shape[1])
        weight = self._scale * self.weight
        if len(weight) == 1:
            logits = functional.linear(heads, weight, self.bias)
        else:
            logits = ((heads * weight).sum(-1) + self.bias)[..., None]
        return torch.sigmoid(-logits).transpose(1, 2)


FUSIONS: dict[str, type[Fixed | Anneal | Gate]] = {"fixed": Fixed, "anneal": Anneal, "gate": Gate}
