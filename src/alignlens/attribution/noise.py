"""Noise for smoothing: drawn per sentence and copy, so that it depends on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


def unit_noise(seed: int, number: int, copies: Iterable[int], length: int, dim: int) -> Tensor:
    """Returns standard normal noise (copy, source, dim) of some copies of a sentence, by its number in the corpus."""
    generator = torch.Generator()
    drawn = []
    for copy in copies:
        digest = hashlib.blake2b(f"{seed} {number} {copy}".encode(), digest_size=7).digest()
        generator.manual_seed(int.from_bytes(digest, "big"))
        drawn.append(torch.randn(length, dim, generator=generator))
    return torch.stack(drawn)


def spread_of(vectors: Tensor, mask: Tensor) -> Tensor:
    """Returns the range (row, 1, 1) of all embedding entries of each sentence, padding left out."""
    hidden = ~mask[..., None]
    highest = vectors.masked_fill(hidden, float("-inf")).amax((1, 2), keepdim=True)
    lowest = vectors.masked_fill(hidden, float("inf")).amin((1, 2), keepdim=True)
    return highest - lowest
