"""The ``config.json`` of a translation model, read without a tensor library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import InputError
from alignlens.models.settings import TransformerSettings
from alignlens.models.t5_settings import EPSILON, T5Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

CONFIG = "config.json"
ADVICE = "Fetch the folder of the model again."
#: Their names of activations, and ours.
_ACTIVATIONS: dict[str, Literal["relu", "swish", "gelu", "gelu_tanh"]] = {
    "swish": "swish",
    "silu": "swish",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
}
#: What other Marian models may have, and ours cannot: key, the value that ours has, what to call it.
_MARIAN = (
    ("normalize_before", False, "norms before the layers"),
    ("normalize_embedding", False, "normalised embeddings"),
    ("add_final_layer_norm", False, "a norm after the last layer"),
    ("static_position_embeddings", True, "learned positions"),
    ("scale_embedding", True, "unscaled embeddings"),
)
#: Keys of old configurations that ``transformers`` does not look at; with other values it would be wrong.
_BART = (
    ("normalize_before", False, "norms before the layers"),
    ("add_final_layer_norm", False, "a norm after the last layer"),
    ("static_position_embeddings", False, "sinusoidal positions"),
    ("normalize_embedding", True, "embeddings without a norm"),
)

#: T5's names of feed-forward layers: our activation, and whether a second projection gates it.
_FEED_FORWARD: dict[str, tuple[Literal["relu", "swish", "gelu", "gelu_tanh"], bool]] = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gated-relu": ("relu", True),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("swish", True),
}


def check_fixed(config: Mapping[str, Any], path: Path, family: str, fixed: Iterable[tuple[str, Any, str]]) -> None:
    """Raises if a configuration has another value than ours (key, value, what the other would be)."""
    for key, ours, what in fixed:
        if bool(config.get(key, ours)) != ours:
            raise InputError(f"{key} is {config[key]!r}: {family} models with {what} are not supported.", path)


def check_sides(config: Mapping[str, Any], path: Path) -> None:
    """Raises if encoder and decoder differ where ours cannot."""
    for key in ("attention_heads", "ffn_dim"):
        sides = [config[f"{side}_{key}"] for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            raise InputError(f"{key} is {sides[0]} in the encoder but {sides[1]} in the decoder: not supported.", path)


def activation_of(config: Mapping[str, Any], path: Path) -> Literal["relu", "swish", "gelu", "gelu_tanh"]:
    """Returns our name of an activation."""
    name = config["activation_function"]
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise InputError(f"activation_function {name!r} is not supported; supported are: {known}.", path)
    return _ACTIVATIONS[name]


def is_shared(config: Mapping[str, Any]) -> bool:
    """Returns whether both sides of a Marian model have one table of vectors."""
    return bool(config.get("share_encoder_decoder_embeddings", True))


def marian_settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    """Returns the settings of a Marian model as our ``Transformer``."""
    check_fixed(config, path, "Marian", _MARIAN)
    check_sides(config, path)
    return TransformerSettings(
        dim=config["d_model"],
        ffn=config["encoder_ffn_dim"],
        heads=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        activation=activation_of(config, path),
        sinusoids="halves",
        dropout=config.get("dropout", 0.1),
        output_bias=True,
        embeddings="shared_tied" if is_shared(config) else "separate",
    )


def bart_settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    """Returns the settings of a BART model."""
    check_fixed(config, path, "BART", _BART)
    return _of_bart_family(config, path)


def mbart_settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    """Returns the settings of a model of mBART or mBART-50."""
    return _of_bart_family(config, path, norm="pre")


def m2m100_settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    """Returns the settings of a model of M2M100 or NLLB."""
    return _of_bart_family(
        config,
        path,
        norm="pre",
        sinusoids="fairseq",
        max_positions=None,
        norm_embeddings=False,
        scale_embeddings=bool(config.get("scale_embedding", True)),
        output_bias=False,
    )


def _of_bart_family(config: Mapping[str, Any], path: Path, **changes: Any) -> TransformerSettings:
    """Returns the settings of a BART model and of those that differ from it by ``changes``."""
    check_sides(config, path)
    settings: dict[str, Any] = {
        "dim": config["d_model"],
        "ffn": config["encoder_ffn_dim"],
        "heads": config["encoder_attention_heads"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "activation": activation_of(config, path),
        "dropout": config.get("dropout", 0.1),
        "max_positions": config["max_position_embeddings"],
        "norm_embeddings": True,
        "scale_embeddings": bool(config.get("scale_embedding", False)),
        "output_bias": True,
        "embeddings": "shared_tied" if config.get("tie_word_embeddings", True) else "separate",
    }
    return TransformerSettings(**{**settings, **changes})


def t5_settings(config: Mapping[str, Any], path: Path) -> T5Settings:
    """Returns the settings of a T5 or mT5 model."""
    form = config.get("feed_forward_proj", "relu" if config["model_type"] == "t5" else "gated-gelu")
    if form not in _FEED_FORWARD:
        raise InputError(
            f"feed_forward_proj {form!r} is not supported; supported are: {', '.join(_FEED_FORWARD)}.", path
        )
    if abs(config.get("layer_norm_epsilon", EPSILON) - EPSILON) > EPSILON / 100:
        raise InputError(f"layer_norm_epsilon {config['layer_norm_epsilon']} is not supported, only {EPSILON}.", path)
    activation, gated = _FEED_FORWARD[form]
    # The first models scale and tie; the configurations of others say that they do not tie, and mT5 never scales.
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True) is not False)
    return T5Settings(
        dim=config["d_model"],
        ffn=config["d_ff"],
        heads=config["num_heads"],
        head_dim=config["d_kv"],
        encoder_layers=config["num_layers"],
        decoder_layers=config.get("num_decoder_layers") or config["num_layers"],
        distances=config.get("relative_attention_num_buckets", 32),
        farthest=config.get("relative_attention_max_distance", 128),
        activation=activation,
        gated=gated,
        scale_output=bool(scaled) and config["model_type"] == "t5",
        dropout=config.get("dropout_rate", 0.1),
        embeddings="shared_tied" if config.get("tie_word_embeddings", True) else "shared",
    )
