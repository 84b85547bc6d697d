"""``alignlens aligner``: train a word aligner, store it, align text with it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.aligners.registry import ALIGNERS, TEXTS
from alignlens.alignment.pharaoh import format_lines, write_links
from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.errors import ConfigError
from alignlens.io.limits import PAIRS
from alignlens.io.text import read_parallel, words
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    Text = tuple[list[list[str]], list[list[str]]]

OUTPUTS = Outputs(files=("out",), folders=("model",), words=("text",))
# A job this long is worth watching in MLflow while it runs; a shorter one would end before the store is open.
_LIVE_FROM_PAIRS = 50_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("name", choices=ALIGNERS, metavar="NAME", help=", ".join(ALIGNERS))
    parser.add_argument("--train-source", help="training text, one tokenised sentence per line, plain or gzip")
    parser.add_argument("--train-target", help="its translation")
    parser.add_argument("--source", help="text to align")
    parser.add_argument("--target", help="its translation")
    parser.add_argument("--out", help="file for the links (default: standard output)")
    parser.add_argument(
        "--text",
        choices=TEXTS,
        default="offline",
        help="whether to train on the text to align too (offline, the default) or not (online)",
    )
    parser.add_argument(
        "--model", type=Path, help="store the trained model here; without training text, load it from here"
    )
    parser.add_argument("--parent", type=Path, help="stored model to start from (hmm starts from ibm1, ibm4 from hmm)")
    parser.add_argument("--reverse", action="store_true", help="align from target to source; links stay source-target")
    parser.add_argument("--max-pairs", type=count(PAIRS), metavar="N", help="train on the first N training pairs only")
    parser.add_argument("--seed", type=seed, default=1, help="seed of eflomal's sampler (default 1)")
    parser.add_argument("--json", action="store_true", help="print a summary as one JSON object (needs --out)")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens aligner eflomal --train-source big.de --train-target big.en \\\n"
        "      --source test.de --target test.en --out test.pharaoh"
    )


def run(args: argparse.Namespace) -> None:
    """Trains unless only a stored model is given, then aligns if there is text to align."""
    _check(args)
    about = about_of(args)
    to_align = _read(args.source, args.target, args.reverse) if args.source else None
    training_text = _training_text(args, to_align)
    live = len(training_text[0]) >= _LIVE_FROM_PAIRS if training_text else False
    result: dict[str, Any] = {"aligner": args.name, "reverse": args.reverse}
    with Journal(args.journal, os.environ.get("MLFLOW_TRACKING_URI") if live else None) as journal:
        record = journal.run(
            experiment="align" if to_align and not training_text else "train aligners",
            # With a model its own translation is aligned, by either direction of the aligner.
            name=run_name(
                about.get("dataset"),
                about.get("direction"),
                about.get("model"),
                f"s{about['seed']}" if "seed" in about else None,
                args.name,
                args.text,
                about.get("links"),
            ),
            identity={"aligner": args.name, "text": args.text, **about},
            tags={"aligner": args.name, "text": args.text, **{key: str(value) for key, value in about.items()}},
            params={"aligner": args.name, "text": args.text, "seed": args.seed, "max_pairs": args.max_pairs or "all"},
            group=run_name(about.get("dataset"), args.name) if about.get("dataset") else None,
        )
        from alignlens.aligners.thot_models import align_stored, train_apart

        with tempfile.TemporaryDirectory(prefix="alignlens-") as scratch:
            model = args.model or Path(scratch) / "model"
            if training_text:
                training = train_apart(
                    args.name,
                    *training_text,
                    model,
                    args.parent,
                    args.seed,
                    watch=lambda stage, step, seconds: record.metric(f"{stage}_iteration_seconds", seconds, step),
                )
                result["training"] = {"pairs": training.pairs, "library": training.library}
                record.metrics(
                    {
                        "train_pairs": training.pairs,
                        "skipped_empty": training.skipped_empty,
                        "skipped_too_long": training.skipped_too_long,
                    }
                )
            if to_align:
                links = align_stored(model, args.name, *to_align, name=args.source)
                if args.reverse:
                    links = links.transposed()
                result |= {"sentences": len(links), "links": int(links.keys.size)}
                record.metrics({"sentences": len(links), "links_count": links.keys.size})
                if args.out:
                    write_links(args.out, links)
                    record.artifact(args.out, folder="links")
                else:
                    sys.stdout.writelines(f"{line}\n" for line in format_lines(links))
    if args.json:
        print(json.dumps(result))


def _check(args: argparse.Namespace) -> None:
    for left, right in (("train_source", "train_target"), ("source", "target")):
        if (getattr(args, left) is None) != (getattr(args, right) is None):
            raise ConfigError(f"--{left.replace('_', '-')} and --{right.replace('_', '-')} go together")
    if args.source is None and args.train_source is None:
        raise ConfigError("nothing to do: give --source and --target, or --train-source and --train-target")
    if args.source is None and args.model is None:
        raise ConfigError("training without --source and --target needs --model to keep the result")
    if args.json and args.source and not args.out:
        raise ConfigError("--json needs --out: otherwise the links would go to standard output, too")
    if args.max_pairs is not None and args.max_pairs < 1:
        raise ConfigError(f"--max-pairs {args.max_pairs}: must be at least 1")


def _read(source: str, target: str, reverse: bool) -> Text:
    """Returns both sides as words, exchanged for the reverse direction."""
    left, right = ([words(line) for line in lines] for lines in read_parallel(source, target))
    return (right, left) if reverse else (left, right)


def _training_text(args: argparse.Namespace, to_align: Text | None) -> Text | None:
    """Returns what to train on, or None to use the stored model as it is."""
    if args.train_source is None:
        if args.model is not None and args.model.exists():
            return None
        if args.text == "online":
            raise ConfigError("online needs --train-source and --train-target, or a stored --model")
        return to_align
    source, target = _read(args.train_source, args.train_target, args.reverse)
    source, target = source[: args.max_pairs], target[: args.max_pairs]
    if args.text == "offline" and to_align:
        source, target = source + to_align[0], target + to_align[1]
    return source, target
