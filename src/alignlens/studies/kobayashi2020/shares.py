"""How much of the weights and of the norms goes to the final period and to END, by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.results.paths import FORCED
from alignlens.studies.kobayashi2020.runs import KINDS, layer_method
from alignlens.subwords.spans import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.results.scores import Results
    from alignlens.studies.kobayashi2020.layers import Curve

END, PERIOD = "END", "final period"


@dataclass(frozen=True, eq=False)
class Share:
    """Mean over target pieces of the part of a row that goes to one source piece, of weights and of norms."""

    dataset: str
    model: str
    seed: str
    direction: str
    layer: int  # counted from 1
    piece: str
    weights: float
    norms: float
    sentences: int
    by_sentence: NDArray[np.float64]
    """Sentences x 2: the same part of weights and of norms, summed over the rows of a sentence."""

    @property
    def ratio(self) -> float:
        """How much more of the weight there is than of the norm."""
        return self.weights / self.norms if self.norms else math.nan


COLUMNS = (*(field.name for field in fields(Share) if field.name != "by_sentence"), "ratio")


def shares(results: Results, curves: Sequence[Curve]) -> list[Share]:
    """Returns the shares of every layer whose matrices are there, for the step that predicts a piece."""
    places = {(curve.setting.dataset, curve.setting.model, curve.setting.direction): curve for curve in curves}
    measured = []
    for (dataset, model, direction), curve in places.items():
        directions = next(entry.directions for entry in results.datasets if entry.name == dataset)
        side = "target" if direction == directions[1] else "source"
        for run in results.runs(dataset, decoding=FORCED):
            folder = results.matrices(run, direction) if run.model == model and run.seed in curve.seeds else None
            about_model = {"dataset": dataset, "direction": direction, "model": model, "seed": run.seed}
            pieces = results.manifest.pieces(side, **about_model)
            if folder is not None and pieces is not None:
                lines = [words(line) for line in read_lines(pieces)]
                matrices = Matrices.open(folder)
                for layer in range(curve.depth):
                    about = (dataset, model, run.seed, direction, layer + 1)
                    measured += [Share(*about, *numbers) for numbers in _of_layer(matrices, layer, lines)]
    return measured


def _of_layer(matrices: Matrices, layer: int, sources: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """Returns piece, shares of weights and of norms, number of sentences and their sums, for END and a final period."""
    methods = [layer_method(kind, layer, "out") for kind in KINDS]
    if not set(methods) <= set(matrices.names):
        return []
    sums = {piece: np.zeros((len(sources), 2)) for piece in (END, PERIOD)}
    rows, sentences = dict.fromkeys(sums, 0), dict.fromkeys(sums, 0)
    for number, source in enumerate(sources):
        has_period = bool(source) and join([source[-1]]) == "."
        for place, method in enumerate(methods):
            matrix = matrices.matrix(method, number)
            parts = matrix / matrix.sum(axis=1, keepdims=True)
            for piece, column, counted in ((END, -1, True), (PERIOD, -2, has_period)):
                if counted:
                    sums[piece][number, place] = float(parts[:, column].sum())
        for piece, counted in ((END, True), (PERIOD, has_period)):
            rows[piece] += len(matrix) * counted
            sentences[piece] += counted
    return [
        (piece, *(sum(numbers.tolist()) / rows[piece] for numbers in sums[piece].T), sentences[piece], sums[piece])
        for piece in sums
        if rows[piece]
    ]


def records(all_shares: Sequence[Share]) -> list[dict[str, Any]]:
    """Returns the rows of shares.csv."""
    return [{name: _rounded(getattr(share, name)) for name in COLUMNS} for share in all_shares]


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, 6)
