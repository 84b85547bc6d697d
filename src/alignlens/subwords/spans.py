"""Where words start: exact spans between the words of a line and its pieces.

Nothing outside this room may look at the word-start mark. A literal mark inside a word is spelled in byte
pieces, so that a mark at the head of a piece always means "a word starts here", and pieces written to a file
can be read back without knowing the model.
"""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import sentencepiece

from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.children import in_child
from alignlens.io.seals import read_seal, sidecar, verify
from alignlens.io.text import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MARK = "▁"
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_SEPARATORS = b" \t\n"
_REPLACEMENT = "\ufffd"
_TRAIN = "Train one with: alignlens subwords train."
_MOST_CACHED_TYPES = 1_000_000


class Segmented(NamedTuple):
    """A line in pieces; ``word_of_piece[k]`` is the zero-based word that piece ``k`` belongs to."""

    pieces: list[str]
    ids: list[int]
    word_of_piece: list[int]


def word_of_piece(pieces: Sequence[str]) -> list[int]:
    """Returns the word each piece belongs to, for any sequence of pieces, a model's output included.

    A mark without text before the next mark or the end makes no word of its own: it counts to the next word
    that has text, or to the last one. So the highest index is always the last word of ``join(pieces)``; pieces
    that spell no word at all belong to word -1.
    """
    owner: list[int] = []
    word, has_text, words_with_text = 0, False, 0
    for piece in pieces:
        starts = piece.startswith(MARK)
        if starts and has_text:
            word, has_text = word + 1, False
        if len(piece) > starts and not has_text:
            has_text, words_with_text = True, word + 1
        owner.append(word)
    return [min(word, words_with_text - 1) for word in owner]


def join(pieces: Sequence[str]) -> str:
    """Returns the line that pieces spell, with single spaces between words.

    Byte pieces that are not UTF-8 together, or that spell a separator, can only come from a model; they become
    the replacement character, so that the number of words stays what ``word_of_piece`` says.
    """
    text = "".join(pieces)
    if "<0x" not in text and text.count(MARK) == sum(map(_starts_word, pieces)):
        return " ".join(words(text.replace(MARK, " ")))
    owner = word_of_piece(pieces)
    spelled = [bytearray() for _ in range(owner[-1] + 1)]
    for piece, word in zip(pieces, owner, strict=True):
        spelled[word] += _bytes_of(piece)
    return " ".join(text.decode("utf-8", errors="replace") for text in spelled)


def line_of(pieces: Sequence[str]) -> str:
    """Returns ``join(pieces)`` as a file can hold it, for what a model wrote.

    A reader takes a carriage return at the end of a line, and a byte order mark at the start of a file, for no part
    of the text, so that a word could be lost: they become the replacement character.
    """
    line = join(pieces)
    line = line[:-1] + _REPLACEMENT if line.endswith("\r") else line
    return _REPLACEMENT + line[1:] if line.startswith("\ufeff") else line


def _starts_word(piece: str) -> bool:
    return piece.startswith(MARK)


@lru_cache(maxsize=1 << 16)
def _bytes_of(piece: str) -> bytes:
    text = piece.removeprefix(MARK)
    if not _BYTES.fullmatch(text):
        return text.encode()
    values = bytes(int(value, 16) for value in text[3:-1].split("><0x"))
    for separator in _SEPARATORS:
        values = values.replace(bytes([separator]), _REPLACEMENT.encode())
    return values


class Spelling(NamedTuple):
    """The pieces of a word."""

    pieces: tuple[str, ...]
    ids: tuple[int, ...]


