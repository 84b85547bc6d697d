"""Marian models (OPUS-MT and kin): norms after the branches, sinusoids, a decoder that begins with padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.io.documents import read_json, taking
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import (
    ADVICE,
    UNKNOWN,
    Imported,
    Languages,
    Vocabulary,
    activation_of,
    check_fixed,
    check_sides,
    control_rows,
    no_languages,
    read_config,
)
from alignlens.models.settings import ModelSpec, TransformerSettings
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What other models of this family may have, and ours cannot: key, the value that ours has, what to call it.
_FIXED = (
    ("normalize_before", False, "norms before the layers"),
    ("normalize_embedding", False, "normalised embeddings"),
    ("add_final_layer_norm", False, "a norm after the last layer"),
    ("static_position_embeddings", True, "learned positions"),
    ("scale_embedding", True, "embeddings that are not scaled"),
)


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    no_languages(languages, folder, "Marian")
    config, path = read_config(folder)
    with taking(path, ADVICE):
        settings = _settings(config, path)
    source = _vocabulary(folder / "vocab.json", config, path)
    target = source if _is_shared(config) else _vocabulary(folder / "target_vocab.json", config, path)
    spec = ModelSpec("transformer", settings, len(source.pieces), len(target.pieces))
    segmenters = (
        VocabularySegmenter.of(folder / "source.spm", source.pieces),
        VocabularySegmenter.of(folder / "target.spm", target.pieces),
    )
    return filled_transformer(folder, spec, source, target, segmenters)


def _is_shared(config: Mapping[str, Any]) -> bool:
    return bool(config.get("share_encoder_decoder_embeddings", True))


def _settings(config: Mapping[str, Any], path: Path) -> TransformerSettings:
    check_fixed(config, path, "Marian", _FIXED)
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
        embeddings="shared_tied" if _is_shared(config) else "separate",
    )


def _vocabulary(path: Path, config: Mapping[str, Any], config_path: Path) -> Vocabulary:
    """Returns the pieces of a vocabulary file."""
    row_of = read_json(path, ADVICE)
    with taking(path, ADVICE):
        piece_of = {int(row): piece for piece, row in row_of.items()}
        unknown = int(row_of[UNKNOWN])
    return Vocabulary.ordered(piece_of, control_rows(config, config_path, unknown, "decoder_start"))
