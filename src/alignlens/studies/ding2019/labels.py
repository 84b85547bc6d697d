"""Whether scores depend on the word asked about: the best source piece for the word and for its runner-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.io.matrices import Matrices
from alignlens.studies.protocol import FORCED
from alignlens.studies.results import score_folder

if TYPE_CHECKING:
    from alignlens.studies.results import Results

ATTENTION = "attention"
SALIENCY = ("ding_grad",)


@dataclass(frozen=True)
class LabelChange:
    """How often the best source piece of a target piece changes with the word."""

    dataset: str
    model: str
    seed: str
    direction: str
    method: str
    pieces: int
    changed: int


def label_changes(results: Results) -> list[LabelChange]:
    """Returns the changes of every forced run whose matrices are there, for attention and signed saliency."""
    directions = {dataset.name: dataset.directions for dataset in results.datasets}
    found = []
    for run in results.runs(decoding=FORCED):
        for direction in directions[run.dataset]:
            folder = score_folder(results.folder, run.dataset, run.model, run.seed, FORCED, direction)
            if not folder.is_dir():
                continue
            matrices = Matrices.open(folder)
            for name in (ATTENTION, *SALIENCY):
                plain = results.protocol.method(name)
                other = results.protocol.method(name, label="runner_up")
                if {plain, other} <= set(matrices.names):
                    counts = _changed(matrices, plain, other)
                    found.append(LabelChange(run.dataset, run.model, run.seed, direction, name, *counts))
    return found


def _changed(matrices: Matrices, method: str, other: str) -> tuple[int, int]:
    """Returns how many target pieces there are, and how many have another best source piece under ``other``."""
    begin = int(bool(matrices.facts.get("source_begin", False)))
    pieces = changed = 0
    for number in matrices.numbers.tolist():
        rows, columns = matrices.shape(number)
        if rows < 2 or columns < 2 + begin:
            continue
        best = [np.argmax(matrices.matrix(name, number)[:-1, begin:-1], axis=1) for name in (method, other)]
        pieces += rows - 1
        changed += int((best[0] != best[1]).sum())
    return pieces, changed
