"""Named matrices of many sentences on disk: written in any order, read one at a time, put together from shards.

A folder holds ``000.f32``, ``001.f32`` ... (one file per name: the matrices of all sentences one after the other, in
sentence order), ``numbers.npy`` (which sentences), ``shapes.npy`` (rows and columns of each), ``sums.npy`` (the CRC-32
of every matrix, names by sentences) and ``facts.json`` (the names, and facts from the writer). Some names
may stand for square matrices, with as many columns as the others have rows; their files come last. Equal matrices are
equal bytes, whatever the order they were written in. The seal covers all but the matrices, which are checked one by one
when they are read.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from alignlens.errors import InputError, ToolError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.io.documents import read_json
from alignlens.io.seals import Seal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Matrix = NDArray[np.float32]

STATISTICS = "statistics"
"""The fact whose numbers are summed over shards; all other facts must be the same in every shard."""

SENTENCES = "sentences"
"""The fact with the total number of sentences of all shards; without it, the last sentence present counts."""

KIND = "folder of scores"
_FORMAT, _VERSION = "alignlens matrices", 2
_FACTS = "facts.json"
_TYPE = np.dtype("<f4")
_ADVICE = "Delete it and recreate it with: alignlens attribute, or run the pipeline again."


def _file_of(place: int) -> str:
    return f"{place:03d}.f32"


def _is_matrices(name: str) -> bool:
    return name.endswith(".f32")


class _Layout:
    """Where the matrices of a file stand in it, by place of the sentence."""

    def __init__(self, shapes: Integers) -> None:
        self._shapes = shapes
        self._starts = np.concatenate(([0], np.cumsum(shapes[:, 0] * shapes[:, 1]))).astype(np.int64)
        self.bytes = self.start(-1)

    def start(self, place: int) -> int:
        """Returns the byte at which a matrix starts; one place past the last, the size of the file."""
        return int(self._starts[place]) * _TYPE.itemsize

    def shape(self, place: int) -> tuple[int, int]:
        """Returns the rows and columns of a matrix."""
        rows, columns = self._shapes[place].tolist()
        return rows, columns


def _layouts(names: Sequence[str], squares: Sequence[str], shapes: Integers) -> dict[str, _Layout]:
    """Returns the layout of every file, in the order of the files."""
    usual, square = _Layout(shapes), _Layout(shapes[:, [0, 0]])
    return {**dict.fromkeys(names, usual), **dict.fromkeys(squares, square)}


class MatrixWriter:
    """Writes one matrix per name and sentence; the folder appears, complete, when the block ends without an error.

    ``shapes[k]`` is the shape of the matrices of sentence ``numbers[k]``; without ``numbers`` the sentences are
    0, 1, 2 ... ``facts`` are written when the block ends, so that counters in them may still change inside it.
    ``squares`` are names of matrices that are square, with as many rows.
    """

    def __init__(
        self,
        folder: Path | str,
        names: Sequence[str],
        shapes: Integers,
        facts: Mapping[str, Any],
        numbers: Integers | None = None,
        squares: Sequence[str] = (),
    ) -> None:
        numbers = np.arange(len(shapes)) if numbers is None else np.asarray(numbers, dtype=np.int64)
        shapes = np.asarray(shapes, dtype=np.int64).reshape(-1, 2)
        if numbers.shape != (len(shapes),) or (shapes < 0).any():
            raise ValueError(f"{len(shapes)} shapes for sentence numbers of shape {numbers.shape}")
        every = [*names, *squares]
        if len(set(every)) != len(every) or len(np.unique(numbers)) != len(numbers):
            raise ValueError("a name or a sentence number given twice")
        order = np.argsort(numbers)
        self.folder, self.names, self.squares, self.facts = Path(folder), list(names), list(squares), facts
        self._numbers, self._shapes = numbers[order].astype(np.int64), shapes[order]
        self._places = {number: place for place, number in enumerate(self._numbers.tolist())}
        self._layouts = _layouts(names, squares, self._shapes)
        self._written = np.zeros(len(shapes), dtype=bool)
        self._sums = np.zeros((len(every), len(shapes)), dtype=np.uint32)
        self._temporary = self.folder
        self._files: list[int] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(atomic_directory(self.folder, KIND, _is_matrices))
            for place, layout in enumerate(self._layouts.values()):
                path = self._temporary / _file_of(place)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
                stack.callback(os.close, file)
                os.ftruncate(file, layout.bytes)
                self._files.append(file)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            if not self._written.all():
                missing = self._numbers[~self._written]
                raise ToolError(
                    f"{self.folder}: no scores for {len(missing)} of {len(self._numbers)} sentences (the first is"
                    f" number {missing[0]}); nothing was kept. Run the same command again."
                )
            np.save(self._temporary / "numbers.npy", self._numbers)
            np.save(self._temporary / "shapes.npy", self._shapes)
            np.save(self._temporary / "sums.npy", self._sums)
            # As they will be read back: keys that are not strings would be sorted differently next time.
            facts = json.loads(json.dumps(dict(self.facts)))
            content = {"format": _FORMAT, "version": _VERSION, "names": self.names, "facts": facts}
            if self.squares:
                content["squares"] = self.squares
            write_json(self._temporary / _FACTS, content)

    def write(self, number: int, matrices: Mapping[str, Matrix]) -> None:
        """Writes all matrices of one sentence."""
        place = self._places.get(number)
        if place is None:
            raise self._refusal(number, "is not one of the sentences of this folder")
        if self._written[place]:
            raise self._refusal(number, "was already written")
        if wrong := sorted(set(matrices) ^ set(self._layouts)):
            raise self._refusal(number, f"{'lacks' if wrong[0] in self._layouts else 'has an unknown'} {wrong[0]!r}")
        for row, (name, layout) in enumerate(self._layouts.items()):
            matrix, shape = matrices[name], layout.shape(place)
            if matrix.shape != shape:
                raise self._refusal(number, f"{name}: a matrix of shape {matrix.shape}, expected {shape}")
            if not np.isfinite(matrix).all():
                raise self._refusal(number, f"{name}: a score that is not a finite number")
            content = np.ascontiguousarray(matrix, dtype=_TYPE).tobytes()
            self._sums[row, place] = zlib.crc32(content)
            self._put(self._files[row], content, layout.start(place))
        self._written[place] = True

    def _put(self, file: int, content: bytes, place: int) -> None:
        rest = memoryview(content)
        try:
            while rest:
                done = os.pwrite(file, rest, place)
                rest, place = rest[done:], place + done
        except OSError as error:
            raise ToolError(
                f"{self.folder}: cannot be written ({error.strerror}). Make room, then run the same command again."
            ) from None

    def _refusal(self, number: int, problem: str) -> ToolError:
        return ToolError(f"{self.folder}: sentence {number}: {problem}. The text is not at fault; please report this.")


class Matrices:
    """The matrices of a folder, read on demand; memory use does not depend on how many there are."""

    def __init__(
        self,
        folder: Path,
        names: list[str],
        squares: list[str],
        facts: dict[str, Any],
        numbers: Integers,
        shapes: Integers,
        sums: NDArray[np.uint32],
    ) -> None:
        self.folder, self.names, self.squares, self.facts = folder, names, squares, facts
        self.numbers, self.shapes, self._sums = numbers, shapes, sums
        self._places = {number: place for place, number in enumerate(numbers.tolist())}
        self._layouts = _layouts(names, squares, shapes)
        self._rows = {name: row for row, name in enumerate(self._layouts)}
        self._files: dict[str, int] = {}

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Returns the matrices in a folder, after checks that do not read them."""
        folder = Path(folder)
        seal = Seal.of(folder, KIND, _ADVICE)
        seal.check_names()
        seal.check(*seal.files)
        names, squares, facts = _described(folder)
        numbers, shapes, sums = (_saved(folder / name) for name in ("numbers.npy", "shapes.npy", "sums.npy"))
        layouts = list(_layouts(names, squares, shapes).values())
        if sums.shape != (len(layouts), len(numbers)) or any(
            seal.files.get(_file_of(place), (None,))[0] != layout.bytes for place, layout in enumerate(layouts)
        ):
            raise InputError("damaged: its files do not fit together.", folder, advice=_ADVICE)
        return cls(folder, names, squares, facts, numbers, shapes, sums)

    def __len__(self) -> int:
        return len(self.numbers)

    def shape(self, number: int) -> tuple[int, int]:
        """Returns the rows and columns of the matrices of a sentence that are not square."""
        rows, columns = self.shapes[self._place(number)].tolist()
        return rows, columns

    def matrix(self, name: str, number: int) -> Matrix:
        """Returns one matrix, read-only."""
        place, layout = self._place(number), self._layouts[name]
        start, size = layout.start(place), layout.start(place + 1) - layout.start(place)
        content = os.pread(self._file(name), size, start)
        if len(content) != size:
            raise InputError("became shorter while it was read.", self.folder, advice=_ADVICE)
        if zlib.crc32(content) != self._sums[self._rows[name], place]:
            problem = f"damaged: the scores of sentence {number} have changed since they were written (CRC-32)."
            raise InputError(problem, self.folder / _file_of(self._rows[name]), advice=_ADVICE)
        matrix: Matrix = np.frombuffer(content, _TYPE).reshape(layout.shape(place))
        return matrix

    def _place(self, number: int) -> int:
        if number not in self._places:
            raise IndexError(f"sentence {number} is not in {self.folder}")
        return self._places[number]

    def _file(self, name: str) -> int:
        if name not in self._files:
            file = os.open(self.folder / _file_of(self._rows[name]), os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, file)
            self._files[name] = file
        return self._files[name]


