"""``alignlens translate``: text through a trained model, by beam search or by sampling."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.about import about_of, add_about
from alignlens.cli.model_run import model_run
from alignlens.cli.numbers import count, real, seed
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import add_compute, add_model, add_source, check_compute, load
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_lines
from alignlens.io.limits import BEAM, DRAWS, LENGTH_PENALTY, MAX_OFFSET, MAX_RATIO, TEMPERATURE
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.hypothesis import Hypothesis
    from alignlens.decoding.settings import DecodingSettings
    from alignlens.decoding.translate import TrainedModel

OUTPUTS = Outputs(files=("out", "pieces"), folders=("tokens",))
_STANDARD = "-"
_STANDARD_INPUT = "/dev/stdin"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    beam = BeamSettings()
    add_model(parser)
    add_source(parser, more="; - for stdin")
    parser.add_argument("--out", default=_STANDARD, metavar="FILE", help="translations, line by line (default: stdout)")
    parser.add_argument("--pieces", type=Path, metavar="FILE", help="also write the generated pieces, line by line")
    parser.add_argument(
        "--tokens", type=Path, metavar="DIR", help="also write their ids, as a token store for alignlens attribute"
    )
    search = parser.add_argument_group("beam search")
    search.add_argument(
        "--beam", type=count(BEAM), default=beam.beam, metavar="N", help=f"default {beam.beam}; 1 is greedy"
    )
    search.add_argument(
        "--length-penalty",
        type=real(LENGTH_PENALTY),
        default=beam.length_penalty,
        metavar="A",
        help=f"compare log P / length^A, the end symbol counted (default {beam.length_penalty:g})",
    )
    search.add_argument("--n-best", type=count(BEAM), default=1, metavar="N", help="write N translations of each line")
    draw = parser.add_argument_group("sampling instead of beam search")
    draw.add_argument(
        "--samples", type=count(DRAWS), metavar="N", help="draw N translations of each line from the model"
    )
    draw.add_argument(
        "--temperature", type=real(TEMPERATURE), default=1.0, metavar="T", help="below 1: sharper (default 1)"
    )
    draw.add_argument("--seed", type=seed, default=1, metavar="N", help="default 1")
    both = parser.add_argument_group("both")
    both.add_argument(
        "--max-ratio",
        type=real(MAX_RATIO),
        default=beam.max_ratio,
        metavar="R",
        help=f"at most R * source + offset pieces (default {beam.max_ratio:g})",
    )
    both.add_argument(
        "--max-offset",
        type=count(MAX_OFFSET),
        default=beam.max_offset,
        metavar="N",
        help=f"the offset (default {beam.max_offset})",
    )
    both.add_argument("--scores", action="store_true", help="put score and log probability before each translation")
    add_compute(parser)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens translate --model results/demo/models/demo/xa-xb/transformer/1/model --source text\n\n"
        "An empty line gives an empty line. Columns are separated by tabs. With several translations of a line, each\n"
        "stands on a line of its own, after the number of its source line, counted from 0.\n\n"
        "A model may spell a word with other pieces than its subword model would. --tokens has the pieces it wrote:\n"
        "alignlens attribute --target DIR explains them, and alignlens extract reads --pieces."
    )


def run(args: argparse.Namespace) -> None:
    """Translates a file, and prints a summary."""
    check_compute(args)
    settings = _settings(args)
    if args.json and args.out == _STANDARD:
        raise ConfigError("--json needs --out: otherwise the translations would go to standard output, too")
    about = about_of(args)
    name = _STANDARD_INPUT if args.source == _STANDARD else args.source
    from alignlens.decoding.given import Given

    given = Given.open(name)
    with Journal(args.journal) as journal:
        record = journal.run(**model_run(about, "translate"), params={"weights": args.weights, **vars(settings)})
        trained = load(args)
        from alignlens.decoding.translate import decode

        sources = trained.source_ids(given)
        started = time.monotonic()
        with Progress("translate", len(sources)) as progress:
            translations = decode(
                trained.model,
                sources,
                settings,
                tokens=args.batch_tokens,
                source_begin=trained.spec.source_begin,
                advance=progress.advance,
            )
        result = _measures(sources, translations, time.monotonic() - started)
        _write(args, trained, translations)
        if args.out != _STANDARD:
            record.artifact(args.out, folder="translations")
        record.metrics(result)
    if result["empty_lines"]:
        _note(f"{name}: empty lines, left empty in the translation: {result['empty_lines']}")
    if result["cut_at_limit"]:
        _note(f"translations at the length limit, possibly cut off: {result['cut_at_limit']}")
    if args.json:
        print(json.dumps(result))


def _note(text: str) -> None:
    print(f"alignlens translate: note: {text}", file=sys.stderr)


def _settings(args: argparse.Namespace) -> DecodingSettings:
    limits = {"max_ratio": args.max_ratio, "max_offset": args.max_offset}
    if args.samples is None:
        return BeamSettings(args.beam, args.length_penalty, n_best=args.n_best, **limits)
    if args.n_best != 1:
        raise ConfigError("--n-best belongs to beam search; --samples says how many translations are drawn")
    return SamplingSettings(args.samples, args.temperature, args.seed, **limits)


def _measures(sources: TokenStore, translations: list[list[Hypothesis]], seconds: float) -> dict[str, float]:
    """Returns the summary; the mean score is that of the first translation of each line."""
    everything = [hypothesis for hypotheses in translations for hypothesis in hypotheses]
    first = [hypotheses[0] for number, hypotheses in enumerate(translations) if len(sources[number])]
    pieces_found = sum(len(hypothesis.ids) for hypothesis in first)
    return {
        "sentences": len(sources),
        "translations": len(everything),
        "empty_lines": len(sources) - len(first),
        "cut_at_limit": sum(not hypothesis.finished for hypothesis in everything),
        "source_pieces": sources.tokens,
        "target_pieces": pieces_found,
        "mean_score": sum(hypothesis.score for hypothesis in first) / max(len(first), 1),
        "decoding_seconds": seconds,
        "sentences_per_second": len(sources) / max(seconds, 1e-9),
        "target_pieces_per_second": pieces_found / max(seconds, 1e-9),
    }


def _write(args: argparse.Namespace, trained: TrainedModel, translations: list[list[Hypothesis]]) -> None:
    """Writes the translations, and the pieces that they were generated as, in the same order."""
    from alignlens.subwords.stores import PieceWriter

    with PieceWriter(trained.target, args.pieces, args.tokens) as writer:
        everything = (hypothesis for hypotheses in translations for hypothesis in hypotheses)
        for number, hypothesis in enumerate(everything, start=1):
            writer.add(hypothesis.ids, trained.text(hypothesis.ids), f"translation {number}")
        lines = _lines(trained, translations, args.scores)
        if args.out == _STANDARD:
            sys.stdout.writelines(f"{line}\n" for line in lines)
        else:
            write_lines(args.out, lines)


def _lines(trained: TrainedModel, translations: list[list[Hypothesis]], scores: bool) -> Iterator[str]:
    """Yields the lines of the output: the text, after scores if wanted, after its number if there are several."""
    several = any(len(hypotheses) > 1 for hypotheses in translations)
    for number, hypotheses in enumerate(translations):
        for hypothesis in hypotheses:
            columns = [trained.text(hypothesis.ids)]
            if scores:
                columns[:0] = [f"{hypothesis.score:.4f}", f"{hypothesis.log_prob:.4f}"]
            if several:
                columns.insert(0, str(number))
            yield "\t".join(columns)
