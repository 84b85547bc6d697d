"""Whether scores depend on the word asked about: the best source piece for the word and for its runner-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.io.matrices import Matrices
from alignlens.results.paths import FORCED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.results.scores import Results

ATTENTION = "attention"
SALIENCY = ("ding_grad",)


@dataclass(frozen=True, eq=False)
class LabelChange:
    """How often the best source piece of a target piece changes with the word."""

    dataset: str
    model: str
    seed: str
    direction: str
    method: str
    by_sentence: NDArray[np.int64]
    """Sentences x 2: target pieces, and how many of them have another best source piece."""

    @property
    def pieces(self) -> int:
        """Target pieces of all sentences."""
        return int(self.by_sentence[:, 0].sum())

    @property
    def changed(self) -> int:
        """Target pieces whose best source piece changes."""
        return int(self.by_sentence[:, 1].sum())


def label_changes(results: Results) -> list[LabelChange]:
    """Returns the changes of every forced run whose matrices are there, for attention and signed saliency."""
    directions = {dataset.name: dataset.directions for dataset in results.datasets}
    changes = []
    for run in results.runs(decoding=FORCED):
        for direction in directions[run.dataset]:
            folder = results.matrices(run, direction)
            if folder is None:
                continue
            matrices = Matrices.open(folder)
            for name in (ATTENTION, *SALIENCY):
                plain = results.protocol.method(name)
                other = results.protocol.method(name, label="runner_up")
                if {plain, other} <= set(matrices.names):
                    counts = _changed(matrices, plain, other)
                    changes.append(LabelChange(run.dataset, run.model, run.seed, direction, name, counts))
    return changes


def _changed(matrices: Matrices, method: str, other: str) -> NDArray[np.int64]:
    """Returns how many target pieces a sentence has, and how many have another best source piece under ``other``."""
    begin = int(bool(matrices.facts.get("source_begin", False)))
    counts = np.zeros((len(matrices), 2), dtype=np.int64)
    for place, number in enumerate(matrices.numbers.tolist()):
        rows, columns = matrices.shape(number)
        if rows < 2 or columns < 2 + begin:
            continue
        best = [np.argmax(matrices.matrix(name, number)[:-1, begin:-1], axis=1) for name in (method, other)]
        counts[place] = rows - 1, (best[0] != best[1]).sum()
    return counts
