"""Input of a model: text, which its subwords segment, or a token store, which is segmented already.

Everything here can be opened and looked at before a model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignlens.corpora.tokens import KIND, TokenStore
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.seals import Seal
from alignlens.io.text import check_equal_counts, read_lines, stream_lines
from alignlens.subwords.spans import line_of
from alignlens.subwords.stores import check_subwords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.subwords.spans import Segmenter

#: Pieces of a line. Attention weighs every pair of pieces, and a translation may be twice as long: what is longer is no
#: sentence, and would fill the memory or take hours.
LONGEST_LINE = 10_000
_ADVICE = "Give a tokenised text, or a folder written by: alignlens subwords segment --tokens."


@dataclass(frozen=True)
class Given:
    """The sentences of one side: lines of text, or a store of their pieces; the first is line ``first`` of ``name``."""

    name: Path | str
    content: Sequence[str] | TokenStore
    first: int = 1

    @classmethod
    def open(cls, name: Path | str) -> Given:
        """Returns the input of that name: a folder is a token store, anything else is text."""
        return cls(name, _open_store(name) if Path(name).is_dir() else read_lines(name))

    def __len__(self) -> int:
        return len(self.content)

    def facts(self) -> dict[str, str]:
        """Returns the name of this text and its checksum."""
        checksum = self.content.fingerprint if isinstance(self.content, TokenStore) else sha256_of(self.name)
        return {"name": Path(self.name).name, "sha256": checksum}

    def first_of(self, count: int) -> Given:
        """Returns the first ``count`` sentences, or all if there are fewer."""
        content = self.content
        return Given(
            self.name, content.first(count) if isinstance(content, TokenStore) else content[:count], self.first
        )

    def as_text(self, segmenter: Segmenter) -> Given:
        """Returns the same sentences as lines of text, for other subwords; ``segmenter`` is that of a store."""
        if not isinstance(self.content, TokenStore):
            return self
        check_subwords(self.content, segmenter)
        lines = [line_of(segmenter.pieces_of(self.content[k])) for k in range(len(self.content))]
        return Given(self.name, lines, self.first)

    def pieces(self, segmenter: Segmenter, symbols: int, longest: int | None) -> TokenStore:
        """Returns the ids of all sentences for a model with positions for ``longest`` of them and ``symbols`` more."""
        store = self._stored(segmenter)
        lengths = store.lengths(np.arange(len(store)))
        most = LONGEST_LINE if longest is None else min(LONGEST_LINE, longest - symbols)
        if (lengths > most).any():
            place = int(np.argmax(lengths > most))
            raise self._too_long(place, int(lengths[place]), most)
        return store

    def _stored(self, segmenter: Segmenter) -> TokenStore:
        if isinstance(self.content, TokenStore):
            check_subwords(self.content, segmenter)
            return self.content
        ids = [segmenter.segment(line).ids for line in self.content]
        return SentencesInMemory(ids, len(segmenter), str(self.name))

    def _too_long(self, place: int, length: int, most: int) -> InputError:
        number = self.first + place
        if length > LONGEST_LINE:
            problem = f"{length:,} pieces; a line may have at most {LONGEST_LINE:,}."
            return InputError(problem, self.name, number, "Split it into sentences.")
        return InputError(
            f"{length} pieces; this model has positions for at most {most}.",
            self.name,
            number,
            "Shorten or split the sentence, or train a model with more positions.",
        )


def windows(name: Path | str, size: int) -> Iterator[Given]:
    """Yields the input in parts of at most this many sentences, however long it is."""
    if Path(name).is_dir():
        store = _open_store(name)
        for start in range(0, len(store), size):
            part = SentencesInMemory([store[k] for k in range(start, min(start + size, len(store)))], name=str(name))
            part.subwords = store.subwords
            yield Given(name, part, start + 1)
        return
    lines, first = stream_lines(name), 1
    while some := list(islice(lines, size)):
        yield Given(name, some, first)
        first += len(some)


def count_of(name: Path | str) -> int | None:
    """Returns the number of sentences; None for a stream, which can be read only once."""
    if Path(name).is_dir():
        return len(_open_store(name))
    return None if Path(name).exists() and not Path(name).is_file() else sum(1 for _ in stream_lines(name))


def _open_store(folder: Path | str) -> TokenStore:
    Seal.of(folder, KIND, _ADVICE)  # If this is some other folder, the error must not advise deleting it.
    store = TokenStore.open(folder)
    if not len(store):
        raise InputError("the store is empty.", folder, advice=_ADVICE)
    return store


def open_pair(source: Path | str, target: Path | str) -> tuple[Given, Given]:
    """Returns both sides, which must have the same number of sentences."""
    sides = Given.open(source), Given.open(target)
    check_equal_counts([source, target], [len(side) for side in sides])
    return sides
