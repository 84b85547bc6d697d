"""Limits of numbers, whether from a configuration, a command line or a method's parameters.

A limit lies far beyond any sensible use, and below what would hang or fill the machine.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
_REAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


class Limits(NamedTuple):
    """The least and the largest value; ``above`` and ``below`` leave the limit itself out."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def __contains__(self, value: object) -> bool:
        """Returns whether a value is inside; anything but a finite number is not."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return False
        enough = value > self.least if self.above else value >= self.least
        return enough and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        if not (self.above or self.below):
            return f"from {self.least:.15g} to {self.most:.15g}"
        least = "more than" if self.above else "at least"
        return f"{least} {self.least:.15g} and {'less than' if self.below else 'at most'} {self.most:.15g}"

    def whole(self, text: str) -> int:
        """Returns a whole number from text; raises ``ValueError`` with what it must be."""
        # int() would also take 1_000, digits of other scripts and spaces.
        if not _WHOLE.fullmatch(text) or int(text) not in self:
            raise ValueError(f"a whole number {self}")
        return int(text)

    def real(self, text: str) -> float:
        """Returns a number from text; raises ``ValueError`` with what it must be."""
        if not _REAL.fullmatch(text) or float(text) not in self:
            raise ValueError(f"a number {self}")
        return float(text)


#: What torch, NumPy and the aligners take, also after training has multiplied it (``training.loop``).
SEED = Limits(0, 2**31 - 1)
THREADS = Limits(1, 1024)
#: Text, scores and gradients of a batch are in memory together.
BATCH_TOKENS = Limits(1, 1_000_000)
#: Pairs or lines of a text: the largest corpora are smaller.
PAIRS = Limits(1, 1_000_000_000)
VOCABULARY = Limits(30, 250_000)
#: Share of the characters that the pieces cover.
COVERAGE = Limits(0, 1, above=True)

#: Every hypothesis is a row of the batch.
BEAM = Limits(1, 1000)
DRAWS = Limits(1, 10_000)
#: A float cannot hold a length to a higher power.
LENGTH_PENALTY = Limits(0, 10)
MAX_RATIO = Limits(0, 100)
MAX_OFFSET = Limits(0, 10_000)
#: A float cannot hold logits divided by less.
TEMPERATURE = Limits(0.001, 1000)

#: Noise as a share of the range of a sentence's vectors: at 10 nothing of the sentence is left.
SIGMA = Limits(0, 10)
#: Noisy copies; the error of their mean falls with the root of their number.
COPIES = Limits(1, 10_000)
#: Numbers of layers and heads; negative ones count from the last.
PLACE = Limits(-1000, 999)
ADAPTIVE = Limits(0, 0.5, above=True, below=True)
#: Sentences that a method is timed on, or sequences that an encoder reads.
SENTENCES = Limits(1, 1_000_000)
#: Pieces of a sentence that is chosen by its length.
LENGTH = Limits(1, 10_000)
#: No encoder has positions for more.
SEQUENCE_TOKENS = Limits(8, 100_000)
TRIPLES = Limits(1, 1_000_000_000)
#: How long a method is timed.
SECONDS = Limits(0, 1_000_000, above=True)
TFLOPS = Limits(0, 1_000_000, above=True)

LEVEL = Limits(0, 100, above=True, below=True)
#: The threshold above which the product of two shares is a link.
THRESHOLD = Limits(0, 1, below=True)
#: Every resampled test set is kept for every row of a table; fewer than ten make no interval.
RESAMPLES = Limits(10, 100_000)
#: Each is a figure on the page.
HEATMAPS = Limits(1, 50)
