"""From how every layer of a Transformer mixes positions to what its outputs are made of: products of matrices.

Each block of a layer that looks at other positions makes an output of several parts: of positions that it looks at, and
of the stream that goes past it. Whoever knows the share of every part in every block multiplies them, from below to
above (Abnar and Zuidema 2020). Feed-forward nets mix no positions and hand on what they get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alignlens.attribution.spec import Contributions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor


class DecoderMixing(NamedTuple):
    """What a decoder layer makes its outputs of. Rows of ``own`` sum to one, and so do ``cross`` and ``kept``."""

    own: Tensor  # (row, target, target): of the prefix and of itself, past self-attention
    cross: Tensor  # (row, target, source): of encoder outputs
    kept: Tensor  # (row, target, 1): of what was there before it looked at the source


def rolled_out(encoder: Iterable[Tensor], decoder: Iterable[DecoderMixing]) -> Contributions:
    """Returns shares (row, target, source) of source tokens and (row, target, target) of the prefix.

    ``encoder`` has a matrix (row, source, source) for every layer: what each position is made of. With their product E,
    the shares S of the source and P of the prefix are, layer by layer and from S = 0 and P = 1,

        S = cross E + kept (own S)
        P = kept (own P)
    """
    encoded: Tensor | None = None
    for mixed in encoder:
        encoded = mixed if encoded is None else mixed @ encoded
    source: Tensor | None = None
    prefix: Tensor | None = None
    for own, cross, kept in decoder:
        added = cross if encoded is None else cross @ encoded
        source = added if source is None else added + kept * (own @ source)
        prefix = kept * (own if prefix is None else own @ prefix)
    assert source is not None, "a decoder has layers"
    return Contributions(source, prefix)
