"""Whether the norm of a head tells how well it aligns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.rank_correlation import spearman
from alignlens.results.protocol import KOBAYASHI
from alignlens.studies.kobayashi2020.runs import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.studies.kobayashi2020.layers import Head

#: Of the released run (German-English), mean over its five seeds.
PRINTED = {"AWI": -0.44, "AWO": 0.56}


@dataclass(frozen=True)
class Correlation:
    """Rank correlation of error rate and mean norm over the heads of a model, mean over seeds."""

    dataset: str
    model: str
    direction: str
    step: str
    rho: float
    heads: int
    printed: float


def correlations(all_heads: Sequence[Head]) -> list[Correlation]:
    """Returns the correlations of all models, for links of norms by words."""
    by_norms = [head for head in all_heads if (head.setting.kind, head.setting.extraction) == ("norms", KOBAYASHI)]
    correlated = []
    for setting in dict.fromkeys(head.setting for head in by_norms):
        of_setting = [head for head in by_norms if head.setting == setting]
        seeds = list(dict.fromkeys(head.seed for head in of_setting))
        by_seed = [[head for head in of_setting if head.seed == seed] for seed in seeds]
        rhos = [
            spearman(np.array([head.aer for head in heads]), np.array([head.mean_norm for head in heads]))
            for heads in by_seed
        ]
        known = [rho for rho in rhos if not math.isnan(rho)]
        step = STEPS[setting.step]
        about = setting.dataset, setting.model, setting.direction, step
        correlated.append(Correlation(*about, fmean(known) if known else math.nan, len(by_seed[0]), PRINTED[step]))
    return correlated
