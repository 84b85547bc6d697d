"""``alignlens subwords``: train BPE models and segment text with them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count, real
from alignlens.cli.paths import Outputs
from alignlens.errors import InputError
from alignlens.io.limits import COVERAGE, PAIRS, VOCABULARY
from alignlens.io.progress import Progress
from alignlens.io.text import read_parallel, stream_lines, words
from alignlens.subwords.settings import KINDS, BpeSettings

if TYPE_CHECKING:
    import argparse


OUTPUTS = {
    "train": Outputs(folders=("out",)),
    "segment": Outputs(files=("out", "out_words"), folders=("tokens",)),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the two verbs of this command."""
    parser.epilog = (
        "example:\n"
        "  alignlens subwords train --source train.de --target train.en --kind joint --vocab 8000 --out bpe\n"
        "  alignlens subwords segment --model bpe/source.model --input test.de --out test.pieces --tokens test.tokens"
    )
    verbs = parser.add_subparsers(dest="action", required=True, metavar="train|segment")
    train = verbs.add_parser(
        "train",
        help="write source.model, target.model and subwords.json",
        description="Train one or two SentencePiece models: source.model, target.model and subwords.json.",
    )
    train.add_argument("--source", type=Path, required=True, metavar="FILE", help="tokenised text, plain or gzip")
    train.add_argument("--target", type=Path, required=True, metavar="FILE", help="its translation")
    train.add_argument("--kind", choices=KINDS, default=BpeSettings.kind, help="one model or two")
    train.add_argument(
        "--vocab", type=count(VOCABULARY), required=True, metavar="N", help="pieces per model, special ones included"
    )
    train.add_argument(
        "--no-dummy-prefix", action="store_true", help="put no word-start mark on the first piece of a line"
    )
    train.add_argument(
        "--coverage",
        type=real(COVERAGE),
        default=BpeSettings.coverage,
        metavar="SHARE",
        help="share of the characters that get a piece of their own (default 1)",
    )
    train.add_argument(
        "--limit", type=count(PAIRS), metavar="N", help="train on N evenly spaced lines of the text only"
    )
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the models")
    train.add_argument("--json", action="store_true", help="print settings and statistics as JSON")
    add_about(train)
    segment = verbs.add_parser("segment", help="split a file into pieces", description="Split a file into pieces.")
    segment.add_argument("--model", type=Path, required=True, metavar="FILE", help="SentencePiece model")
    segment.add_argument("--input", type=Path, required=True, metavar="FILE", help="tokenised text, plain or gzip")
    segment.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file for the pieces, one line per input line"
    )
    segment.add_argument("--out-words", type=Path, metavar="FILE", help="file for the word index of every piece")
    segment.add_argument("--tokens", type=Path, metavar="DIR", help="also write the ids, as a token store for models")
    add_about(segment)


def run(args: argparse.Namespace) -> None:
    """Runs one of the two verbs."""
    if args.action == "train":
        _train(args)
    else:
        _segment(args)


def _train(args: argparse.Namespace) -> None:
    from alignlens.subwords.sentencepiece_bpe import train_pair
    from alignlens.tracking.journal import Journal

    settings = BpeSettings(args.kind, args.vocab, not args.no_dummy_prefix, args.coverage, args.limit)
    about = about_of(args)
    params = {
        "kind": settings.kind,
        "vocab": settings.vocab,
        "dummy_prefix": settings.dummy_prefix,
        "coverage": settings.coverage,
        "limit": settings.limit if settings.limit is not None else "all",
    }
    with Journal(args.journal) as journal:
        job = journal.run(
            experiment="subwords",
            name=run_name(about.get("dataset"), f"bpe {settings.kind} {settings.vocab}"),
            identity=about,
            tags={key: str(value) for key, value in about.items()},
            params=params,
            group=about.get("dataset"),
        )
        source, target = read_parallel(args.source, args.target)
        description = train_pair(source, target, settings, args.out, (args.source, args.target))
        for side, counts in description["statistics"].items():
            job.metrics({f"{side}_{name}": value for name, value in counts.items()})
        job.artifact(args.out / "subwords.json", folder="config")
    if args.json:
        print(json.dumps(description, indent=2, sort_keys=True))
        return
    for side, counts in description["statistics"].items():
        print(
            f"{args.out / side}.model: {counts['vocabulary']:,} pieces; "
            f"{counts['pieces_per_word']:.2f} pieces per word of the training text"
        )


def _segment(args: argparse.Namespace) -> None:
    from alignlens.tracking.journal import Journal

    about = about_of(args)
    with Journal(args.journal) as journal:
        job = journal.run(
            experiment="subwords",
            name=_segment_name(about),
            identity={"step": "segment", **about},
            tags={key: str(value) for key, value in about.items()},
            group=about.get("dataset"),
        )
        job.metrics(_write_pieces(args))
        if args.tokens:
            job.artifact(args.tokens / "store.json", folder="config")


def _segment_name(about: dict[str, Any]) -> str:
    """Returns the name of the run: dataset, model where it has subwords of its own, and text."""
    owner, text = (about.get(key) for key in ("dataset", "direction", "model")), (about.get("split"), about.get("side"))
    return run_name(*owner, "segment", *text)


def _write_pieces(args: argparse.Namespace) -> dict[str, int]:
    """Writes the pieces of every line; returns how many lines, words and pieces there are."""
    from alignlens.subwords.reading import read_segmenter
    from alignlens.subwords.stores import PieceWriter, opened

    segmenter = read_segmenter(args.model)
    # Only a file can be read twice: first to check it and count its lines, before the long work.
    total = sum(1 for _ in stream_lines(args.input)) if args.input.is_file() else None
    counts = {"lines": 0, "words": 0, "pieces": 0}
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("segment", total, "lines"))
        writer = stack.enter_context(PieceWriter(segmenter, args.out, args.tokens))
        spans = opened(stack, args.out_words) if args.out_words else None
        for number, line in enumerate(stream_lines(args.input), start=1):
            segmented = segmenter.segment(line)
            writer.add(segmented.ids, line, f"{args.input}:{number}")
            counts["lines"] += 1
            counts["words"] += len(words(line))
            counts["pieces"] += len(segmented.pieces)
            if spans:
                spans.write(" ".join(map(str, segmented.word_of_piece)) + "\n")
            progress.advance()
        if not counts["lines"]:
            raise InputError("the file is empty.", args.input, advice="Expected one sentence per line.")
    return counts
