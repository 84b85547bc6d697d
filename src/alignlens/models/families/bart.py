"""BART: learned positions, norms of embeddings and after the branches, byte-level subwords.

Sources are ``<s>`` and pieces and ``</s>``. The decoder reads ``</s>`` and ``<s>`` before the first piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.corpora.symbols import BEGIN_ID, Frame
from alignlens.errors import InputError
from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE, bart_settings
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import UNKNOWN, Imported, Vocabulary, control_rows, no_languages, read_config
from alignlens.models.families.languages import Languages
from alignlens.models.settings import ModelSpec
from alignlens.subwords.byte_level import ByteLevelSegmenter, read_merges

if TYPE_CHECKING:
    from pathlib import Path


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    no_languages(languages, folder, "BART")
    config, path = read_config(folder)
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
