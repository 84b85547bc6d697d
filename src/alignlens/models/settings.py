"""Sizes and switches of the architectures; plain data, so that reading a configuration loads no tensor library.

Defaults are those of ``config/schemas/models.schema.yaml`` (a test compares them).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from alignlens.errors import ConfigError, unknown_name

Sharing = Literal["separate", "shared", "tied", "shared_tied"]


@dataclass(frozen=True)
class TransformerSettings:
    """Vaswani et al. 2017, with sinusoidal positions; ``norm`` says where layer norms stand."""

    dim: int = 256
    ffn: int = 1024
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 3
    norm: Literal["post", "pre"] = "post"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    embeddings: Sharing = "separate"
    output_bias: bool = False

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(f"model.heads: {self.heads} heads do not divide dim {self.dim} evenly.")
        if self.dim % 2:
            raise ConfigError(f"model.dim: sinusoidal positions need an even number, not {self.dim}.")


@dataclass(frozen=True)
class LstmSettings:
    """Recurrent encoder and decoder with bilinear attention.

    ``output: luong`` is tanh(W [context; state]) then the output layer, as in Ding et al. 2019;
    ``output: two_layer`` is W2 relu(W1 [state; P context]) as in Snell et al. 2021.
    """

    dim: int = 256
    hidden: int = 256
    encoder_layers: int = 1
    decoder_layers: int = 1
    bidirectional: bool = False
    input_feeding: bool = True
    output: Literal["luong", "two_layer"] = "luong"
    layer_dropout: float = 0.0
    output_dropout: float = 0.1
    embeddings: Sharing = "separate"


@dataclass(frozen=True)
class FconvSettings:
    """Gehring et al. 2017: gated convolutions, weight norm, learned positions, attention in every decoder layer."""

    dim: int = 256
    hidden: int = 256
    encoder_layers: int = 4
    decoder_layers: int = 3
    width: int = 3
    dropout: float = 0.1
    max_positions: int = 1024
    scale_encoder_gradient: bool = True
    embeddings: Sharing = "separate"


ArchitectureSettings = TransformerSettings | LstmSettings | FconvSettings
ARCHITECTURES: dict[str, type[ArchitectureSettings]] = {
    "transformer": TransformerSettings,
    "lstm": LstmSettings,
    "fconv": FconvSettings,
}


@dataclass(frozen=True)
class ModelSpec:
    """Everything that decides the shape of a model's weights and what it reads."""

    architecture: str
    settings: ArchitectureSettings
    source_vocab: int
    target_vocab: int
    source_begin: bool = False  # whether source sentences start with BEGIN (Snell et al.); they always end with END

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ModelSpec:
        """Returns the spec of plain data."""
        settings = architecture_settings(content["architecture"], content["settings"])
        return cls(**{**content, "settings": settings})


def architecture_settings(architecture: str, values: dict[str, Any]) -> ArchitectureSettings:
    """Returns the settings of an architecture; what ``values`` leaves out has its default."""
    if architecture not in ARCHITECTURES:
        raise ConfigError(f"architecture: {unknown_name('architecture', architecture, ARCHITECTURES)}")
    kind = ARCHITECTURES[architecture]
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            raise ConfigError(f"model.{key}: {unknown_name(f'key of {architecture}', key, known)}")
    return kind(**values)
