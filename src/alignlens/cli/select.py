"""``alignlens select``: some pairs of a text, of one length, at random, or with partners exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.corpora.selection import COMMON, Selection
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import write_lines
from alignlens.io.limits import LENGTH, PAIRS
from alignlens.io.text import check_equal_counts, read_parallel, words
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

OUTPUTS = Outputs(files=("out_source", "out_target"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--source", required=True, metavar="FILE", help="tokenised text, plain or gzip")
    parser.add_argument("--target", required=True, metavar="FILE", help="its translation")
    parser.add_argument("--source-pieces", metavar="FILE", help="the same text in pieces, to choose by length")
    parser.add_argument("--target-pieces", metavar="FILE", help="the translation in pieces")
    parser.add_argument(
        "--source-length", type=count(LENGTH), metavar="N", help="number of pieces of a source sentence"
    )
    parser.add_argument(
        "--target-length", type=count(LENGTH), metavar="N", help="number of pieces of a target sentence"
    )
    parser.add_argument("--common-length", action="store_true", help="use the pair of lengths that occurs most often")
    parser.add_argument("--skip", type=count(PAIRS), default=0, metavar="N", help="leave out the first N pairs")
    parser.add_argument(
        "--pairs", type=count(PAIRS), metavar="N", help="choose at most N pairs at random (default: all)"
    )
    parser.add_argument("--exchange", action="store_true", help="give every source sentence the target of another pair")
    parser.add_argument("--seed", type=seed, default=1, help="seed of the random choice (default 1)")
    parser.add_argument(
        "--out-source", type=Path, required=True, metavar="FILE", help="file for the chosen source sentences"
    )
    parser.add_argument("--out-target", type=Path, required=True, metavar="FILE", help="their targets")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens select --source test.de --target test.en --pairs 100 --exchange \\\n"
        "      --out-source some.de --out-target others.en"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the chosen pairs in the order of the text."""
    import numpy as np

    about, selection = about_of(args), _selection(args)
    with Journal(args.journal) as journal:
        source, target = read_parallel(args.source, args.target)
        lengths = np.zeros((len(source), 2), np.int64)
        if selection.lengths is not None:
            pieces = read_parallel(args.source_pieces, args.target_pieces)
            check_equal_counts([args.source, args.source_pieces], [len(source), len(pieces[0])])
            lengths = np.array([[len(words(line)) for line in side] for side in pieces], np.int64).T
        try:
            read, written = selection.places(lengths)
        except ConfigError as error:
            raise InputError(str(error), args.source) from None
        write_lines(args.out_source, [source[place] for place in read])
        write_lines(args.out_target, [target[place] for place in written])
        record = journal.run(
            experiment="select",
            name=run_name(about.get("dataset"), about.get("selection")),
            identity=about,
            tags={key: str(value) for key, value in about.items()},
            params={"lengths": str(selection.lengths), "exchanged": selection.exchanged, "seed": selection.seed},
            group=about.get("dataset"),
        )
        record.metrics({"pairs": len(read)})


def _selection(args: argparse.Namespace) -> Selection:
    given = (args.source_length, args.target_length)
    if (given[0] is None) != (given[1] is None):
        raise ConfigError("--source-length and --target-length: give both or none")
    if args.common_length and given != (None, None):
        raise ConfigError("--common-length excludes --source-length and --target-length")
    lengths: tuple[int, int] | str | None = COMMON if args.common_length else None if given[0] is None else given
    if lengths is not None and not (args.source_pieces and args.target_pieces):
        raise ConfigError("--source-pieces and --target-pieces are needed to choose by length")
    return Selection(lengths, args.pairs, args.exchange, args.seed, args.skip)
