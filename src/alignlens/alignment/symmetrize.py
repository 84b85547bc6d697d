"""Two directional alignments into one, in the two readings found in the literature.

*Common* (Moses, fast_align's atools): grow-diag accepts a neighbour of a link if it is in the union and its
source **or** its target word is still unaligned; final adds links of one direction under the same "or",
final-and demands both words unaligned.

*lilt* (the alignment-scripts used by Zenkel et al. and Ding et al.): both words must be unaligned while growing
and in the final step. So there ``grow-diag-final`` already is a final-and, and the two names give one result.

All sentences are treated at once: for a pair of word positions one big integer holds a bit per sentence, and a
step of the textbook loop becomes a few operations on such integers. The order of the loop (source word, target
word, then the neighbours in ``_NEIGHBOURS``; points added are visited in the same scan if they lie ahead) is the
same for every sentence, so the result is that of the textbook loop sentence by sentence.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import Alignment
from alignlens.alignment.symmetrizations import GROWING, SYMMETRIZATIONS
from alignlens.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from alignlens.alignment.symmetrizations import Heuristic

    Bitsets = dict[tuple[int, int], int]

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
_SENTENCES_AT_ONCE = 8192


def symmetrize(forward: Alignment, reverse: Alignment, method: str) -> Alignment:
    """Returns the combination of two alignments that are both in (source, target) orientation."""
    if method not in SYMMETRIZATIONS:
        raise ConfigError(unknown_name("symmetrisation", method, SYMMETRIZATIONS))
    if method == "intersection":
        return forward & reverse
    if method == "union":
        return forward | reverse
    forward = Alignment(forward.keys, forward.sentences)
    both, either = forward & reverse, forward | reverse
    heuristic = GROWING[method]
    parts = [
        _grow_chunk(forward, reverse, both, either, heuristic, start)
        for start in range(0, len(forward), _SENTENCES_AT_ONCE)
    ]
    keys = np.concatenate(parts) if parts else forward.keys
    return Alignment(np.sort(keys), len(forward))


class _Grid:
    """Links of up to ``_SENTENCES_AT_ONCE`` sentences, as bitsets over sentences per pair of positions."""

    def __init__(self, links: Bitsets) -> None:
        self.links = dict(links)
        self.source_taken: dict[int, int] = defaultdict(int)
        self.target_taken: dict[int, int] = defaultdict(int)
        for (i, j), bits in links.items():
            self.source_taken[i] |= bits
            self.target_taken[j] |= bits

    def add_where_free(self, cell: tuple[int, int], bits: int, both_free: bool) -> int:
        """Adds the link in those of the sentences ``bits`` where its words allow it; returns these sentences."""
        i, j = cell
        source, target = self.source_taken[i], self.target_taken[j]
        added = bits & ~((source | target) if both_free else (source & target))
        if added:
            self.links[cell] = self.links.get(cell, 0) | added
            self.source_taken[i] = source | added
            self.target_taken[j] = target | added
        return added


def _grow_chunk(
    forward: Alignment,
    reverse: Alignment,
    both: Alignment,
    either: Alignment,
    heuristic: Heuristic,
    start: int,
) -> NDArray[np.int64]:
    """Returns the keys of the symmetrised links of the sentences from ``start`` on."""
    union = _bitsets(either, start)
    grid = _Grid(_bitsets(both, start))
    candidates = {}
    for cell, bits in union.items():
        if rest := bits & ~grid.links.get(cell, 0):
            candidates[cell] = rest
    neighbours = {
        (i, j): [near for di, dj in _NEIGHBOURS if (near := (i + di, j + dj)) in candidates] for i, j in sorted(union)
    }
    scan = [(cell, beside) for cell, beside in neighbours.items() if beside]
    growing = True
    while growing:
        growing = False
        for cell, beside in scan:
            here = grid.links.get(cell)
            if not here:
                continue
            for other in beside:
                wanted = here & candidates[other]
                if wanted and (added := grid.add_where_free(other, wanted, heuristic.grow_needs_both_free)):
                    candidates[other] &= ~added
                    growing = True
    if heuristic.final_needs_both_free is not None:
        for direction in (forward, reverse):
            directional = _bitsets(direction, start)
            for cell in sorted(directional):
                rest = directional[cell] & ~grid.links.get(cell, 0)
                if rest:
                    grid.add_where_free(cell, rest, heuristic.final_needs_both_free)
    return _keys(grid.links, start)


def _bitsets(alignment: Alignment, start: int) -> Bitsets:
    """Returns, per (source, target), the sentences that link it: bit k stands for sentence ``start + k``."""
    low, high = np.searchsorted(alignment.keys, (start << 32, (start + _SENTENCES_AT_ONCE) << 32))
    keys = alignment.keys[low:high]
    cells = keys & 0xFFFFFFFF
    order = np.argsort(cells, kind="stable")
    cells, sentences = cells[order], (keys[order] >> 32) - start
    borders = np.flatnonzero(np.diff(cells)) + 1
    flags = np.zeros(_SENTENCES_AT_ONCE, dtype=np.uint8)
    result: Bitsets = {}
    for group in np.split(np.arange(cells.size), borders) if cells.size else []:
        inside = sentences[group]
        flags[inside] = 1
        packed = np.packbits(flags[: int(inside[-1]) + 1], bitorder="little")
        flags[inside] = 0
        cell = int(cells[group[0]])
        result[cell >> 16, cell & 0xFFFF] = int.from_bytes(packed.tobytes(), "little")
    return result


def _keys(links: Bitsets, start: int) -> NDArray[np.int64]:
    """Returns the keys of bitsets as made by ``_bitsets``."""
    parts = [np.empty(0, dtype=np.int64)]
    for (i, j), bits in links.items():
        packed = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), dtype=np.uint8)
        sentences = np.flatnonzero(np.unpackbits(packed, bitorder="little")).astype(np.int64) + start
        parts.append((sentences << 32) | (i << 16) | j)
    return np.concatenate(parts)
