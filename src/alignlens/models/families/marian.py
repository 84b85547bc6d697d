"""Marian models (OPUS-MT and kin): norms after the branches, sinusoids, a decoder that begins with padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.io.documents import read_json, taking
from alignlens.models.families.configuration import ADVICE, is_shared, marian_settings
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import UNKNOWN, Imported, Vocabulary, control_rows, no_languages, read_config
from alignlens.models.families.languages import Languages
from alignlens.models.settings import ModelSpec
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    no_languages(languages, folder, "Marian")
    config, path = read_config(folder)
    with taking(path, ADVICE):
        settings = marian_settings(config, path)
    source = _vocabulary(folder / "vocab.json", config, path)
    target = source if is_shared(config) else _vocabulary(folder / "target_vocab.json", config, path)
    spec = ModelSpec("transformer", settings, len(source.pieces), len(target.pieces))
    segmenters = (
        VocabularySegmenter.of(folder / "source.spm", source.pieces),
        VocabularySegmenter.of(folder / "target.spm", target.pieces),
    )
    return filled_transformer(folder, spec, source, target, segmenters)


def _vocabulary(path: Path, config: Mapping[str, Any], config_path: Path) -> Vocabulary:
    """Returns the pieces of a vocabulary file."""
    row_of = read_json(path, ADVICE)
    with taking(path, ADVICE):
        piece_of = {int(row): piece for piece, row in row_of.items()}
        unknown = int(row_of[UNKNOWN])
    return Vocabulary.ordered(piece_of, control_rows(config, config_path, unknown, "decoder_start"))
