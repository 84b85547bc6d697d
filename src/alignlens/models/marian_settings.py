"""What the ``config.json`` of a Marian model says of it, read without a tensor library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import InputError
from alignlens.models.settings import TransformerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONFIG = "config.json"
#: Its names of activations, and ours.
_ACTIVATIONS: dict[str, Literal["relu", "swish", "gelu"]] = {
    "swish": "swish",
    "silu": "swish",
    "relu": "relu",
    "gelu": "gelu",
}
#: What other models of this family may have, and ours cannot: key, the value that ours has, what to call it.
_FIXED = (
    ("normalize_before", False, "norms before the layers"),
    ("normalize_embedding", False, "normalised embeddings"),
    ("add_final_layer_norm", False, "a norm after the last layer"),
    ("static_position_embeddings", True, "learned positions"),
    ("scale_embedding", True, "embeddings that are not scaled"),
)


def marian_settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    """Returns the settings of a Marian model as our ``Transformer``."""
    for key, ours, what in _FIXED:
        if bool(config.get(key, ours)) != ours:
            raise InputError(f"{key} is {config[key]!r}: Marian models with {what} are not supported.", path)
    for key in ("attention_heads", "ffn_dim"):
        sides = [config[f"{side}_{key}"] for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            raise InputError(f"{key} is {sides[0]} in the encoder and {sides[1]} in the decoder; not supported.", path)
    if config["activation_function"] not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        problem = f"activation_function {config['activation_function']!r} is not supported; those that are: {known}."
        raise InputError(problem, path)
    shared = config.get("share_encoder_decoder_embeddings", True)
    return TransformerSettings(
        dim=config["d_model"],
        ffn=config["encoder_ffn_dim"],
        heads=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        activation=_ACTIVATIONS[config["activation_function"]],
        sinusoids="halves",
        dropout=config.get("dropout", 0.1),
        output_bias=True,
        embeddings="shared_tied" if shared else "separate",
    )
