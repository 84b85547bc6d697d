"""What a T5 model is. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignlens.io.limits import Limits
from alignlens.io.typed import setting
from alignlens.models.base_settings import DEPTH, SHARE, WIDTH, ArchitectureSettings

#: Of its norms; no published model has another.
EPSILON = 1e-6


@dataclass(frozen=True)
class T5Settings(ArchitectureSettings):
    """Raffel et al. 2020: distances instead of positions, norms without means, no biases."""

    dim: int = setting(512, "Width of token vectors and layers.", *WIDTH)
    ffn: int = setting(
        2048, "Width inside the feed-forward layers.", Limits(1, 65536), "the number of weights grows with it"
    )
    heads: int = setting(8, "Attention heads.", Limits(1, 1024), "each has its own weights")
    head_dim: int = setting(64, "Width of a head.", *WIDTH)
    encoder_layers: int = setting(6, "Layers of the encoder.", *DEPTH)
    decoder_layers: int = setting(6, "Layers of the decoder.", *DEPTH)
    distances: int = setting(
        32, "Entries of the tables of relative positions.", Limits(4, 1024), "each head has as many"
    )
    farthest: int = setting(
        128, "Distance beyond which all positions count as equally far.", Limits(2, 100000), "no sentence is that long"
    )
    activation: Literal["relu", "swish", "gelu", "gelu_tanh"] = setting(
        "relu", "Activation inside the feed-forward layers."
    )
    gated: bool = setting(False, "Whether the feed-forward layers are gated: multiplied by a second projection.")
    scale_output: bool = setting(
        True, "Whether decoder states are divided by the square root of dim before the output."
    )
    dropout: float = setting(0.1, "Dropout on embeddings, attention weights and every layer's output.", SHARE)
