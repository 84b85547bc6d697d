"""Relevance in a Transformer with calibrated attention (Lu et al. 2021).

Masks and gates weigh, and what they weigh carries, as with the gates of an LSTM: they are taken as given and get no
relevance. Rows as released multiply the softmax by a factor; renormalised rows are the softmax of scores to which the
logarithm of that factor was added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alignlens.attribution.relevance.transformer import RelevantCross, TransformerRelevance
from alignlens.models.contract import to_one

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.relevance.rules import Attended, Reach
    from alignlens.models.attention import CrossAttention
    from alignlens.models.calibrated import CalibratedAttention
    from alignlens.models.transformer import Branch


class _Calibrated(RelevantCross):
    def attend(self, inner: Tensor, memory: Tensor, visible: Tensor) -> Attended:
        layer, attended = cast("CalibratedAttention", self.layer), super().attend(inner, memory, visible)
        factors = layer.factors(inner.transpose(0, 1), layer.read(memory.transpose(0, 1)))
        if factors is None:
            return attended
        if layer.renormalises:
            return attended._replace(softmax=to_one(attended.softmax * factors), prior=factors)
        return attended._replace(factors=factors)


class CalibratedRelevance(TransformerRelevance):
    """A Transformer but for its attention to the source."""

    def cross(self, branch: Branch, layer: CrossAttention, reach: Reach) -> RelevantCross:
        """Returns the attention to the source of one layer, which has read nothing yet."""
        return _Calibrated(self.rules, branch, layer, reach)
