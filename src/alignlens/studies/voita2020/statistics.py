"""Parts of a curve that claims are about."""

from __future__ import annotations


def third(positions: int, which: int) -> slice:
    """Returns the first (0) or last (2) third of positions."""
    size = max(1, positions // 3)
    return slice(0, size) if which == 0 else slice(positions - size, positions)
