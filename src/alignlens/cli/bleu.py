"""``alignlens bleu``: corpus BLEU of translations, with its signature and interval."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from alignlens.cli.about import about_of, add_about
from alignlens.cli.model_run import model_run
from alignlens.cli.numbers import count, real, seed
from alignlens.cli.paths import Outputs
from alignlens.decoding.settings import Tokenizer
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_json
from alignlens.io.limits import LEVEL, RESAMPLES
from alignlens.io.text import read_parallel
from alignlens.metrics.bleu import bleu_interval, corpus_bleu
from alignlens.metrics.settings import IntervalSettings
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse


OUTPUTS = Outputs(files=("out",))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--hypothesis", required=True, metavar="FILE", help="translations, one per line")
    parser.add_argument("--reference", required=True, metavar="FILE", help="reference translations")
    parser.add_argument(
        "--tokenize",
        default="13a",
        choices=get_args(Tokenizer),
        help="13a (default) for text as people write it, none for text that is tokenised",
    )
    usual = IntervalSettings()
    told = f"level of the interval in percent (default {usual.level:g})"
    parser.add_argument("--level", type=real(LEVEL), default=usual.level, help=told)
    parser.add_argument(
        "--samples",
        type=count(RESAMPLES._replace(least=0)),
        default=usual.samples,
        help=f"bootstrap samples (default {usual.samples}); 0 for no interval",
    )
    parser.add_argument("--seed", type=seed, default=usual.seed, help=f"bootstrap seed (default {usual.seed})")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_about(parser)
    parser.epilog = "example:\n  alignlens bleu --hypothesis out.en --reference test.en"


def run(args: argparse.Namespace) -> None:
    """Prints, writes and records BLEU with its interval and the sacreBLEU signature."""
    if not 0 < args.level < 100 or args.samples < 0 or args.seed < 0:
        raise ConfigError("--level must be between 0 and 100, --samples and --seed at least 0")
    about = about_of(args)
    hypotheses, references = read_parallel(args.hypothesis, args.reference)
    with Journal(args.journal) as journal:
        result = corpus_bleu(hypotheses, references, args.tokenize)
        content: dict[str, Any] = {**asdict(result), "sentences": len(references)}
        if args.samples:
            interval = bleu_interval(hypotheses, references, args.tokenize, args.level, args.samples, args.seed)
            content["interval"] = asdict(interval)
        if args.out:
            write_json(args.out, {**about, **content})
        record = journal.run(
            **model_run(about, "bleu"), params={"tokenize": args.tokenize, "signature": result.signature}
        )
        record.metrics(_numbers(content))
        record.artifact(args.hypothesis, folder="translations")
    if args.json:
        print(json.dumps({**about, **content}))
    elif not args.out:
        limits = f" [{content['interval']['low']:.2f}, {content['interval']['high']:.2f}]" if args.samples else ""
        print(f"BLEU {result.bleu:.2f}{limits}  {result.signature}")


def _numbers(content: dict[str, Any]) -> dict[str, float]:
    """Returns what of a result can be drawn in a chart."""
    numbers = {key: content[key] for key in ("bleu", "brevity_penalty", "sentences")}
    numbers["length_ratio"] = content["hypothesis_words"] / max(content["reference_words"], 1)
    if "interval" in content:
        numbers |= {"bleu_low": content["interval"]["low"], "bleu_high": content["interval"]["high"]}
    return numbers
