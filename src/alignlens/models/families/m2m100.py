"""M2M100 and NLLB: norms before the branches, fairseq's sinusoids, a language code before source and target.

Sources are a code and pieces and ``</s>``. The decoder reads ``</s>`` and a code before the first piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.corpora.symbols import END_ID, Frame
from alignlens.io.documents import read_json, taking
from alignlens.models.families.configuration import ADVICE, m2m100_settings
from alignlens.models.families.filling import filled_transformer
from alignlens.models.families.folder import UNKNOWN, Imported, Vocabulary, control_rows, read_config
from alignlens.models.families.languages import M2M100, NLLB, WMT21, Languages
from alignlens.models.families.multilingual import fairseq_pieces, rows_of_languages, says, with_added
from alignlens.models.settings import ModelSpec
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter, pieces_of_model

if TYPE_CHECKING:
    from pathlib import Path

SUBWORDS = "sentencepiece.bpe.model"


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    config, path = read_config(folder)
    with taking(path, ADVICE):
        settings = m2m100_settings(config, path)
        size = int(config["vocab_size"])
    listed = folder / "vocab.json"
    piece_of, row_of = _m2m100(folder) if listed.is_file() else _nllb(folder)
    unknown = next((row for row, piece in piece_of.items() if piece == UNKNOWN), None)
    with taking(listed, ADVICE):
        if unknown is None:
            raise KeyError(UNKNOWN)
    source, target = rows_of_languages(folder, languages, row_of)
    subwords = listed if listed.is_file() else folder / SUBWORDS
    vocabulary = Vocabulary.filling(piece_of, control_rows(config, path, unknown), size, subwords)
    frame = Frame(
        source=vocabulary.number(source),
        source_last=says(folder, "legacy_behaviour") is True,  # an early NLLB tokenizer
        target=(END_ID, vocabulary.number(target)),
    )
    count = len(vocabulary.pieces)
    spec = ModelSpec("transformer", settings, count, count, source_begin=True, frame=frame)
    segmenter = VocabularySegmenter.of(folder / SUBWORDS, vocabulary.pieces)
    return filled_transformer(folder, spec, vocabulary, vocabulary, (segmenter, segmenter))


def _m2m100(folder: Path) -> tuple[dict[int, str], dict[str, int]]:
    """Returns the piece of every row, and the rows of all codes."""
    path = folder / "vocab.json"
    row_of_piece = read_json(path, ADVICE)
    with taking(path, ADVICE):
        piece_of = {int(row): str(piece) for piece, row in row_of_piece.items()}
    codes = WMT21 if says(folder, "language_codes") == "wmt21" else M2M100
    row_of = {code: len(piece_of) + place for place, code in enumerate(codes)}
    return {**piece_of, **{row: f"__{code}__" for code, row in row_of.items()}}, row_of


def _nllb(folder: Path) -> tuple[dict[int, str], dict[str, int]]:
    pieces = pieces_of_model(folder / SUBWORDS)
    piece_of = with_added(fairseq_pieces(pieces, NLLB), folder)
    known = {piece: row for row, piece in piece_of.items()}
    return piece_of, {code: known[code] for code in _codes(known)}


def _codes(known: dict[str, int]) -> list[str]:
    """Returns the codes among pieces: those of NLLB, and what was added in their form (``xxx_Latn``)."""
    first = min(known[code] for code in NLLB if code in known)
    return [piece for piece, row in known.items() if row >= first and piece != "<mask>"]
