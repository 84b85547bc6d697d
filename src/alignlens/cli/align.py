"""``alignlens align``: links for one's own text, from a trained translation model by any method, or by a recipe."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
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
from alignlens.cli.trained import (
    SHARED,
    add_compute,
    add_masks,
    add_model,
    add_reverse,
    add_source,
    check_compute,
    load,
    load_reverse,
    masks_beside,
    masks_for,
    workers,
)
from alignlens.errors import ConfigError
from alignlens.io.progress import Progress
from alignlens.recipes.recipe import AlignmentRecipe, read_recipe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from alignlens.alignment.links import Alignment
    from alignlens.alignment.tags import Marked
    from alignlens.attribution.registry import Method
    from alignlens.cli.pairs import Window
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.recipes.asked import Asked

    Aligner = Callable[[Window], Alignment]

OUTPUTS = Outputs(files=("out", "translation_out", "tags"), words=("reverse_weights",))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, required=False)
    add_reverse(parser, ", for a recipe of two directions")
    add_masks(parser)
    parser.add_argument(
        "--recipe", type=Path, metavar="FILE", help="what alignlens calibrate wrote, instead of --method"
    )
    parser.add_argument("--method", metavar="M", help="name or name,key=value: smoothgrad, attention,layer=0,head=2")
    parser.add_argument("--list", action="store_true", help="list all methods with their parameters, and exit")
    add_source(parser, more="; - for stdin", required=False)
    parser.add_argument(
        "--target", metavar="TEXT", help="its translation (text or token store); without it, the model translates"
    )
    parser.add_argument("--out", default=STANDARD, metavar="FILE", help="links, line by line (default: stdout)")
    parser.add_argument("--scores", action="store_true", help="write the score of each link: 0-0:0.83")
    parser.add_argument(
        "--tags",
        metavar="FILE",
        help="the source has inline markup (<b>…</b>, <x/>): hide it from the model, and write the target with the "
        "markup around the linked words to this file; - for stdout",
    )
    parser.add_argument(
        "--extraction",
        choices=EXTRACTIONS,
        help=f"from pieces to words, with --method (default {EXTRACTIONS[0]}; docs/conventions.md)",
    )
    add_adaptive(parser)
    add_translation(parser)
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    parser.epilog = (
        "example:\n  alignlens align --model results/demo/models/demo/xa-xb/transformer/1/model \\\n"
        "      --method smoothgrad --source text.xa --target text.xb\n"
        "  alignlens align --model de-en/model --reverse en-de/model --recipe recipe.json \\\n"
        "      --source text.de --target text.en --scores\n\n"
        "A link i-j connects word i of the source with word j of the target, counted from 0. An empty line gives an\n"
        "empty line. alignlens train makes models, alignlens calibrate makes recipes, --list shows the methods."
    )


def run(args: argparse.Namespace) -> None:
    """Aligns text window by window, in the order of the input."""
    if args.list:
        _print_methods()
        return
    asked = _check(args)
    source, target = (STANDARD_INPUT if name == STANDARD else name for name in (args.source, args.target))
    total = count_pairs(source, target)
    trained = load(args)
    directions = 1 if args.reverse is None else 2
    sentences = links = 0
    with ExitStack() as stack:
        # With two models every sentence is read twice.
        progress = stack.enter_context(Progress("align", total and total * directions))
        if isinstance(asked, AlignmentRecipe):
            aligned = _by_recipe(args, trained, asked, progress)
        else:
            aligned = _by_method(args, trained, asked, progress)
        out = opened(stack, args.out)
        translation = opened(stack, args.translation_out) if args.translation_out else None
        tagged = opened(stack, args.tags) if args.tags else None
        markup = _Markup()
        taken = (lambda given: given) if tagged is None else markup.taken
        for window in explained_windows(trained, source, target, args, translation, taken):
            sentences += len(window.explained)
            word_links = aligned(window)
            for line in _lines(word_links, args.scores):
                out.write(line + "\n")
                links += len(line.split())
            if tagged is not None:
                tagged.writelines(f"{line}\n" for line in markup.carried(window, word_links, trained))
    if args.json:
        how = {"recipe": str(args.recipe)} if isinstance(asked, AlignmentRecipe) else {"method": asked.text}
        print(json.dumps({"sentences": sentences, "links": links, **how}))


class _Markup:
    """Inline markup of a window of the source: taken out before it is read, and put into its translation."""

    def __init__(self) -> None:
        self._lines: list[Marked] = []

    def taken(self, given: Given) -> Given:
        """Returns the source without its tags."""
        from alignlens.alignment.tags import Marked
        from alignlens.corpora.tokens import TokenStore
        from alignlens.decoding.given import Given

        if isinstance(given.content, TokenStore):
            raise ConfigError(f"--tags: {given.name} is a token store, which has no markup. Give the text.")
        named = enumerate(given.content, start=given.first)
        self._lines = [Marked.of(line, str(given.name), number) for number, line in named]
        return Given(given.name, [each.text for each in self._lines], given.first)

    def carried(self, window: Window, links: Alignment, trained: TrainedModel) -> Iterator[str]:
        """Yields the lines of the target with the tags."""
        target_lines = window.target.as_text(trained.target).content
        for place, (marked, pairs) in enumerate(zip(self._lines, links, strict=True)):
            yield marked.carried(str(target_lines[place]), pairs)


def _check(args: argparse.Namespace) -> Method | AlignmentRecipe:
    """Returns the method or the recipe, after checking the options before anything is read."""
    missing = [f"--{name}" for name in ("model", "source") if getattr(args, name) is None]
    if args.method is None and args.recipe is None:
        missing.insert(len(missing) - (args.source is None), "--method")
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing; see alignlens align --help, and --list for the methods")
    check_compute(args)
    check_adaptive(args.adaptive)
    if args.source == args.target == STANDARD:
        raise ConfigError("only one of --source and --target can be standard input")
    check_translation(args)
    places = [name for name in (args.out, args.translation_out, args.tags) if name is not None]
    if len(set(places)) < len(places):
        raise ConfigError("links and translation would go to the same file; give --out another name")
    if args.json and STANDARD in places:
        raise ConfigError("--json needs --out: otherwise the links would go to standard output, too")
    if args.recipe is None:
        if args.reverse is not None:
            raise ConfigError("--reverse belongs to --recipe; --method uses only one model. Leave one of them out.")
        return parse(args.method)
    return _checked_recipe(args)


def _checked_recipe(args: argparse.Namespace) -> AlignmentRecipe:
    """Returns the recipe; raises if the options do not go with it."""
    for option in ("method", "extraction"):
        if getattr(args, option) is not None:
            raise ConfigError(
                f"--{option} and --recipe exclude each other: the recipe says how words are linked. Leave one out."
            )
    recipe = read_recipe(args.recipe)
    if recipe.reverse is not None and args.reverse is None:
        raise ConfigError(
            f"--recipe {args.recipe}: has two directions. Give the model of the other one with --reverse."
        )
    if recipe.reverse is None and args.reverse is not None:
        raise ConfigError(
            f"--recipe {args.recipe}: has one direction, so --reverse {args.reverse} has no use. "
            "Leave out --reverse, or make a recipe for both models: alignlens calibrate."
        )
    return recipe


def _lines(links: Alignment, scores: bool) -> Iterator[str]:
    """Yields a line of links for every sentence."""
    from dataclasses import replace

    from alignlens.alignment.pharaoh import format_lines

    return format_lines(links if scores else replace(links, scores=None))


def _by_method(args: argparse.Namespace, trained: TrainedModel, method: Method, progress: Progress) -> Aligner:
    """Returns the function that makes the links of a window by a method."""
    import numpy as np

    from alignlens.alignment.extraction import extract
    from alignlens.alignment.links import Alignment
    from alignlens.subwords.spans import word_of_piece

    check_architectures([method], [trained.spec.architecture])
    masks = masks_for(args, trained, [method])
    extraction, begin = args.extraction or EXTRACTIONS[0], trained.spec.source_begin

    def aligned(window: Window) -> Alignment:
        scores = scores_of_window(trained, window, method, args, progress, args.adaptive, masks)
        rows: list[tuple[int, int, int, float]] = []
        for place, matrices in scores:
            source_words = word_of_piece(trained.source.pieces_of(window.read[place]))
            target_words = word_of_piece(trained.target.pieces_of(window.explained[place]))
            links = extract(matrices[method.text], source_words, target_words, extraction, begin=begin)
            rows += [(place, *link) for link in links]
        table = np.array(rows, np.float64).reshape(-1, 4)
        sentence, source, target = table[:, :3].astype(np.int64).T
        return Alignment.from_arrays(sentence, source, target, len(window.explained), table[:, 3])

    return aligned


def _by_recipe(args: argparse.Namespace, trained: TrainedModel, recipe: AlignmentRecipe, progress: Progress) -> Aligner:
    """Returns the function that makes the links of a window by a recipe."""
    from alignlens.recipes.asked import Pieces
    from alignlens.recipes.links import check_models, recipe_links

    models = _models(args, trained, recipe)
    check_models(recipe, models, str(args.recipe))

    def aligned(window: Window) -> Alignment:
        forward = Pieces(trained, window.read, window.explained, window.first)
        pieces = [forward, *(forward.turned(each.trained, window.source, window.target) for each in models[1:])]
        return recipe_links(recipe, models, pieces, progress.advance)

    return aligned


def _models(args: argparse.Namespace, trained: TrainedModel, recipe: AlignmentRecipe) -> Sequence[Asked]:
    """Returns the models of all directions of a recipe, with the masks that they need."""
    from alignlens.recipes.asked import Asked

    forward, reverse = recipe.forward.methods, [] if recipe.reverse is None else recipe.reverse.methods
    speed = args.batch_tokens, workers(args)
    models = [Asked(trained, *speed, masks_for(args, trained, forward), args.adaptive)]
    check_architectures(forward, [trained.spec.architecture])
    if reverse:
        other = load_reverse(args)
        check_architectures(reverse, [other.spec.architecture])
        models.append(Asked(other, *speed, masks_beside(other, reverse), args.adaptive))
    return models


def _print_methods() -> None:
    for name, spec in METHODS.items():
        parameters = (
            f"{key}={parameter.default} ({parameter.accepts}): {parameter.about.replace('`', '')}"
            for key, parameter in spec.parameters.items()
        )
        lines = {"paper": [spec.paper], "equation": [spec.equation], "cost": [spec.cost], "parameters": parameters}
        if spec.only is not None:
            lines["models"] = [f"{' and '.join(spec.only.architectures)} only: {spec.only.reason}"]
        print(f"{name}: {spec.summary}")
        for label, texts in lines.items():
            for place, text in enumerate(texts):
                print(f"  {label if place == 0 else '':<10}  {text}")
