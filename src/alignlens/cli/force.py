"""``alignlens force``: how probable given translations are to a trained model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import add_compute, add_model, add_texts, check_compute, load
from alignlens.io.atomic import write_json, write_lines
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.decoding.forced import Forced
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel


OUTPUTS = Outputs(files=("out", "per_sentence"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_texts(parser, "which is scored")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON to this file")
    parser.add_argument("--per-sentence", type=Path, metavar="TSV", help="write the scores of every sentence")
    add_compute(parser)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens force --model model --source test.de --target test.en --per-sentence scores.tsv\n\n"
        "Tokens are pieces and the end symbol; the loss is in nats per token, without label smoothing."
    )


def run(args: argparse.Namespace) -> None:
    """Scores every pair, and prints, writes and records the result."""
    check_compute(args)
    about = about_of(args)
    from alignlens.decoding.given import open_pair

    source, target = open_pair(args.source, args.target)
    with Journal(args.journal) as journal:
        record = journal.run(**model_run(about, "force"), params={"weights": args.weights})
        trained = load(args)
        forced = _forced(trained, source, target, args)
        result: dict[str, Any] = forced.summary()
        if args.per_sentence:
            _write_sentences(args.per_sentence, forced)
            record.artifact(args.per_sentence, folder="forced")
        if args.out:
            write_json(args.out, {**about, "weights": args.weights, **result})
            record.artifact(args.out, folder="forced")
        record.metrics(result)
    if args.json:
        print(json.dumps({**about, "weights": args.weights, **result}))
    elif not args.out:
        print(
            f"token accuracy {result['accuracy']:.4f}  loss {result['loss']:.4f}  "
            f"perplexity {result['perplexity']:.3f}  ({result['tokens']} tokens of {result['sentences']} sentences)"
        )


def _forced(trained: TrainedModel, source: Given, target: Given, args: argparse.Namespace) -> Forced:
    from alignlens.decoding.forced import force_all

    sources, targets = trained.source_ids(source), trained.target_ids(target)
    with Progress("force", len(sources)) as progress:
        return force_all(
            trained.model,
            sources,
            targets,
            vocabulary=trained.spec.target_vocab,
            tokens=args.batch_tokens,
            source_begin=trained.spec.source_begin,
            advance=progress.advance,
        )


def _write_sentences(path: Path, forced: Forced) -> None:
    lines = ["sentence\ttokens\tcorrect\tlog_prob\tperplexity"]
    for number, (log_probs, correct) in enumerate(zip(forced.log_probs, forced.correct, strict=True)):
        total = float(log_probs.sum(dtype="float64"))
        perplexity = math.exp(min(-total / len(log_probs), 700.0))
        lines.append(f"{number}\t{len(log_probs)}\t{int(correct.sum())}\t{total:.6f}\t{perplexity:.6g}")
    write_lines(path, lines)
