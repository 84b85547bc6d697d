"""BART: learned positions, norms of embeddings and after the branches, byte-level subwords.

Sources are ``<s>`` and pieces and ``</s>``. The decoder reads ``</s>`` and ``<s>`` before the first piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.corpora.symbols import BEGIN_ID, Frame
from alignlens.errors import InputError
from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE, activation_of, check_fixed, check_sides
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import (
    UNKNOWN,
    Imported,
    Languages,
    Vocabulary,
    control_rows,
    no_languages,
    read_config,
)
from alignlens.models.settings import ModelSpec, TransformerSettings
from alignlens.subwords.byte_level import ByteLevelSegmenter, read_merges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Keys of old configurations that ``transformers`` does not look at; with other values it would be wrong.
_FIXED = (
    ("normalize_before", False, "norms before the layers"),
    ("add_final_layer_norm", False, "a norm after the last layer"),
    ("static_position_embeddings", False, "sinusoidal positions"),
    ("normalize_embedding", True, "embeddings without a norm"),
)


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    no_languages(languages, folder, "BART")
    config, path = read_config(folder)
    check_fixed(config, path, "BART", _FIXED)
    with taking(path, ADVICE):
        settings = bart_settings(config, path)
        size, start = int(config["vocab_size"]), int(config["decoder_start_token_id"])
    row_of, merges, tokenizer = read_merges(folder)
    if UNKNOWN not in row_of:
        raise InputError(f"{UNKNOWN!r} is missing.", tokenizer, advice=ADVICE)
    piece_of = {row: piece for piece, row in row_of.items()}
    vocabulary = Vocabulary.filling(piece_of, control_rows(config, path, row_of[UNKNOWN]), size, tokenizer)
    with taking(path, ADVICE):
        frame = Frame(target=(vocabulary.number(start), BEGIN_ID))
    count = len(vocabulary.pieces)
    spec = ModelSpec("transformer", settings, count, count, source_begin=True, frame=frame)
    segmenter = ByteLevelSegmenter(vocabulary.pieces, merges, tokenizer)
    return filled_transformer(folder, spec, vocabulary, vocabulary, (segmenter, segmenter))


def bart_settings(config: Mapping[str, Any], path: Path, **changes: Any) -> TransformerSettings:
    """Returns the settings of a model of this family and of those that differ from it by ``changes``."""
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
