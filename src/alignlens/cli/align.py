"""``alignlens align``: links for one's own text, from a trained translation model and any method."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.attribution.registry import METHODS, check_architectures, parse
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.attribute import add_adaptive, check_adaptive
from alignlens.cli.pairs import (
    STANDARD,
    STANDARD_INPUT,
    add_translation,
    check_translation,
    count_pairs,
    explained_windows,
    opened,
    scores_of_window,
)
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import SHARED, add_compute, add_masks, add_model, add_source, check_compute, load, masks_for
from alignlens.errors import ConfigError
from alignlens.io.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq

OUTPUTS = Outputs(files=("out", "translation_out"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, required=False)
    add_masks(parser)
    parser.add_argument("--method", metavar="M", help="name or name,key=value: smoothgrad, attention,layer=0,head=2")
    parser.add_argument("--list", action="store_true", help="list all methods with their parameters, and exit")
    add_source(parser, more="; - for stdin", required=False)
    parser.add_argument("--target", metavar="TEXT", help="its translation, likewise; without it the model translates")
    parser.add_argument("--out", default=STANDARD, metavar="FILE", help="links, line by line (default: stdout)")
    parser.add_argument("--scores", action="store_true", help="with the score of each link: 0-0:0.83")
    parser.add_argument(
        "--extraction", choices=EXTRACTIONS, default=EXTRACTIONS[0], help="from pieces to words (docs/conventions.md)"
    )
    add_adaptive(parser)
    add_translation(parser)
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
    method = _check(args)
    source, target = (STANDARD_INPUT if name == STANDARD else name for name in (args.source, args.target))
    total = count_pairs(source, target)
    trained = load(args)
    check_architectures([method], [trained.spec.architecture])
    masks = masks_for(args, trained, [method])
    sentences = links = 0
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("align", total))
        out = opened(stack, args.out)
        translation = opened(stack, args.translation_out) if args.translation_out else None
        for window in explained_windows(trained, source, target, args, translation):
            sentences += len(window[1])
            for line in _link_lines(trained, window, method, args, progress, masks):
                out.write(line + "\n")
                links += len(line.split())
    if args.json:
        print(json.dumps({"sentences": sentences, "links": links, "method": method.text}))


def _check(args: argparse.Namespace) -> Method:
    """Returns the method, after looking at all options that can be wrong before anything is read."""
    missing = [f"--{name}" for name in ("model", "method", "source") if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing; see alignlens align --help, and --list for the methods")
    check_compute(args)
    check_adaptive(args.adaptive)
    if args.source == args.target == STANDARD:
        raise ConfigError("only one of --source and --target can be standard input")
    check_translation(args)
    if args.translation_out == args.out:
        raise ConfigError("links and translation would go to the same place; give --out another name")
    if args.json and STANDARD in (args.out, args.translation_out):
        raise ConfigError("--json needs --out, since the links would go to standard output too")
    return parse(args.method)


def _link_lines(
    trained: TrainedModel,
    window: tuple[int, TokenStore, TokenStore],
    method: Method,
    args: argparse.Namespace,
    progress: Progress,
    masks: Seq2Seq | None,
) -> Iterator[str]:
    """Yields the links of a window of sentences."""
    import numpy as np

    from alignlens.alignment.extraction import extract
    from alignlens.alignment.links import Alignment
    from alignlens.alignment.pharaoh import format_lines
    from alignlens.subwords.spans import word_of_piece

    begin, (_, source_ids, target_ids) = trained.spec.source_begin, window
    found = scores_of_window(trained, window, method, args, progress, args.adaptive, masks)
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
