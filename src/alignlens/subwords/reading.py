"""The segmenter of a model folder: a SentencePiece model of ours, or that of a model from elsewhere.

The latter has the pieces of its ids in a file beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import verify
from alignlens.subwords.byte_level import ByteLevelSegmenter
from alignlens.subwords.spans import Segmenter
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter

if TYPE_CHECKING:
    from pathlib import Path

_BYTE_LEVEL = "byte_level"
_IMPORT = "Import the model again: alignlens model import."


def vocabulary_beside(path: Path) -> Path:
    """Returns the file with the pieces of a subword model, if it is from elsewhere."""
    return path.with_name(f"{path.stem}.vocabulary.json")


def read_segmenter(path: Path) -> Segmenter:
    """Returns the segmenter of one side, whose subword model stands at ``path``."""
    vocabulary = vocabulary_beside(path)
    if not vocabulary.is_file():
        return Segmenter.load(path)
    content = read_json(vocabulary, _IMPORT)
    verify(path)
    if content.get("kind") == _BYTE_LEVEL:
        return ByteLevelSegmenter.read(path)
    with taking(vocabulary, _IMPORT):
        pieces = [str(piece) for piece in content["pieces"]]
    return VocabularySegmenter.of(path, pieces)


def write_segmenter(segmenter: Segmenter, path: Path) -> None:
    """Writes what ``read_segmenter`` reads of a model from elsewhere."""
    segmenter.save(path)
    kind = {"kind": _BYTE_LEVEL} if isinstance(segmenter, ByteLevelSegmenter) else {}
    write_json(vocabulary_beside(path), {"pieces": segmenter.vocabulary, **kind})
