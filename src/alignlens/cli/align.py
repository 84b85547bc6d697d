"""``alignlens align``: links for one's own text, from a trained translation model and any method."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from itertools import zip_longest
from typing import TYPE_CHECKING, TextIO

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.attribution.registry import METHODS, check_architectures, parse
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.attribute import add_adaptive, check_adaptive
from alignlens.cli.numbers import count, real
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import SHARED, add_compute, add_model, add_source, check_compute, load, workers
from alignlens.decoding.settings import BeamSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_path
from alignlens.io.limits import BEAM, LENGTH_PENALTY, MAX_OFFSET, MAX_RATIO
from alignlens.io.progress import Progress
from alignlens.io.text import check_equal_counts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel

OUTPUTS = Outputs(files=("out", "translation_out"))
_STANDARD = "-"
_STANDARD_INPUT = "/dev/stdin"
# Sentences in memory at once: enough for batches of like length, the same memory for any text.
_WINDOW = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    beam = BeamSettings()
    add_model(parser, required=False)
    parser.add_argument("--method", metavar="M", help="name or name,key=value: smoothgrad, attention,layer=0,head=2")
    parser.add_argument("--list", action="store_true", help="list all methods with their parameters, and exit")
    add_source(parser, more="; - for stdin", required=False)
    parser.add_argument("--target", metavar="TEXT", help="its translation, likewise; without it the model translates")
    parser.add_argument("--out", default=_STANDARD, metavar="FILE", help="links, line by line (default: stdout)")
    parser.add_argument("--scores", action="store_true", help="with the score of each link: 0-0:0.83")
    parser.add_argument(
        "--extraction", choices=EXTRACTIONS, default=EXTRACTIONS[0], help="from pieces to words (docs/conventions.md)"
    )
    add_adaptive(parser)
    translation = parser.add_argument_group("translation, without --target")
    translation.add_argument("--translation-out", metavar="FILE", help="write the translation there; - for stdout")
    translation.add_argument("--beam", type=count(BEAM), default=beam.beam, metavar="N", help=f"default {beam.beam}")
    translation.add_argument(
        "--length-penalty",
        type=real(LENGTH_PENALTY),
        default=beam.length_penalty,
        metavar="A",
        help=f"default {beam.length_penalty:g}",
    )
    translation.add_argument(
        "--max-ratio", type=real(MAX_RATIO), default=beam.max_ratio, metavar="R", help=f"default {beam.max_ratio:g}"
    )
    translation.add_argument(
        "--max-offset", type=count(MAX_OFFSET), default=beam.max_offset, metavar="N", help=f"default {beam.max_offset}"
    )
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    parser.epilog = (
        "example:\n  alignlens align --model results/demo/models/demo/xa-xb/transformer/1/model \\\n"
        "      --method smoothgrad --source text.xa --target text.xb\n\n"
        "A link i-j connects word i of the source with word j of the target, counted from 0. An empty line gives an\n"
        "empty line. alignlens train makes models, alignlens align --list shows the methods."
    )


def run(args: argparse.Namespace) -> None:
    """Aligns text window by window, in the order of the input."""
    if args.list:
        _print_methods()
        return
    method, beam = _check(args)
    source, target = (_STANDARD_INPUT if name == _STANDARD else name for name in (args.source, args.target))
    total = _count(source, target)
    trained = load(args)
    check_architectures([method], [trained.spec.architecture])
    links = 0
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("align", total))
        out = _opened(stack, args.out)
        translation = _opened(stack, args.translation_out) if args.translation_out else None
        first = 0
        for given, reference in _windows(source, target):
            source_ids = trained.source_ids(given)
            if reference is None:
                target_ids = _translated(trained, source_ids, beam, args.batch_tokens)
            else:
                target_ids = trained.target_ids(reference)
            for line in _link_lines(trained, source_ids, target_ids, method, first, args, progress):
                out.write(line + "\n")
                links += len(line.split())
            if translation is not None:
                translation.writelines(f"{trained.text(target_ids[k])}\n" for k in range(len(target_ids)))
            first += len(given)
    if args.json:
        print(json.dumps({"sentences": first, "links": links, "method": method.text}))


def _check(args: argparse.Namespace) -> tuple[Method, BeamSettings]:
    """Returns method and search settings, after looking at all options that can be wrong before anything is read."""
    missing = [f"--{name}" for name in ("model", "method", "source") if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing; see alignlens align --help, and --list for the methods")
    check_compute(args)
    check_adaptive(args.adaptive)
    if args.source == args.target == _STANDARD:
        raise ConfigError("only one of --source and --target can be standard input")
    if args.target is not None and args.translation_out is not None:
        raise ConfigError("--translation-out belongs to a translation by the model; leave out --target")
    if args.translation_out == args.out:
        raise ConfigError("links and translation would go to the same place; give --out another name")
    if args.json and _STANDARD in (args.out, args.translation_out):
        raise ConfigError("--json needs --out, since the links would go to standard output too")
    beam = BeamSettings(args.beam, args.length_penalty, args.max_ratio, args.max_offset)
    return parse(args.method), beam


def _count(source: str, target: str | None) -> int | None:
    """Returns the number of sentences, where it can be known before; raises if the texts differ in it."""
    from alignlens.decoding.given import count_of

    names = [name for name in (source, target) if name is not None]
    counts = [count for count in map(count_of, names) if count is not None]
    if len(counts) < len(names):
        return None
    check_equal_counts(list(names), counts)
    return counts[0]


def _windows(source: str, target: str | None) -> Iterator[tuple[Given, Given | None]]:
    """Yields some sentences of the source and those of the target that belong to them."""
    from alignlens.decoding.given import windows

    if target is None:
        yield from ((given, None) for given in windows(source, _WINDOW))
        return
    done = 0
    for given, reference in zip_longest(windows(source, _WINDOW), windows(target, _WINDOW)):
        lengths = [0 if side is None else len(side) for side in (given, reference)]
        if lengths[0] != lengths[1]:
            shorter, longer = (source, target) if lengths[0] < lengths[1] else (target, source)
            end = done + min(lengths)
            problem = f"ends after {end} lines, but {longer} goes on."
            raise InputError(problem, shorter, end, "Line n of both must belong together.")
        yield given, reference
        done += lengths[0]


def _translated(trained: TrainedModel, source_ids: TokenStore, beam: BeamSettings, tokens: int) -> TokenStore:
    """Returns the pieces that the model writes: they are what is explained, not the text that they spell."""
    from alignlens.decoding.sentences import stored
    from alignlens.decoding.translate import translate

    found = translate(trained.model, source_ids, beam, tokens=tokens, source_begin=trained.spec.source_begin)
    return stored([hypothesis.ids for hypothesis in found])


def _link_lines(
    trained: TrainedModel,
    source_ids: TokenStore,
    target_ids: TokenStore,
    method: Method,
    first: int,
    args: argparse.Namespace,
    progress: Progress,
) -> Iterator[str]:
    """Yields the links of a window of sentences, the first of which is sentence ``first`` of the text."""
    import numpy as np

    from alignlens.alignment.extraction import extract
    from alignlens.alignment.links import Alignment
    from alignlens.alignment.pharaoh import format_lines
    from alignlens.attribution.corpus import attribute
    from alignlens.subwords.spans import word_of_piece

    begin = trained.spec.source_begin
    found = attribute(
        trained.model,
        source_ids,
        target_ids,
        [method],
        tokens=args.batch_tokens,
        source_begin=begin,
        adaptive=args.adaptive,
        first=first,
        workers=workers(args),
        advance=progress.advance,
    )
    rows: list[tuple[int, int, int, float]] = []
    for place, matrices in found:
        source_words = word_of_piece(trained.source.pieces_of(source_ids[place]))
        target_words = word_of_piece(trained.target.pieces_of(target_ids[place]))
        links = extract(matrices[method.text], source_words, target_words, args.extraction, begin=begin)
        rows += [(place, *link) for link in links]
    table = np.array(rows, np.float64).reshape(-1, 4)
    sentence, source, target = table[:, :3].astype(np.int64).T
    scores = table[:, 3] if args.scores else None
    return format_lines(Alignment.from_arrays(sentence, source, target, len(source_ids), scores))


def _opened(stack: ExitStack, name: str) -> TextIO:
    """Returns standard output, or a file that appears under its name when the stack ends without an error."""
    if name == _STANDARD:
        return sys.stdout
    temporary = stack.enter_context(atomic_path(name))
    return stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))


def _print_methods() -> None:
    for name, spec in METHODS.items():
        parameters = "; ".join(
            f"{key}={parameter.default} ({parameter.accepts})" for key, parameter in spec.parameters.items()
        )
        lines = {"parameters": parameters, "paper": spec.paper, "equation": spec.equation, "cost": spec.cost}
        if spec.only is not None:
            lines["models"] = f"{' and '.join(spec.only.architectures)} only: {spec.only.reason}"
        print(f"{name}: {spec.summary}")
        for label, text in lines.items():
            print(f"  {label:<10}  {text}")
