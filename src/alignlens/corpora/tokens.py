"""The token store: the ids of one side of one split on disk, read from there sentence by sentence.

A store is a folder: ``ids.bin`` holds the ids of all sentences one after the other, without control symbols,
``offsets.bin`` where each sentence starts (and, last, where the text ends), ``store.json`` facts about them and the
checksum of the subword model whose pieces they count.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import weakref
from array import array
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.errors import InputError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.io.documents import read_json
from alignlens.io.seals import Seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

Integers = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

KIND = "token store"
_FORMAT, _VERSION = "alignlens tokens", 2
_DESCRIPTION = "store.json"
_OFFSET_TYPE = np.dtype("<i8")
_ADVICE = "Delete it and recreate it with: alignlens subwords segment --tokens, or run the pipeline again."
_WRITTEN_AT_ONCE = 1 << 18  # ids
_LARGEST_MAP_BYTES = 1 << 25


def _id_type(vocabulary_size: int) -> np.dtype[Any]:
    """Returns the narrowest type for the ids, the same bytes on every machine."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")


class _Numbers:
    """A file of numbers: mapped into memory if it is small, else read piece by piece through the page cache.

    A map of a large file is no gain: the kernel maps up to 2 MB around every look at a random place, which costs
    more than reading a sentence and counts as memory of this process.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], count: int) -> None:
        self._path, self._type = path, dtype
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        self._mapped: npt.NDArray[Any] | None = None
        if count == 0:
            self._mapped = np.empty(0, dtype)
        elif count * dtype.itemsize <= _LARGEST_MAP_BYTES:
            self._mapped = np.frombuffer(mmap.mmap(self._file, 0, access=mmap.ACCESS_READ), dtype, count)

    def between(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Returns consecutive numbers, read-only."""
        return self._read([(start, stop)]) if self._mapped is None else self._mapped[start:stop]

    def ranges(self, starts: Integers, stops: Integers) -> npt.NDArray[Any]:
        """Returns the numbers of several ranges one after the other."""
        if self._mapped is None:
            return self._read(zip(starts.tolist(), stops.tolist(), strict=True))
        lengths = stops - starts
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(starts - ends + lengths, lengths)
        numbers: npt.NDArray[Any] = self._mapped[places]
        return numbers

    def _read(self, ranges: Iterable[tuple[int, int]]) -> npt.NDArray[Any]:
        size = self._type.itemsize
        parts = []
        for start, stop in ranges:
            part = os.pread(self._file, size * (stop - start), size * start)
            if len(part) != size * (stop - start):
                raise InputError("became shorter while it was read.", self._path, advice=_ADVICE)
            parts.append(part)
        return np.frombuffer(b"".join(parts), self._type)


