"""Options of the verbs that score links: the interval, and the counts by sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.numbers import count, real, seed
from alignlens.errors import ConfigError
from alignlens.io.limits import LEVEL, RESAMPLES
from alignlens.metrics.settings import IntervalSettings

if TYPE_CHECKING:
    import argparse


def add_interval(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bootstrap interval."""
    usual = IntervalSettings()
    text = f"level of the interval in percent (default {usual.level:g})"
    parser.add_argument("--level", type=real(LEVEL), default=usual.level, help=text)
    text = f"bootstrap samples (default {usual.samples})"
    parser.add_argument("--samples", type=count(RESAMPLES), default=usual.samples, help=text)
    parser.add_argument("--seed", type=seed, default=usual.seed, help=f"bootstrap seed (default {usual.seed})")


def add_sentences(parser: argparse.ArgumentParser) -> None:
    """Adds the option for counts by sentence, for paired comparisons."""
    text = "write the counts of every row and sentence pair, for paired comparisons (.npz)"
    parser.add_argument("--sentences", type=Path, metavar="FILE", help=text)


def interval_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns level, samples and seed of the interval, after checking them."""
    if not 0 < args.level < 100 or args.samples < 10:
        raise ConfigError("--level must be between 0 and 100, --samples at least 10")
    return {"level": args.level, "samples": args.samples, "seed": args.seed}
