"""How results are measured; plain data."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.io.limits import LEVEL, RESAMPLES, SEED
from alignlens.io.typed import setting


@dataclass(frozen=True)
class IntervalSettings:
    """The bootstrap interval of a score of a test set."""

    level: float = setting(95, "Percent of resampled test sets inside the interval.", LEVEL)
    samples: int = setting(
        1000, "Resampled test sets.", RESAMPLES, "every resampled test set is kept in memory for every row"
    )
    seed: int = setting(1, "Seed of the resampling.", SEED, "random generators take no other seeds")
