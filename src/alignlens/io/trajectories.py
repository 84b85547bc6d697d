"""Trajectories: what a model looks at in a text at several checkpoints of its training, and how good it was.

A trajectory is a folder of matrices (``io/matrices.py``) whose names are ``{weights}/{quantity}``. Weights are the
update of a checkpoint in six digits, or ``final``, the weights that training kept. An item is a pair of sentences, or
a text that was classified (one row). The facts have the weights in order and the performance at each of them. A
quantity ``method@prefix`` is about the target prefix: its matrices are square. The facts may also have, at each of the
weights, which rows of every item were predicted right, as text: ``1101``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from alignlens.errors import InputError
from alignlens.io.matrices import Matrices, MatrixWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.io.matrices import Matrix

FINAL = "final"
"""The final weights, whichever update they are from; always last."""

_WEIGHTS, _PERFORMANCE, _CORRECT = "weights", "performance", "correct"
_PREFIX = "@prefix"
_ADVICE = "Make one with: alignlens trajectory, alignlens classify explain, or run the pipeline again."


def weights_name(update: int) -> str:
    """Returns the name of the checkpoint of an update."""
    return f"{update:06d}"


def write_trajectory(
    folder: Path | str,
    rows: Mapping[str, Mapping[str, Sequence[Matrix]]],
    performance: Mapping[str, Mapping[str, float]],
    facts: Mapping[str, Any],
    correct: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes ``rows[weights][quantity][item]``; every checkpoint must have the same quantities of the same items.

    ``performance[weights]`` has ``accuracy`` (a share), ``loss`` (nats) and, if it was measured, ``bleu`` (percent).
    ``correct[weights][item]`` says which rows were predicted right.
    """
    weights = sorted(rows, key=_place)
    if not weights or set(performance) != set(weights):
        raise ValueError(f"performance given for {sorted(performance)}, but the checkpoints are {weights}")
    quantities = list(rows[weights[0]])
    if not quantities or any(set(rows[each]) != set(quantities) for each in weights):
        raise ValueError("checkpoints whose quantities differ from those of the first")
    plain = [each for each in quantities if not each.endswith(_PREFIX)]
    if not plain:
        raise ValueError("no quantity is about the source")
    first = rows[weights[0]][plain[0]]
    shapes = np.array([first[item].shape for item in range(len(first))], np.int64).reshape(-1, 2)
    names = [_name(each, quantity) for each in weights for quantity in plain]
    squares = [_name(each, quantity) for each in weights for quantity in quantities if quantity not in plain]
    content = {**facts, _WEIGHTS: weights, _PERFORMANCE: {each: dict(performance[each]) for each in weights}}
    if correct is not None:
        content[_CORRECT] = {each: list(correct[each]) for each in weights}
    with MatrixWriter(folder, names, shapes, content, squares=squares) as writer:
        for item in range(len(first)):
            matrices = {
                _name(each, quantity): rows[each][quantity][item] for each in weights for quantity in quantities
            }
            writer.write(item, matrices)


def join_trajectories(folder: Path | str, parts: Iterable[Trajectory], facts: Mapping[str, Any]) -> None:
    """Writes the trajectory of all checkpoints of several, which must differ; matrices are read one at a time."""
    given = [(part, each) for part in parts for each in part.weights]
    rows = {each: {name: _Stored(part, each, name) for name in part.quantities} for part, each in given}
    if len(rows) != len(given):
        raise ValueError("a checkpoint given twice")
    marks = {each: part.facts[_CORRECT][each] for part, each in given if _CORRECT in part.facts}
    performance = {each: part.performance[each] for part, each in given}
    write_trajectory(folder, rows, performance, facts, marks if len(marks) == len(given) else None)


class _Stored(Sequence["Matrix"]):
    """The matrices of one checkpoint, read on demand."""

    def __init__(self, trajectory: Trajectory, weights: str, quantity: str) -> None:
        self._trajectory, self._weights, self._quantity = trajectory, weights, quantity

    def __len__(self) -> int:
        return len(self._trajectory)

    def __getitem__(self, item: Any) -> Any:
        return self._trajectory.matrices(self._weights, self._quantity, [item])[0]


