"""mBART and mBART-50: BART with norms before the branches and a language code on each side.

mBART reads pieces, ``</s>`` and a code, and its decoder begins with a code. mBART-50 reads a code, pieces and ``</s>``,
and its decoder begins with ``</s>`` and a code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.corpora.symbols import END_ID, Frame
from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE, mbart_settings
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import Imported, Vocabulary, control_rows, read_config
from alignlens.models.families.languages import MBART, MBART_50, Languages
from alignlens.models.families.multilingual import fairseq_pieces, rows_of_languages, tokenizer_class, with_added
from alignlens.models.settings import ModelSpec
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter, pieces_of_model

if TYPE_CHECKING:
    from pathlib import Path

SUBWORDS = "sentencepiece.bpe.model"
_UNKNOWN_ROW = 3


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    config, path = read_config(folder)
    with taking(path, ADVICE):
        settings = mbart_settings(config, path)
        size = int(config["vocab_size"])
    pieces = pieces_of_model(folder / SUBWORDS)
    fifty = "50" in tokenizer_class(folder) or size > len(pieces) + len(MBART_50)
    codes = MBART_50 if fifty else MBART
    piece_of = with_added(fairseq_pieces(pieces, codes), folder)
    vocabulary = Vocabulary.filling(piece_of, control_rows(config, path, _UNKNOWN_ROW), size, folder / SUBWORDS)
    known = {piece: row for row, piece in piece_of.items()}
    key = "forced_bos_token_id" if fifty else "decoder_start_token_id"
    rows = rows_of_languages(folder, languages, {code: known[code] for code in codes if code in known}, key)
    source, target = (vocabulary.number(row) for row in rows)
    frame = Frame(source, not fifty, (END_ID, target) if fifty else (target,))
    count = len(vocabulary.pieces)
    spec = ModelSpec("transformer", settings, count, count, source_begin=True, frame=frame)
    segmenter = VocabularySegmenter.of(folder / SUBWORDS, vocabulary.pieces)
    return filled_transformer(folder, spec, vocabulary, vocabulary, (segmenter, segmenter))
