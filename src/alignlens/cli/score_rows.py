"""What the verbs that score links share: the options of the interval, and one row per links file."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.numbers import count, real, seed
from alignlens.errors import ConfigError
from alignlens.io.limits import LEVEL, RESAMPLES
from alignlens.metrics.bootstrap import aer_intervals
from alignlens.metrics.settings import IntervalSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from alignlens.alignment.gold import Gold
    from alignlens.metrics.aer import Counts
    from alignlens.metrics.causes import CauseCounts


def add_interval(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bootstrap interval."""
    usual = IntervalSettings()
    told = f"level of the interval in percent (default {usual.level:g})"
    parser.add_argument("--level", type=real(LEVEL), default=usual.level, help=told)
    told = f"bootstrap samples (default {usual.samples})"
    parser.add_argument("--samples", type=count(RESAMPLES), default=usual.samples, help=told)
    parser.add_argument("--seed", type=seed, default=usual.seed, help=f"bootstrap seed (default {usual.seed})")


def add_sentences(parser: argparse.ArgumentParser) -> None:
    """Adds the option for what is compared in pairs later."""
    told = "write the counts of every row and sentence pair, for paired comparisons (.npz)"
    parser.add_argument("--sentences", type=Path, metavar="FILE", help=told)


def interval_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns level, samples and seed of the interval, after checking them."""
    if not 0 < args.level < 100 or args.samples < 10:
        raise ConfigError("--level must be between 0 and 100, --samples at least 10")
    return {"level": args.level, "samples": args.samples, "seed": args.seed}


def score_rows(systems: Sequence[Counts], gold: Gold, interval: dict[str, Any]) -> list[dict[str, Any]]:
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


def cause_columns(counts: CauseCounts | None, interval: dict[str, Any]) -> dict[str, Any]:
    """Returns what a row says about causes: percentages, interval and words; all null where nothing is known."""
    if counts is None:
        return dict.fromkeys(("cause_hits", "cause_low", "cause_high", "cause_chance", "cause_words"))
    scores, (low, high) = counts.scores(), counts.interval(**interval)
    values = {"cause_hits": scores.hits, "cause_low": low, "cause_high": high, "cause_chance": scores.chance}
    shown = {key: None if math.isnan(value) else round(value, 4) for key, value in values.items()}
    return {**shown, "cause_words": scores.words}
