"""Weights drawn by torch, whose modules know one generator for the whole process."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_drawing = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets the block draw from a seed, without other threads, and leaves the generator as it was."""
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
