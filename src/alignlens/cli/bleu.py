"""``alignlens bleu``: corpus BLEU of translations, with its signature."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from alignlens.io.text import read_parallel
from alignlens.metrics.bleu import corpus_bleu

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--hypothesis", required=True, help="translations, one per line")
    parser.add_argument("--reference", required=True, help="reference translations")
    parser.add_argument("--tokenize", default="13a", choices=("13a", "none", "intl", "char", "zh"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.epilog = "example:\n  alignlens bleu --hypothesis out.en --reference test.en"


def run(args: argparse.Namespace) -> None:
    """Prints BLEU and the sacreBLEU signature."""
    hypotheses, references = read_parallel(args.hypothesis, args.reference)
    result = corpus_bleu(hypotheses, references, args.tokenize)
    print(json.dumps(asdict(result)) if args.json else f"BLEU {result.bleu:.2f}  {result.signature}")
