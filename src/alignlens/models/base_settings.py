"""Settings that all architectures share. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignlens.io.limits import Limits
from alignlens.io.typed import setting

Sharing = Literal["separate", "shared", "tied", "shared_tied"]

WIDTH = Limits(1, 16384), "the number of weights grows with its square"
DEPTH = Limits(1, 100), "no published model is as deep"
SHARE = Limits(0, 1, below=True)


@dataclass(frozen=True)
class ArchitectureSettings:
    """Settings that all architectures share; each adds its own."""

    dim: int = setting(256, "Width of token vectors.", *WIDTH)
    encoder_layers: int = setting(1, "Layers of the encoder.", *DEPTH)
    decoder_layers: int = setting(1, "Layers of the decoder.", *DEPTH)
    embeddings: Sharing = setting(
        "separate",
        "Source, target and output tables: separate, the first two one (shared), the last two one (tied), "
        "or all three one.",
    )

    @property
    def positions(self) -> int | None:
        """Longest sentence, with its end symbol, that the model has positions for; None for no limit."""
        return None