class TokenStore:
    """The sentences of a store in their order; memory use does not depend on how many there are."""

    def __init__(self, folder: Path, description: dict[str, Any], ids: _Numbers, offsets: _Numbers) -> None:
        self.folder = folder
        self.vocabulary_size: int = description["vocabulary_size"]
        self.subwords: str = description["subwords"]
        self.fingerprint: str = description["fingerprint"]
        self.tokens: int = description["tokens"]
        self._sentences: int = description["sentences"]
        self._ids, self._offsets = ids, offsets

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Returns the store in a folder, its bytes compared with its seal."""
        folder = Path(folder)
        Seal.of(folder, KIND, _ADVICE).check_all()
        description = _described(folder)
        ids = _Numbers(folder / "ids.bin", _id_type(description["vocabulary_size"]), description["tokens"])
        offsets = _Numbers(folder / "offsets.bin", _OFFSET_TYPE, description["sentences"] + 1)
        return cls(folder, description, ids, offsets)

    def first(self, sentences: int) -> Self:
        """Returns a store of its first sentences, all if it has fewer."""
        if sentences >= self._sentences:
            return self
        some = copy(self)
        some._sentences = sentences
        some.fingerprint = f"{self.fingerprint} first {sentences}"
        return some

    def __len__(self) -> int:
        return self._sentences

    def __getitem__(self, index: int) -> Ids:
        """Returns the ids of one sentence, read-only."""
        if not 0 <= index < self._sentences:
            raise IndexError(f"sentence {index} of a store of {self._sentences}")
        starts, stops = self._spans(np.array([index]))
        ids: Ids = self._ids.between(int(starts[0]), int(stops[0]))
        return ids

    def lengths(self, indices: npt.NDArray[np.integer[Any]]) -> Integers:
        """Returns the number of pieces of each sentence, without control symbols."""
        starts, stops = self._spans(indices)
        return stops - starts

    def lengths_between(self, start: int, stop: int) -> Integers:
        """Returns the number of pieces of consecutive sentences."""
        lengths: Integers = np.diff(self._offsets.between(start, stop + 1))
        return lengths

    def gather(self, indices: npt.NDArray[np.integer[Any]]) -> tuple[Integers, Integers]:
        """Returns the ids of the sentences one after the other, and the number of pieces of each."""
        starts, stops = self._spans(indices)
        ids = self._ids.ranges(starts, stops).astype(np.int64)
        if len(ids) and ids.max() >= self.vocabulary_size:
            raise InputError(
                f"damaged: id {ids.max()} in a vocabulary of {self.vocabulary_size}.",
                self.folder / "ids.bin",
                advice=_ADVICE,
            )
        return ids, stops - starts

    def _spans(self, indices: npt.NDArray[np.integer[Any]]) -> tuple[Integers, Integers]:
        """Returns where the sentences start and stop."""
        chosen = np.asarray(indices, np.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < self._sentences):
            raise IndexError(f"sentences {chosen.min()} to {chosen.max()} of a store of {self._sentences}")
        starts, stops = self._offsets.ranges(chosen, chosen + 2).reshape(-1, 2).T
        if len(chosen) and (starts.min() < 0 or stops.max() > self.tokens or (stops < starts).any()):
            raise InputError("damaged: its offsets are not in order.", self.folder / "offsets.bin", advice=_ADVICE)
        return starts, stops


class TokenWriter:
    """Writes a store sentence by sentence; the folder appears, complete, when the block ends without an error.

    ``subwords`` is the checksum of the subword model that gives the ids their meaning.
    """

    def __init__(self, folder: Path | str, vocabulary_size: int, subwords: str) -> None:
        self.folder, self.vocabulary_size, self.subwords = Path(folder), vocabulary_size, subwords
        self.sentences = self.tokens = 0
        self.fingerprint = ""  # known at the end of the block
        self._type = _id_type(vocabulary_size)
        self._waiting = array("I")
        self._waiting_lengths = array("I")
        self._files: dict[str, BinaryIO] = {}
        self._digests: dict[str, Any] = {}
        self._temporary = self.folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(atomic_directory(self.folder, KIND))
            for name in ("ids", "offsets"):
                self._files[name] = stack.enter_context((self._temporary / f"{name}.bin").open("wb"))
                self._digests[name] = hashlib.sha256()
            self._write("offsets", np.zeros(1, _OFFSET_TYPE))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._flush()
            self._describe()

    def append(self, ids: Sequence[int]) -> None:
        """Adds one sentence, without control symbols."""
        self._waiting.extend(ids)
        self._waiting_lengths.append(len(ids))
        if len(self._waiting) >= _WRITTEN_AT_ONCE or len(self._waiting_lengths) >= _WRITTEN_AT_ONCE:
            self._flush()

    def extend(self, ids: npt.NDArray[np.integer[Any]], lengths: npt.NDArray[np.integer[Any]]) -> None:
        """Adds many sentences: their ids one after the other, and the number of pieces of each."""
        self._flush()
        self._add(ids, lengths)

    def _flush(self) -> None:
        ids, lengths = self._waiting, self._waiting_lengths
        self._waiting, self._waiting_lengths = array("I"), array("I")
        self._add(np.frombuffer(ids, f"u{ids.itemsize}"), np.frombuffer(lengths, f"u{lengths.itemsize}"))

    def _add(self, ids: npt.NDArray[np.integer[Any]], lengths: npt.NDArray[np.integer[Any]]) -> None:
        ends = np.cumsum(lengths, dtype=np.int64)
        if (int(ends[-1]) if len(ends) else 0) != len(ids):
            raise ValueError(f"{len(ids)} ids for sentences of {ends[-1] if len(ends) else 0}")
        wrong = (ids >= self.vocabulary_size) | (ids < 0) | np.isin(ids, (BEGIN_ID, END_ID, PADDING_ID))
        if wrong.any():
            place = int(np.argmax(wrong))
            sentence = self.sentences + int(np.searchsorted(ends, place, side="right"))
            raise ValueError(
                f"sentence {sentence}: {ids[place]} is not a piece of a vocabulary of {self.vocabulary_size}"
            )
        self._write("ids", ids.astype(self._type))
        self._write("offsets", (self.tokens + ends).astype(_OFFSET_TYPE))
        self.sentences += len(lengths)
        self.tokens += len(ids)

    def _write(self, name: str, values: npt.NDArray[Any]) -> None:
        self._files[name].write(values.data)
        self._digests[name].update(values.data)

    def _describe(self) -> None:
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "vocabulary_size": self.vocabulary_size,
            "subwords": self.subwords,
        }
        digests = {name: digest.hexdigest() for name, digest in self._digests.items()}
        identity = json.dumps({**content, **digests}, sort_keys=True)
        self.fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        write_json(self._temporary / _DESCRIPTION, {**content, "fingerprint": self.fingerprint})


def _described(folder: Path) -> dict[str, Any]:
    """Returns the description of a store; raises for a format or version that this code cannot read."""
    path = folder / _DESCRIPTION
    content = read_json(path, _ADVICE)
    if content.get("format") != _FORMAT or content.get("version") != _VERSION:
        raise InputError(f"not in the format {_FORMAT}, version {_VERSION}.", path, advice=_ADVICE)
    return content
