"""The ways to combine two directions, by name; plain data, so that a configuration is checked without arrays."""

from __future__ import annotations

from typing import NamedTuple


class Heuristic(NamedTuple):
    """How a growing method decides; ``None`` for final means no final step."""

    grow_needs_both_free: bool
    final_needs_both_free: bool | None


GROWING = {
    "grow-diag": Heuristic(False, None),
    "grow-diag-final": Heuristic(False, False),
    "grow-diag-final-and": Heuristic(False, True),
    "grow-diag-lilt": Heuristic(True, None),
    "grow-diag-final-lilt": Heuristic(True, True),
    "grow-diag-final-and-lilt": Heuristic(True, True),
}
SYMMETRIZATIONS = ("intersection", "union", *GROWING)

#: Needs the scores of both directions, not their links: ``alignment.soft``.
PRODUCT = "product"
