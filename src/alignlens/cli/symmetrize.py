"""``alignlens symmetrize``: two directions into one alignment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.alignment.pharaoh import format_lines, read_links, write_links
from alignlens.alignment.symmetrize import METHODS, symmetrize
from alignlens.cli.about import about_of, add_about, run_name
from alignlens.errors import ConfigError
from alignlens.io.text import check_equal_counts
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--forward", required=True, help="links of the source-target model (i-j, i = source)")
    parser.add_argument("--reverse", required=True, help="links of the target-source model, also as source-target")
    parser.add_argument("--flip-reverse", action="store_true", help="the reverse file is target-source: turn it round")
    parser.add_argument("--method", required=True, nargs="+", choices=METHODS, metavar="M", help=", ".join(METHODS))
    parser.add_argument("--out", type=Path, help="file for the links of one method (default: standard output)")
    parser.add_argument("--out-dir", type=Path, help="folder for <method>.pharaoh of every method")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens symmetrize --forward de-en.pharaoh --reverse en-de.pharaoh --method grow-diag-final-and"
        "\n\nnames ending in -lilt demand both words free (see docs/conventions.md)"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the combination of two links files by one or several methods."""
    if len(args.method) > 1 and args.out_dir is None:
        raise ConfigError("several methods need --out-dir")
    if args.out is not None and args.out_dir is not None:
        raise ConfigError("--out and --out-dir exclude each other")
    about = about_of(args)
    with Journal(args.journal) as journal:
        forward, reverse = read_links(args.forward), read_links(args.reverse)
        check_equal_counts([args.forward, args.reverse], [len(forward), len(reverse)])
        if args.flip_reverse:
            reverse = reverse.transposed()
        record = journal.run(
            experiment="symmetrize",
            name=run_name(about.get("dataset"), " ".join(filter(None, (about.get("aligner"), about.get("text"))))),
            identity=about,
            tags={key: str(value) for key, value in about.items()},
            params={"methods": " ".join(args.method)},
            group=about.get("dataset"),
        )
        for method in args.method:
            links = symmetrize(forward, reverse, method)
            record.metric(f"links_{method}", links.keys.size)
            if args.out_dir is not None:
                write_links(args.out_dir / f"{method}.pharaoh", links)
            elif args.out is not None:
                write_links(args.out, links)
            else:
                sys.stdout.writelines(f"{line}\n" for line in format_lines(links))
