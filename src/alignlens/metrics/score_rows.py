"""One row of a table per system: error rates with their interval, counts, and how often true causes were found."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from alignlens.metrics.bootstrap import aer_intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.alignment.gold import Gold
    from alignlens.metrics.aer import Counts
    from alignlens.metrics.causes import CauseCounts


def score_rows(systems: Sequence[Counts], gold: Gold, interval: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns one row per system on the same gold: percentages (null where undefined), counts, interval of the AER."""
    rows = []
    for counts, limits in zip(systems, aer_intervals(systems, **interval), strict=True):
        values = {**asdict(counts.scores()), "aer_low": limits.low, "aer_high": limits.high}
        rows.append(
            {
                **{key: None if math.isnan(value) else round(value, 4) for key, value in values.items()},
                "links_count": int(counts.per_sentence[:, 2].sum()),
                "sure_hits": int(counts.per_sentence[:, 0].sum()),
                "possible_hits": int(counts.per_sentence[:, 1].sum()),
                "sure": int(gold.sure.keys.size),
                "possible": int(gold.possible.keys.size),
            }
        )
    return rows


def cause_columns(counts: CauseCounts | None, interval: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a row says about causes: percentages, interval and words; all null where causes are unknown."""
    if counts is None:
        return dict.fromkeys(("cause_hits", "cause_low", "cause_high", "cause_chance", "cause_words"))
    scores, (low, high) = counts.scores(), counts.interval(**interval)
    values = {"cause_hits": scores.hits, "cause_low": low, "cause_high": high, "cause_chance": scores.chance}
    shown = {key: None if math.isnan(value) else round(value, 4) for key, value in values.items()}
    return {**shown, "cause_words": scores.words}
