"""Options of the verbs whose work can be divided among machines: ``--shard K/N``, and ``--gather`` for the parts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    import argparse

_SHARD = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


def add_shards(parser: argparse.ArgumentParser, part: str, metavar: str) -> argparse._ArgumentGroup:
    """Adds --shard and --gather and returns their group; ``part`` names the output of a part."""
    group = parser.add_argument_group(
        "in parts, for several machines; put together, they equal the output of one run byte for byte"
    )
    group.add_argument("--shard", default="1/1", metavar="K/N", help="only part K of N, counted from 1")
    group.add_argument("--gather", nargs="+", type=Path, metavar=metavar, help=f"put the {part} of all parts together")
    return group


def shard_of(text: str) -> tuple[int, int]:
    """Returns the part, counted from zero, and the number of parts."""
    match = _SHARD.fullmatch(text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"--shard {text}: not K/N with K from 1 to N, e.g. 2/4")
    return int(match[1]) - 1, int(match[2])


def check_gathering(args: argparse.Namespace, work: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raises unless the options of the work itself are given for a part, and left out for gathering."""
    given = [f"--{name}" for name in (*work, *optional) if getattr(args, name) is not None]
    if args.gather and given:
        raise ConfigError(f"--gather only puts parts together; leave out {' '.join(given)}")
    missing = [f"--{name}" for name in work if f"--{name}" not in given]
    if not args.gather and missing:
        raise ConfigError(f"{', '.join(missing)} missing (only --gather works without)")
