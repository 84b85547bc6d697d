"""How frequent the types of a vocabulary are: ranks, 1 for the most frequent, nan for types that have none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignlens.corpora.symbols import BEGIN_ID, END_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alignlens.corpora.tokens import Integers, TokenStore

Ranks = npt.NDArray[np.float64]

_UNUSED = re.compile(r"\[unused\d+\]")
_CONTINUED = "##"
_SENTENCES_AT_ONCE = 1 << 14


def ranks_by_id(texts: Sequence[str], special: Collection[int], first: Sequence[int]) -> Ranks:
    """Returns ranks by the order of ids, in which BERT's vocabulary lists its types from frequent to rare.

    ``texts`` are the tokens by id. Those of ``first`` come first; other ``special`` tokens, places left unused and
    single characters, which stand in that vocabulary for coverage and not for their frequency, have no rank.
    """
    ranks = np.full(len(texts), np.nan)
    listed = [
        number
        for number, text in enumerate(texts)
        if number not in special and not _UNUSED.fullmatch(text) and len(text.removeprefix(_CONTINUED)) > 1
    ]
    order = list(dict.fromkeys([*first, *listed]))
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def ranks_by_count(counts: Integers) -> Ranks:
    """Returns ranks by counts; equal counts share their average rank, a type that never occurs has none."""
    ranks = np.full(len(counts), np.nan)
    seen = np.flatnonzero(counts)
    _, group, sizes = np.unique(-counts[seen], return_inverse=True, return_counts=True)
    ranks[seen] = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    return ranks


def counts_of(store: TokenStore, begin: bool = False, symbol: int = BEGIN_ID) -> Integers:
    """Returns how often every id occurs in a token store whose sentences end with END, and begin with BEGIN if so.

    ``symbol`` is what a model reads in the place of BEGIN.
    """
    counts = np.zeros(store.vocabulary_size, np.int64)
    for start in range(0, len(store), _SENTENCES_AT_ONCE):
        ids, _ = store.gather(np.arange(start, min(start + _SENTENCES_AT_ONCE, len(store))))
        counts += np.bincount(ids, minlength=store.vocabulary_size)
    counts[END_ID] = len(store)
    counts[BEGIN_ID] = 0
    if begin:
        counts[symbol] = len(store)
    return counts
