"""One sentence through all decoder layers: weights above, norms below (Figure 8 and appendix)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.display.matrix_heatmap import Panel, draw_matrices
from alignlens.studies.kobayashi2020.runs import KINDS, STEPS, layer_method

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from alignlens.display.heatmap import Drawing
    from alignlens.display.sentences import Example


def layer_heatmaps(example: Example, name: str, depth: int) -> dict[str, tuple[Drawing, str]]:
    """Returns a figure per step with its caption, of one model of an example; norms are shown as parts of their row."""
    matrices = example.rows[name]
    drawings = {}
    for step, called in STEPS.items():
        where = f"Figure 8, {example.dataset} {example.direction}, {name}, test sentence {example.number + 1}"
        caption = f"{where}: weights and norms by layer, {called}"
        rows = [
            (label, [Panel(f"layer {n + 1}", _parts(matrices.get(layer_method(kind, n, step)))) for n in range(depth)])
            for kind, label in KINDS.items()
        ]
        drawings[called.lower()] = draw_matrices(example, rows, caption), caption
    return drawings


def _parts(matrix: NDArray[np.floating[Any]] | None) -> NDArray[np.floating[Any]] | None:
    """Returns rows that sum to one, so that panels share a scale."""
    return None if matrix is None else matrix / matrix.sum(axis=1, keepdims=True)
