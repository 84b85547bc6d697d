"""Several corpora as one, and back: what works on whole corpora then takes about as long for many as for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import Alignment

if TYPE_CHECKING:
    from collections.abc import Sequence


def stack(alignments: Sequence[Alignment]) -> Alignment:
    """Returns the sentence pairs of all alignments one after the other, without scores."""
    starts = np.cumsum([0, *map(len, alignments)])
    parts = list(zip(alignments, starts[:-1], strict=True))
    nothing = [np.empty(0, dtype=np.int64)]
    sentence = np.concatenate(nothing + [alignment.sentence + start for alignment, start in parts])
    source = np.concatenate(nothing + [alignment.source for alignment in alignments])
    target = np.concatenate(nothing + [alignment.target for alignment in alignments])
    return Alignment.from_arrays(sentence, source, target, int(starts[-1]))


def unstack(alignment: Alignment, sizes: Sequence[int]) -> list[Alignment]:
    """Returns parts of an alignment with ``sizes`` sentence pairs, in order, without scores."""
    if sum(sizes) != len(alignment):
        raise ValueError(f"parts of {sum(sizes)} sentence pairs of {len(alignment)}")
    sentence, source, target = alignment.sentence, alignment.source, alignment.target
    alignments, start = [], 0
    for size in sizes:
        low, high = np.searchsorted(sentence, (start, start + size))
        alignments.append(Alignment.from_arrays(sentence[low:high] - start, source[low:high], target[low:high], size))
        start += size
    return alignments
