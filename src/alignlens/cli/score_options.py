"""Options of the verbs that score links: gold links, the interval, and what is counted sentence by sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.alignment.bases import warning_of
from alignlens.alignment.gold import FORMATS, read_gold_and_base
from alignlens.cli.failures import one_line
from alignlens.cli.numbers import count, real, seed
from alignlens.errors import ConfigError
from alignlens.io.limits import LEVEL, RESAMPLES
from alignlens.metrics.settings import IntervalSettings

if TYPE_CHECKING:
    import argparse

    from alignlens.alignment.bases import Base
    from alignlens.alignment.gold import Gold
    from alignlens.alignment.written import Lengths


def add_gold(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Adds the options of gold links."""
    parser.add_argument("--gold", required=required, help="gold links: i-j sure, ipj or i?j possible")
    parser.add_argument(
        "--base", type=int, choices=(0, 1), help="gold counts words from 0 or 1 (default: found out, and told)"
    )
    parser.add_argument("--format", choices=FORMATS, default="pharaoh", help="format of the gold file")


def gold_of(verb: str, args: argparse.Namespace, lengths: Lengths | None) -> tuple[Gold, Base]:
    """Returns the gold links that the options name, and from where they count words; tells if that is a guess."""
    gold, base = read_gold_and_base(args.gold, args.base, args.format, lengths)
    if not base.known:
        warn(verb, warning_of(args.gold, base, "--base"))
    return gold, base


def warn(verb: str, text: str) -> None:
    """Prints a warning of a verb."""
    print(one_line(f"alignlens {verb}: warning: {text}"), file=sys.stderr)


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
