"""Some pairs of a text: those of one length, some at random, and the same with partners exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

COMMON = "common"
"""The lengths that most pairs have."""


@dataclass(frozen=True)
class Selection:
    """Which pairs are chosen; lengths are pieces of source and target, None for any."""

    lengths: tuple[int, int] | str | None = None
    pairs: int | None = None
    exchanged: bool = False
    """Whether every source sentence gets the target of another pair."""
    seed: int = 1
    skip: int = 0
    """First pairs that are left out, such as those that a model is trained on."""

    def places(self, lengths: NDArray[np.integer[Any]]) -> tuple[Places, Places]:
        """Returns the places of source and target sentences, given the lengths of all pairs (pairs x 2)."""
        chosen = self._of_length(lengths)
        rng = np.random.default_rng(self.seed)
        if self.pairs is not None and self.pairs < len(chosen):
            chosen = np.sort(rng.choice(chosen, self.pairs, replace=False))
        if not self.exchanged:
            return chosen, chosen
        if len(chosen) < 2:
            raise ConfigError("a single pair has no other partner. Choose more pairs, or do not exchange partners.")
        partners = np.empty_like(chosen)
        order = rng.permutation(len(chosen))
        partners[order] = chosen[np.roll(order, -1)]  # one cycle over all pairs: none keeps its own partner
        return chosen, partners

    def _of_length(self, lengths: NDArray[np.integer[Any]]) -> Places:
        everything = np.arange(self.skip, len(lengths), dtype=np.int64)
        if self.skip and not len(everything):
            raise ConfigError(f"no pair is left: there are {len(lengths)}, and the first {self.skip} are left out.")
        if self.lengths is None or not len(lengths):
            return everything
        kinds, counts = np.unique(lengths[self.skip :], axis=0, return_counts=True)
        common = kinds[counts.argmax()]
        wanted = common if self.lengths == COMMON else np.array(self.lengths)
        chosen: Places = everything[(lengths[self.skip :] == wanted).all(axis=1)]
        if not len(chosen):
            raise ConfigError(
                f"no pair has {wanted[0]} source pieces and {wanted[1]} target pieces. "
                f"Most pairs ({counts.max()}) have {common[0]} and {common[1]}."
            )
        return chosen