def gather(folders: Sequence[Path], out: Path) -> None:
    """Joins shards into the folder that one run over all sentences would have written."""
    shards = [Matrices.open(folder) for folder in folders]
    if not shards:
        raise ValueError("no shards to gather")
    first = shards[0]
    for shard in shards[1:]:
        if (shard.names, shard.squares) != (first.names, first.squares):
            raise InputError(f"has other names than {first.folder}.", shard.folder, advice=_ADVICE)
        keys = (first.facts.keys() | shard.facts.keys()) - {STATISTICS}
        if different := sorted(key for key in keys if first.facts.get(key) != shard.facts.get(key)):
            raise InputError(f"{different[0]!r} differs from that of {first.folder}.", shard.folder, advice=_ADVICE)
    numbers = np.concatenate([shard.numbers for shard in shards])
    wanted = first.facts.get(SENTENCES, len(numbers))
    if not np.array_equal(np.sort(numbers), np.arange(wanted)):
        last = max(wanted - 1, int(numbers.max(initial=0)))
        raise InputError(
            f"with {len(shards) - 1} other shards: sentences 0 to {last} are not all there exactly once.",
            first.folder,
            advice="Give each shard of one run once.",
        )
    facts = dict(first.facts)
    if STATISTICS in facts:
        facts[STATISTICS] = _added([shard.facts.get(STATISTICS, {}) for shard in shards])
    shapes = np.concatenate([shard.shapes for shard in shards])
    with MatrixWriter(out, first.names, shapes, facts, numbers, first.squares) as writer:
        for shard in shards:
            for number in shard.numbers.tolist():
                writer.write(number, {name: shard.matrix(name, number) for name in (*shard.names, *shard.squares)})


def _added(counters: list[Any]) -> Any:
    """Returns the sum of numbers, or of mappings or lists of them by place; other values are taken from the first."""
    if isinstance(counters[0], dict):
        keys = {key: None for counter in counters for key in counter}
        return {key: _added([counter[key] for counter in counters if key in counter]) for key in keys}
    if isinstance(counters[0], list):
        columns = zip_longest(*counters, fillvalue=0)
        return [_added(list(column)) for column in columns]
    if isinstance(counters[0], (int, float)) and not isinstance(counters[0], bool):
        return sum(counters)
    return counters[0]


def _described(folder: Path) -> tuple[list[str], list[str], dict[str, Any]]:
    """Returns names, those of square matrices and facts, after checking format and version."""
    content = read_json(folder / _FACTS, _ADVICE)
    if content.get("format") != _FORMAT or content.get("version") != _VERSION:
        raise InputError(f"not in the format {_FORMAT}, version {_VERSION}.", folder / _FACTS, advice=_ADVICE)
    names, squares = (list(map(str, content.get(key, ()))) for key in ("names", "squares"))
    return names, squares, dict(content["facts"])


def _saved(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array
