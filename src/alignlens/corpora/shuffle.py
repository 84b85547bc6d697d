"""A shuffled order that is computed, not stored: where a pair of sentences comes in an epoch, and the reverse.

A Feistel network over the smallest power of two that holds all positions gives a bijection for any round
function; walking the cycle until the result is in range makes it one of exactly ``size`` positions.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

_ROUNDS = 8


class Shuffle:
    """A pseudo-random permutation of ``range(size)``; its memory use does not depend on ``size``."""

    def __init__(self, size: int, *key: int) -> None:
        """``key`` selects the permutation: any integers, for example a seed and an epoch."""
        if size < 1:
            raise ValueError(f"nothing to shuffle: size {size}")
        self.size = size
        bits = (size - 1).bit_length()
        self._low_bits = np.uint64(bits - bits // 2)
        self._low_mask = np.uint64((1 << (bits - bits // 2)) - 1)
        self._high_mask = np.uint64((1 << (bits // 2)) - 1)
        self._keys = _round_keys(key)

    def __call__(self, positions: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Returns the items at the given positions of the shuffled order."""
        items = self._once(np.asarray(positions).astype(np.uint64))
        (outside,) = np.nonzero(items >= self.size)
        while len(outside):
            items[outside] = self._once(items[outside])
            outside = outside[items[outside] >= self.size]
        return items.astype(np.int64)

    def _once(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        high, low = numbers >> self._low_bits, numbers & self._low_mask
        for first, second in zip(self._keys[::2], self._keys[1::2], strict=True):
            high = high ^ (mixed(low ^ first) & self._high_mask)
            low = low ^ (mixed(high ^ second) & self._low_mask)
        return (high << self._low_bits) | low


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns numbers whose every bit depends on all bits of the given ones (the finaliser of SplitMix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _round_keys(key: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    digest = hashlib.blake2b(" ".join(map(str, key)).encode(), digest_size=8 * _ROUNDS).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)
