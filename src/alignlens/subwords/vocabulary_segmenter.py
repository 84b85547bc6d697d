"""Pieces of models from elsewhere: a SentencePiece model that may change text, and a vocabulary apart from it.

Our own subword models spell every word exactly. Others normalise characters, lack some, and number their pieces in a
separate file. Words are still what stands between spaces, and each is spelled by itself, so that pieces belong to
words exactly: the first piece of a word, and no other, starts with the mark. A word that the model splits in two is
spelled without the space, and one that it drops is one unknown piece.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import sentencepiece

from alignlens.corpora.symbols import UNKNOWN_ID
from alignlens.errors import InputError
from alignlens.io.children import in_child
from alignlens.subwords.spans import MARK, Segmented, Segmenter, Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LEAST_KNOWN = 0.5  # of the pieces of a SentencePiece model, which its vocabulary may have been cut down from
_ADVICE = "Fetch the folder of the model again."
#: Marian models with several target languages take the language as a word before the source.
_LANGUAGE = re.compile(r">>\S+<<")


class VocabularySegmenter(Segmenter):
    """Splits lines like ``Segmenter``; ids are places in a vocabulary."""

    def __init__(self, processor: Any, path: Path, vocabulary: Sequence[str]) -> None:
        super().__init__(processor, path)
        self._vocabulary = list(vocabulary)
        self._id_of = {piece: number for number, piece in enumerate(self._vocabulary)}
        if MARK not in self._id_of:
            raise InputError(f"the vocabulary of this model has no piece {MARK!r}, which is not supported.", path)
        own: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
        if sum(piece in self._id_of for piece in own) < _LEAST_KNOWN * len(own):
            problem = "most of its pieces are not in the vocabulary of this model: it belongs to another one."
            raise InputError(problem, path, advice=_ADVICE)
        # Pieces are known by their numbers, so both files count.
        listed = hashlib.sha256("\n".join(self._vocabulary).encode()).hexdigest()
        self.checksum = hashlib.sha256(f"{self.checksum} {listed}".encode()).hexdigest()

    @classmethod
    def of(cls, path: Path, vocabulary: Sequence[str]) -> Self:
        """Returns the segmenter of a SentencePiece model file, which may be damaged, with the pieces of all ids."""
        _check_there(path)
        what = f"{path}: loading this SentencePiece model"
        in_child(lambda: cls._opened(path, vocabulary)._try(), what, _ADVICE, silent=True)
        return cls._opened(path, vocabulary)

    @classmethod
    def _opened(cls, path: Path, vocabulary: Sequence[str]) -> Self:
        with _readable(path):
            return cls(sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes()), path, vocabulary)

    def segment(self, line: str) -> Segmented:
        """Returns the pieces of a line; a language code before its words is one of them, and one piece."""
        code, _, rest = line.lstrip(" ").partition(" ")
        if not (_LANGUAGE.fullmatch(code) and code in self._id_of):
            return super().segment(line)
        segmented = super().segment(rest)
        owner = [0, *(word + 1 for word in segmented.word_of_piece)]
        return Segmented([code, *segmented.pieces], [self._id_of[code], *segmented.ids], owner)

    def _spell(self, word: str, cache: dict[str, Spelling]) -> Spelling:
        """Returns the pieces of one word, and remembers them."""
        spelled = self._processor.encode(" " + word, out_type=str)
        if not _is_one_word(spelled):
            spelled = self._processor.encode(" " + "".join(spelled).replace(MARK, ""), out_type=str)
        if not _is_one_word(spelled):
            spelled = [MARK, self._vocabulary[UNKNOWN_ID]]
        ids = [self._id_of.get(piece, UNKNOWN_ID) for piece in spelled]
        if not self._vocabulary[ids[0]].startswith(MARK):
            ids.insert(0, self._id_of[MARK])
        return self._remember(word, Spelling(tuple(self.pieces_of(ids)), tuple(ids)), cache)


def pieces_of_model(path: Path) -> list[str]:
    """Returns the pieces of a SentencePiece model file in its own order."""
    _check_there(path)
    return in_child(lambda: _pieces(path), f"{path}: loading this SentencePiece model", _ADVICE, silent=True)


def _pieces(path: Path) -> list[str]:
    with _readable(path):
        processor = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
        pieces: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
        return pieces


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise InputError("no such SentencePiece model.", path, advice=_ADVICE)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError, IndexError):
        raise InputError("damaged, or not a SentencePiece model.", path, advice=_ADVICE) from None


def _is_one_word(pieces: Sequence[str]) -> bool:
    text = "".join(pieces)
    return text.startswith(MARK) and MARK not in text[1:] and len(text) > 1
