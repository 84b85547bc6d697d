"""Pieces on disk, as text and as token stores, and the subword model that they belong to."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TextIO

from alignlens.corpora.tokens import TokenWriter
from alignlens.errors import InputError, ToolError
from alignlens.io.atomic import atomic_path
from alignlens.io.text import words
from alignlens.subwords.sentencepiece_bpe import check_special_ids
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from alignlens.corpora.tokens import TokenStore
    from alignlens.subwords.spans import Segmenter


def check_subwords(store: TokenStore, segmenter: Segmenter) -> None:
    """Raises unless a token store was made with this subword model: to any other, its numbers are other pieces."""
    if store.subwords != segmenter.checksum:
        raise InputError(
            f"its pieces are not those of {segmenter.path}.",
            store.folder,
            advice="Make the store with that subword model: alignlens subwords segment --tokens.",
        )


def opened(stack: ExitStack, path: Path) -> TextIO:
    """Returns a file opened for writing; it appears under its name when the stack ends without an error."""
    # Always sealed: pieces that lost a word mark are other words, and nothing else would tell.
    temporary = stack.enter_context(atomic_path(path, seal="always"))
    return stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))


class PieceWriter:
    """Writes sentences as pieces, as a token store, or as both; they appear when the block ends without an error."""

    def __init__(self, segmenter: Segmenter, pieces: Path | None, tokens: Path | None) -> None:
        self._segmenter, self._pieces, self._tokens = segmenter, pieces, tokens
        self._file: TextIO | None = None
        self._store: TokenWriter | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._tokens is not None:
                check_special_ids(self._segmenter, self._segmenter.path)
                writer = TokenWriter(self._tokens, len(self._segmenter), self._segmenter.checksum)
                self._store = stack.enter_context(writer)
            if self._pieces is not None:
                self._file = opened(stack, self._pieces)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add(self, ids: Sequence[int], line: str, place: str) -> None:
        """Adds a sentence, which is ``line`` in pieces; ``place`` names it in an error.

        Links count words. So the pieces, as they will be read again, must have as many as the line.
        """
        pieces = self._segmenter.pieces_of(ids)
        written = " ".join(pieces)
        if words(written) != pieces or max(word_of_piece(pieces), default=-1) + 1 != len(words(line)):
            raise ToolError(f"{place}: the pieces do not add up to the words of this line; do not use them.")
        if self._file is not None:
            self._file.write(written + "\n")
        if self._store is not None:
            self._store.append(ids)
