"""Options of the verbs that read gold links."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from alignlens.alignment.bases import warning_of
from alignlens.alignment.gold import FORMATS, read_gold_and_base
from alignlens.cli.failures import one_line

if TYPE_CHECKING:
    import argparse

    from alignlens.alignment.bases import Base
    from alignlens.alignment.gold import Gold
    from alignlens.alignment.written import Lengths


def add_gold(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Adds the options of gold links."""
    parser.add_argument("--gold", required=required, help="gold links: i-j sure, ipj or i?j possible")
    parser.add_argument(
        "--base",
        type=int,
        choices=(0, 1),
        help="gold counts words from 0 or 1 (default: read off the links, and printed)",
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
