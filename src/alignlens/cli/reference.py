"""``alignlens reference``: links of two aligner directions into reference links for a model's own translations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.alignment.gold import Gold, write_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.cli.about import about_of, add_about
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.io.text import check_equal_counts
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse


OUTPUTS = Outputs(files=("out",))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--forward", required=True, metavar="FILE", help="links from the aligner source to translation")
    parser.add_argument(
        "--reverse", required=True, metavar="FILE", help="links from the other direction, also source-translation"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file for the gold links, counted from 0"
    )
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens reference --forward forward.pharaoh --reverse reverse.pharaoh --out reference.gold\n\n"
        "A model's own translations have no gold links. Links that both directions have are sure, all others possible."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the intersection as sure links and the rest of the union as possible ones."""
    about = about_of(args)
    with Journal(args.journal) as journal:
        forward, reverse = read_links(args.forward), read_links(args.reverse)
        check_equal_counts([args.forward, args.reverse], [len(forward), len(reverse)])
        gold = Gold(forward & reverse, forward | reverse)
        write_gold(args.out, gold)
        record = journal.run(**model_run(about, "reference"))
        record.metrics({"sentences": len(gold), "sure": gold.sure.keys.size, "possible": gold.possible.keys.size})
        record.artifact(args.out, folder="links")