class Segmenter:
    """Splits tokenised lines into pieces, word by word, with every word type split once."""

    def __init__(self, processor: Any, path: Path) -> None:
        self.path = path
        self.checksum = sha256_of(path)  # the identity of the model in token stores
        self.dummy_prefix: bool = processor.encode("a", out_type=str)[0].startswith(MARK)
        # From here on marks are ours to place: a space before a text gives one, nothing else does.
        processor.override_normalizer_spec(add_dummy_prefix=False, remove_extra_whitespaces=False)
        self._processor = processor
        self._vocabulary: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
        self._mark_bytes = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in MARK.encode()]
        self._marked: dict[str, Spelling] = {}
        self._unmarked: dict[str, Spelling] = {}

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Returns the segmenter of a SentencePiece model file, which may come from anywhere and be damaged."""
        path = Path(path)
        if not path.is_file():
            raise InputError("no such model.", path, advice=_TRAIN)
        verify(path)
        if not _is_sealed(path):
            # The library does not check what it reads, so files without our checksum are loaded in a child process.
            in_child(lambda: cls._loaded(path)._try(), f"{path}: loading this SentencePiece model", _TRAIN, silent=True)
        return cls._loaded(path)

    @classmethod
    def _loaded(cls, path: Path) -> Self:
        try:
            return cls(_processor_of(path), path)
        except (RuntimeError, ValueError, IndexError):
            raise InputError("damaged, or not a SentencePiece model.", path, advice=_TRAIN) from None

    def _try(self) -> None:
        """Yields every piece once."""
        for piece in self._vocabulary:
            self._processor.encode(piece)

    def __len__(self) -> int:
        return len(self._vocabulary)

    @property
    def vocabulary(self) -> list[str]:
        """Returns the piece of every id."""
        return list(self._vocabulary)

    def save(self, path: Path) -> None:
        """Copies the file of the model."""
        shutil.copyfile(self.path, path)

    def segment(self, line: str) -> Segmented:
        """Returns the pieces of a line whose words are what stands between spaces."""
        pieces: list[str] = []
        ids: list[int] = []
        owner: list[int] = []
        cache = self._marked if self.dummy_prefix else self._unmarked
        for index, word in enumerate(words(line)):
            spelling = cache.get(word) or self._spell(word, cache)
            pieces += spelling.pieces
            ids += spelling.ids
            owner += [index] * len(spelling.ids)
            cache = self._marked
        return Segmented(pieces, ids, owner)

    def pieces_of(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces of ids, for ``join`` and ``word_of_piece``."""
        return [self._vocabulary[identifier] for identifier in ids]

    def statistics(self, lines: Iterable[str]) -> dict[str, float]:
        """Returns counts over lines and the number of pieces in the vocabulary."""
        line_count = word_count = piece_count = 0
        for line in lines:
            segmented = self.segment(line)
            line_count += 1
            word_count += segmented.word_of_piece[-1] + 1 if segmented.pieces else 0
            piece_count += len(segmented.pieces)
        return {
            "vocabulary": len(self),
            "lines": line_count,
            "words": word_count,
            "pieces": piece_count,
            "pieces_per_word": round(piece_count / word_count, 4) if word_count else 0.0,
        }

    def _spell(self, word: str, cache: dict[str, Spelling]) -> Spelling:
        """Returns the pieces of one word, and remembers them."""
        head, *rest = word.split(MARK)
        ids: list[int] = self._processor.encode(" " + head if cache is self._marked else head)
        for part in rest:
            ids += self._mark_bytes
            ids += self._processor.encode(part)
        pieces = tuple(self.pieces_of(ids))
        if join(pieces) != word or any(piece.startswith(MARK) for piece in pieces[1:]):
            raise InputError(
                f"the model changes the word {word!r} into {join(pieces)!r}.",
                self.path,
                advice="Use a model without normalisation: alignlens subwords train.",
            )
        return self._remember(word, Spelling(pieces, tuple(ids)), cache)

    def _remember(self, word: str, spelling: Spelling, cache: dict[str, Spelling]) -> Spelling:
        if len(cache) >= _MOST_CACHED_TYPES:
            cache.clear()
        cache[word] = spelling
        return spelling


def _is_sealed(path: Path) -> bool:
    """Returns whether a file was verified by a checksum of ours."""
    folder = read_seal(path.parent)
    return sidecar(path).is_file() or (folder is not None and path.name in folder.files)


def _processor_of(path: Path) -> Any:
    """Returns the SentencePiece processor of a model file that can spell any text (byte fallback)."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    if processor.get_piece_size() == 0:
        raise InputError("not a SentencePiece model: it has no pieces.", path, advice=_TRAIN)
    if processor.piece_to_id("<0x00>") == processor.unk_id():
        raise InputError(
            "this SentencePiece model has no byte pieces, so unknown characters would be lost.",
            path,
            advice="Train one with byte fallback: alignlens subwords train.",
        )
    return processor