class Trajectory:
    """A trajectory on disk; its matrices are read on demand."""

    def __init__(
        self,
        matrices: Matrices,
        weights: tuple[str, ...],
        quantities: tuple[str, ...],
        performance: dict[str, dict[str, float]],
    ) -> None:
        self.folder, self.facts = matrices.folder, matrices.facts
        self.weights, self.quantities, self.performance = weights, quantities, performance
        self._matrices = matrices

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Returns the trajectory in a folder, after checks that do not read its matrices."""
        matrices = Matrices.open(folder)
        if matrices.numbers.tolist() != list(range(len(matrices))):
            raise _refusal(matrices.folder, "it is only part of one")
        weights = matrices.facts.get(_WEIGHTS)
        if not (isinstance(weights, list) and weights and all(map(_is_weights, weights))):
            raise _refusal(matrices.folder, "it names no checkpoints")
        if weights != sorted(set(weights), key=_place):
            raise _refusal(matrices.folder, "its checkpoints are not in order")
        quantities = []
        for names in (matrices.names, matrices.squares):
            suffixes = [name.partition("/")[2] for name in names if name.startswith(f"{weights[0]}/")]
            if names != [_name(each, other) for each in weights for other in suffixes]:
                raise _refusal(matrices.folder, "its matrices are not those of its checkpoints")
            quantities += suffixes
        if not quantities:
            raise _refusal(matrices.folder, "its matrices are not those of its checkpoints")
        performance = _performance(matrices.folder, matrices.facts.get(_PERFORMANCE), weights)
        return cls(matrices, tuple(weights), tuple(quantities), performance)

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._matrices)

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Rows and columns of every item."""
        return self._matrices.shapes

    @property
    def updates(self) -> tuple[str, ...]:
        """The checkpoints named by their update, in order."""
        return tuple(each for each in self.weights if each != FINAL)

    def matrices(self, weights: str, quantity: str, items: Iterable[int] | None = None) -> list[Matrix]:
        """Returns the matrices of all items, or of some in the order they are named in."""
        self.check(weights, quantity)
        name = _name(weights, quantity)
        return [self._matrices.matrix(name, item) for item in (range(len(self)) if items is None else items)]

    def correct(self, weights: str) -> list[NDArray[np.bool_]] | None:
        """Returns which rows of every item were predicted right; None if that was not recorded."""
        marks = self.facts.get(_CORRECT)
        if marks is None:
            return None
        return [np.frombuffer(each.encode(), np.uint8) == ord("1") for each in marks[weights]]

    def check(self, weights: str, quantity: str) -> None:
        """Raises unless the folder has the matrices of a checkpoint."""
        for wanted, there, what in ((weights, self.weights, "checkpoint"), (quantity, self.quantities, "quantity")):
            if wanted not in there:
                problem = f"has no {what} {wanted!r}; it has {', '.join(there)}."
                raise InputError(problem, self.folder, advice=_ADVICE)

    def best(self, measure: str) -> str:
        """Returns the checkpoint with the greatest performance, the first of equals; ``final`` counts."""
        known = [each for each in self.weights if measure in self.performance[each]]
        if not known:
            raise InputError(f"has no {measure} of any checkpoint.", self.folder, advice=_ADVICE)
        return max(known, key=lambda each: self.performance[each][measure])


def _name(weights: str, quantity: str) -> str:
    return f"{weights}/{quantity}"


def _is_weights(value: object) -> bool:
    return value == FINAL or (isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) >= 6)


def _place(weights: str) -> float:
    """Returns the sort key of a checkpoint."""
    if not _is_weights(weights):
        raise ValueError(f"{weights!r} is not the name of a checkpoint")
    return math.inf if weights == FINAL else int(weights)


def _performance(folder: Path, performance: object, weights: Sequence[str]) -> dict[str, dict[str, float]]:
    """Returns the performance at every checkpoint, after checking that it is numeric."""
    if not isinstance(performance, dict) or set(performance) != set(weights):
        raise _refusal(folder, "it does not say how its checkpoints performed")
    for measures in performance.values():
        if not isinstance(measures, dict) or any(
            isinstance(value, bool) or not isinstance(value, int | float) for value in measures.values()
        ):
            raise _refusal(folder, "a performance is not a number")
    return {each: {name: float(value) for name, value in performance[each].items()} for each in weights}


def _refusal(folder: Path, why: str) -> InputError:
    return InputError(f"not a trajectory: {why}.", folder, advice=_ADVICE)
