"""Verbs with several actions (``alignlens track sync``): a parser for each, with its text and an example."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Descriptions are shown as they are, since examples follow, so lines are broken here.
_WIDTH = 100


def add_actions(
    parser: argparse.ArgumentParser, actions: Mapping[str, tuple[str, str]]
) -> dict[str, argparse.ArgumentParser]:
    """Adds actions, each with its description and an example, and returns their parsers by name."""
    group = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    return {
        name: group.add_parser(
            name,
            help=text.partition(".")[0].partition(";")[0],
            description=textwrap.fill(text, _WIDTH),
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, (text, example) in actions.items()
    }
